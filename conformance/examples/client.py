"""A client of Stile's protocol, version 1, for asyncio.

It was written from SPEC.md alone; numbers in comments are its sections. From the bottom up:

- a Conn is one connection: it sends requests, finds the request that an answer belongs to, and pings;
- a Slot keeps one connection to one address, by the beat of 13.2;
- a Client has the slots, and its calls (acquire, keep, release) move from one connection to the next;
- a Lock is what an acquire returns.

Everything runs in one event loop, so nothing needs a mutex.
"""
import asyncio
import collections
import ipaddress
import itertools
import logging
import math
import random
import secrets
import socket
import struct
import time

from codec import NAME, KEY, Splitter, encode_request, ok_addr, ok_key, parse_answer

log = logging.getLogger("stile")
now = time.monotonic  # leases and waits run on a monotonic clock (7.4)

BEAT = 3.0  # 13.2
PING_AFTER, PONG_WITHIN, PING_IDLE = 1.0, 2.0, 15.0  # 13.3
OWN_CLOCK = 0.2  # how long after its limit a call ends by itself (13.6)
DIAL = 1.0  # 13.7
RESEND, DELIVER_FOR = 0.2, 5.0  # 13.12
REDIRECTS = 10  # 13.10
KEEP_UNLISTED = 30.0  # 13.8
UNANSWERED = 1000  # 3.6: below 1,024

# The codes that say that nothing happened (5.3). Any other, an unknown one too, may have had an effect (5.4).
NO_EFFECT = {b"bad-request", b"bad-key", b"unknown-op", b"not-held", b"spent", b"queue-full", b"limit", b"unauthorized",
             b"version", b"no-active", b"stopping"}


class StileError(Exception):
    """kind says what happened, outcome whether it took effect: "no" or "maybe" (13.14)."""
    kind = "other"

    def __init__(self, text, outcome="no"):
        super().__init__(text)
        self.outcome = outcome


class TimedOut(StileError):
    kind = "timeout"


class NoConnection(StileError):
    kind = "no_connection"


class NoActive(StileError):
    kind = "no_active"


class NotHeld(StileError):
    kind = "not_held"


class Undelivered(StileError):
    kind = "undelivered"


class Unsupported(StileError):
    kind = "unsupported"


class Closed(StileError):
    kind = "closed"


class Refused(StileError):
    kind = "refused"

    def __init__(self, answer):
        text = (answer["code"] + b" " + answer["text"]).decode("latin-1").rstrip()
        super().__init__(text, "no" if answer["code"] in NO_EFFECT else "maybe")
        self.code = answer["code"]


def milliseconds(seconds, what):
    """Rounded up, as 13.6 wants it for a wait; what the wire can't carry is refused (13.15)."""
    if not 0 <= seconds < 10**9:  # false for NaN, too
        raise ValueError("%s: %r is not between 0 and 999999999.999 s" % (what, seconds))
    # 0.07 * 1000 is 70.00000000000001, and must not become 71.
    ms = math.ceil(round(seconds * 1000, 6))
    if ms > 999_999_999_999:
        raise ValueError("%s: %r is more than 999999999.999 s" % (what, seconds))
    return ms


def host_port(addr):
    host, _, port = addr.rpartition(":")
    return host.strip("[]"), int(port)


def ip_of(host):
    """The IP address that host spells, or None for a name."""
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


class Pending:
    """A request that was sent. answer becomes what parse_answer made of its answer, or None if the connection was lost."""

    def __init__(self, request, seq, limit):
        self.op, self.key, self.seq, self.limit = request["op"], request["key"], seq, limit
        self.answer = asyncio.get_running_loop().create_future()
        self.sent = now()

    def result(self):
        return self.answer.result() if self.answer.done() else None


class Conn:
    """One live connection."""

    def __init__(self, client, slot, reader, writer):
        self.client, self.slot, self.reader, self.writer = client, slot, reader, writer
        self.sock = writer.get_extra_info("socket")
        self.peer = writer.get_extra_info("peername")
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.alive, self.spare, self.profiles = True, False, frozenset()
        # The answers carry no number: each belongs to the oldest request with its op and key (3.2).
        self.pending = collections.defaultdict(collections.deque)
        self.unanswered = 0
        self.busy_since = self.read_at = self.ping_sent = now()
        self.ping = None
        self.counted_from = 0.0  # when the latest request was sent whose answer has been read (13.11)
        self.lost = asyncio.get_running_loop().create_future()
        client.spawn(self.read())
        client.spawn(self.watch())

    def has(self, profile):
        return profile in self.profiles

    def send(self, request, seq=0, limit=None):
        p = Pending(request, seq, limit)
        if not self.alive:
            p.answer.set_result(None)
            return p
        if not self.unanswered:
            self.busy_since = p.sent
        self.pending[p.op, p.key].append(p)
        self.unanswered += 1
        self.writer.write(encode_request(request))
        return p

    async def read(self):
        lines, why = Splitter(), "the server closed the connection"
        try:
            while data := await self.reader.read(65536):
                self.read_at = now()
                for line in lines.feed(data):
                    if not self.take_answer(line):
                        # Something is out of step; nothing on this connection can be trusted any more (13.13).
                        why = "an answer that fits nothing: %r" % line
                        return
                if lines.too_long:
                    why = "a line of more than 1,024 bytes"
                    return
        except OSError as e:
            why = str(e)
        finally:
            self.reset(why)

    def take_answer(self, line):
        """Gives an answer to its request; false if there is none."""
        a = parse_answer(line)
        if a is None or a["for"] is None or "key" not in a:  # no answer at all, E ? ?, E op ?
            return False
        queue = self.pending.get((a["for"], a["key"]))
        if not queue:
            return False
        p = queue[0]
        if a["op"] == b"A":
            if not self.client.first_time(a["token"]):
                return False
            a["counted_from"] = max(p.sent, self.counted_from)
            a["read"] = now()
        queue.popleft()
        if not queue:
            del self.pending[p.op, p.key]
        self.unanswered -= 1
        self.counted_from = max(self.counted_from, p.sent)
        if p is self.ping:
            self.ping = None  # E P word unknown-op is as good as a pong
        p.answer.set_result(a)
        return True

    async def watch(self):
        """Pings, and gives a dead connection up (13.3)."""
        while self.alive:
            t = now()
            silent_since = max(self.read_at, self.busy_since)
            if self.ping:
                if t - max(self.read_at, self.ping.sent) >= PONG_WITHIN:
                    self.reset("no sign of life for %g s after a ping" % PONG_WITHIN)
            elif self.unanswered:
                # An acquire that waits is reason for a ping every second, silence or not: its answer moves the
                # instant from which the lease is counted (13.11).
                acquires = [q[0].sent for (op, _), q in self.pending.items() if op == b"A"]
                if t - silent_since >= PING_AFTER or acquires and t - max(self.ping_sent, min(acquires)) >= PING_AFTER:
                    self.send_ping()
            elif t - self.read_at >= PING_IDLE:
                self.send_ping()
            await asyncio.sleep(0.05)

    def send_ping(self):
        self.ping = self.send({"op": b"P", "key": b"p%d" % next(self.client.words)})
        self.ping_sent = self.ping.sent

    def reset(self, why):
        if not self.alive:
            return
        self.alive = False
        self.slot.why = why
        log.info("%s: lost: %s", self.slot.addr, why)
        # A reset, not an orderly close: what is still in the send buffer must not arrive later (11.3).
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.writer.transport.abort()
        left = [p for q in self.pending.values() for p in q]
        self.pending.clear()
        self.unanswered = 0
        # Tasks wake in this order: the oldest acquire is the first to move on (9.9).
        for p in sorted(left, key=lambda p: (p.seq, p.sent)):
            p.answer.set_result(None)
        self.lost.set_result(None)

    def acquires(self, key):
        return self.pending.get((b"A", key), ())


class Slot:
    """Keeps one connection to one address."""

    def __init__(self, client, addr, listed=True):
        self.client, self.addr, self.listed = client, addr, listed
        self.conn, self.why, self.refused = None, "not dialled yet", False
        self.wake = asyncio.Event()
        self.dialled = asyncio.get_running_loop().create_future()  # whether the dial under way, or the next one, worked
        self.dialling = True
        self.task = client.spawn(self.run())

    def live(self):
        return self.conn is not None and self.conn.alive

    async def dial(self):
        host, port = host_port(self.addr)
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), DIAL)
        conn = Conn(self.client, self, reader, writer)
        hello = {"op": b"H", "key": b"1", "name": self.client.name}
        # Without TLS the secret goes to nobody whom the user did not name (13.9).
        if self.client.secret is not None and self.listed:
            hello["secret"] = self.client.secret
        # Nothing else is sent before the answer, so that all acquires have a nonce where they may (10.2).
        try:
            a = await conn.send(hello).answer
        except asyncio.CancelledError:
            conn.reset("given up")
            raise
        if a is None:
            raise OSError(self.why)
        if a["op"] == b"H":
            conn.profiles = frozenset(p.decode("latin-1") for p in a["profiles"])
        elif a["op"] == b"E" and a["code"] != b"unknown-op":
            log.warning("%s: hello: %s", self.addr, a["code"].decode("latin-1"))
        return conn

    async def run(self):
        while True:
            self.refused = False
            try:
                self.conn = await self.dial()
            except (OSError, ValueError, asyncio.TimeoutError) as e:  # ValueError: a host name that can't be one
                self.why = str(e) or "no connection within %g s" % DIAL
                self.refused = isinstance(e, ConnectionRefusedError)
            self.dialling = False
            self.dialled.set_result(self.conn is not None)
            if self.conn:
                await self.conn.lost
            self.conn = None
            self.dialled = asyncio.get_running_loop().create_future()
            self.wake.clear()
            try:
                await asyncio.wait_for(self.wake.wait(), BEAT * random.uniform(0.9, 1.1))
            except asyncio.TimeoutError:
                pass
            self.dialling = True

    async def demand(self, within=DIAL):
        """Dials now, or waits for the dial that is under way; says whether the slot is live (13.7)."""
        if self.live():
            return True
        self.wake.set()
        try:
            await asyncio.wait_for(asyncio.shield(self.dialled), within)
        except asyncio.TimeoutError:
            pass
        return self.live()

    def stop(self, why):
        self.task.cancel()
        if self.conn:
            self.conn.reset(why)


class Lock:
    """What an acquire got. Give token to the thing that the lock protects, and let it refuse lower ones (8.3)."""

    def __init__(self, client, key, token, conn):
        self.client, self.key, self.token, self.conn = client, key, token, conn
        self.until = 0.0  # by this client's clock, and never after the server's own instant (13.11)
        self.released, self.lost = False, asyncio.Event()
        self.timer = None

    def left(self):
        return self.until - now()

    def held(self):
        return not self.released and not self.lost.is_set() and self.left() > 0

    def extend(self, until):
        self.until = until
        if self.timer:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(max(0, self.left()), self.check)

    def check(self):
        if self.left() > 0:
            self.extend(self.until)  # the timer was early
        elif not self.released:
            self.lost.set()

    def lose(self):
        self.until = min(self.until, now())
        self.check()

    def over(self):
        self.released = True
        if self.timer:
            self.timer.cancel()


class Acquire:
    """The state of one call of acquire, over all its requests."""

    def __init__(self, key, wait_ms, lease_ms, seq):
        self.key, self.lease_ms, self.seq, self.start = key, lease_ms, seq, now()
        self.wait_ms = wait_ms  # 0: no limit, -1: do not queue (as on the wire)
        self.limit = self.start + wait_ms / 1000 if wait_ms > 0 else None
        self.ends = None if wait_ms == 0 else self.start + max(0, wait_ms) / 1000 + OWN_CLOCK
        self.nonce = None
        self.conn = self.pending = None  # of the latest request
        self.unsettled = False  # a request was lost with its connection, and nobody knows what became of it
        self.served_by_none = False  # somebody answered that it does not serve
        self.redirects = 0
        self.unserved = self.start  # since when nobody serves it, as far as is known
        self.moving = None  # an event, from the loss of a connection until it has asked anew, or failed
        self.begin_anew()

    def moves(self):
        self.moving = self.moving or asyncio.Event()

    def moved(self):
        if self.moving:
            self.moving.set()
        self.moving = None

    def begin_anew(self):
        self.tried, self.dialled, self.reasons = set(), set(), {}

    def fresh_nonce(self):
        self.nonce, self.unsettled = None, False
        self.begin_anew()


class Client:
    """addrs: where the servers are, as host:port. All calls are coroutines, and durations are seconds."""

    def __init__(self, addrs, name=b"python", secret=None, only_listed=False, retry_for=0.0):
        if not addrs:
            raise ValueError("no address")
        for addr in addrs:
            if not ok_addr(addr.encode()) or host_port(addr)[1] == 0:
                raise ValueError("%r is no address" % addr)
        if not NAME.match(name):
            raise ValueError("the name must be 1 to 64 bytes without spaces and control bytes")
        if secret is not None and not KEY.match(secret):
            raise ValueError("the secret must be 1 to 255 bytes without spaces and control bytes")
        self.name, self.secret, self.only_listed, self.retry_for = name, secret, only_listed, retry_for
        self.tasks, self.calls, self.deliveries, self.closed = set(), set(), set(), False
        self.acquires = []  # those that are being tried
        self.words, self.seqs, self.nonces = itertools.count(1), itertools.count(1), itertools.count(1)
        self.nonce_base = secrets.token_urlsafe(12).encode()  # 16 random characters (9.8)
        self.seen = collections.OrderedDict()  # the latest tokens
        self.rests = {}  # address: until when a redirect to it is not followed
        self.cursor = 0
        addrs = list(dict.fromkeys(addrs))
        # Two connections to a single address, so that a call has somewhere to go when one dies (13.1).
        self.slots = [Slot(self, a) for a in (addrs * 2 if len(addrs) == 1 else addrs)]

    async def close(self):
        self.closed = True
        for call in list(self.calls):
            call.cancel()
        # What is being given back, or cancelled, gets a moment: it would stay held until its lease ends.
        await asyncio.sleep(0)
        if self.deliveries and any(s.live() for s in self.slots):
            await asyncio.wait(set(self.deliveries), timeout=1)
        for slot in self.slots:
            slot.stop("closed")
        for task in list(self.tasks):
            task.cancel()

    def spawn(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def first_time(self, token):
        """Whether no other call has got this token (13.13)."""
        if token in self.seen:
            return False
        self.seen[token] = True
        if len(self.seen) > 100_000:
            self.seen.popitem(last=False)
        return True

    # -- Which connection

    def in_rotation(self):
        """(place, connection), beginning at the cursor. Spares serve only when nothing else is live (13.5)."""
        n = len(self.slots)
        live = [((self.cursor + i) % n, self.slots[(self.cursor + i) % n]) for i in range(n)]
        live = [(i, s.conn) for i, s in live if s.live()]
        return [(i, c) for i, c in live if not c.spare] or live

    def next_for(self, call):
        """The next connection for this acquire, or None. Only acquires move the cursor (13.4)."""
        found = [(i, c) for i, c in self.in_rotation() if c not in call.tried and c.unanswered < UNANSWERED]
        if call.unsettled:
            # Where the answer would be stuck behind a younger call's, the nonce is not repeated (9.9). An empty line
            # is best.
            found = [(i, c) for i, c in found if not self.behind_a_younger(c, call)]
            found.sort(key=lambda ic: bool(ic[1].acquires(call.key)))
        if call.limit is not None:
            # Nor behind a request that may wait for longer than this one (13.6).
            found.sort(key=lambda ic: any(p.limit is None or p.limit > call.limit for p in ic[1].acquires(call.key)))
        if not found:
            return None
        place, conn = found[0]
        self.cursor = (place + 1) % len(self.slots)
        return conn

    @staticmethod
    def behind_a_younger(conn, call):
        return any(p.seq > call.seq for p in conn.acquires(call.key))

    def some_conn(self, home, profile):
        """For R, K and C: the connection that the grant came from, else along the rotation (13.4)."""
        if home and home.alive:
            return home
        return next((c for _, c in self.in_rotation() if c.has(profile) or profile == "core"), None)

    async def some_dialled(self, profile, end):
        """Like some_conn, when nothing is live."""
        for slot in list(self.slots):
            if now() < end and await slot.demand(min(DIAL, end - now())) and (slot.conn.has(profile) or profile == "core"):
                return slot.conn
        return None

    async def follow(self, addr, conn, tries):
        """Where an M of this connection leads: a connection, or None if it is not followed (13.8 to 13.10)."""
        conn.spare = True
        host, port = host_port(addr)
        ip, peer = ip_of(host), ip_of(conn.peer[0])
        why = None
        if port == 0 or ip and ip.is_unspecified:
            why = "nobody can be there"
        elif addr == conn.slot.addr or ip and (ip, port) == (peer, conn.peer[1]):
            why = "it is the node that says so"
        elif (ip and ip.is_loopback or host == "localhost") and not (peer and peer.is_loopback):
            why = "a loopback address of another machine"
        elif self.rests.get(addr, 0) > now():
            why = "it failed a moment ago"
        slots = [s for s in self.slots if s.addr == addr]
        if self.only_listed and not any(s.listed for s in slots):
            why = "it was not listed"
        if why:
            log.warning("%s: redirect to %s not followed: %s", conn.slot.addr, addr, why)
            return None
        if tries > 1:
            await asyncio.sleep(min(1, 0.05 * 2 ** (tries - 2)))
            slots = [s for s in self.slots if s.addr == addr]
        if not slots:
            slots = [Slot(self, addr, listed=False)]
            self.slots += slots
            self.spawn(self.retire(slots[0]))
        slot = next((s for s in slots if s.live()), slots[0])
        if await slot.demand():
            for s in slots:
                if s.live():
                    s.conn.spare = False
            return slot.conn
        self.rests[addr] = now() + (0.25 if slot.refused else 3)
        log.warning("%s: redirect to %s failed: %s", conn.slot.addr, addr, slot.why)
        return None

    async def retire(self, slot):
        """An address that only a redirect named is dropped 30 s after it ceased to serve (13.8)."""
        served = now()
        while now() - served < KEEP_UNLISTED:
            await asyncio.sleep(0.2)
            if slot.live() and not slot.conn.spare:
                served = now()
        place = self.slots.index(slot)
        del self.slots[place]
        if place < self.cursor:
            self.cursor -= 1
        self.cursor %= len(self.slots)
        slot.stop("it has not served for %g s" % KEEP_UNLISTED)

    # -- Acquire

    async def acquire(self, key, wait=None, lease=30.0):
        """Returns a Lock. wait None: no limit; 0: do not queue. lease 0: the server's default.

        Keep the lock after a third of its lease, and watch lock.lost.
        """
        if not ok_key(key):
            raise ValueError("a key is 1 to 255 bytes without spaces and control bytes, and not a single ?")
        wait_ms = 0 if wait is None else milliseconds(wait, "wait") or -1
        call = Acquire(key, wait_ms, milliseconds(lease, "lease"), next(self.seqs))
        if self.closed:
            raise Closed("the client is closed")
        task = self.spawn(self.run_acquire(call))
        self.calls.add(task)
        try:
            await asyncio.wait({task}, timeout=None if call.ends is None else call.ends - now())
        except asyncio.CancelledError:
            # The caller gave up.
            if not task.cancel() and not task.cancelled() and not task.exception():
                self.give_back(task.result())
            self.abandon(call)
            raise
        finally:
            self.calls.discard(task)
        if task.done():
            if task.cancelled():
                self.abandon(call)
                raise Closed("the client was closed", "maybe" if call.pending else "no")
            if task.exception():
                if call.unsettled:
                    task.exception().outcome = "maybe"
                    self.abandon(call)
                raise task.exception()
            return task.result()
        task.cancel()
        unknown = call.unsettled or call.pending is not None and not call.pending.answer.done()
        self.abandon(call)
        raise TimedOut("no answer within the limit", "maybe" if unknown else "no")

    def abandon(self, call):
        """A call that ended without its answer must not leave a lock behind (13.6)."""
        p, conn = call.pending, call.conn
        if p is None:
            return
        answer = p.result()
        if call.nonce and (call.unsettled or not p.answer.done() or answer and answer["op"] == b"A"):
            self.deliver_later({"op": b"C", "key": call.key, "nonce": call.nonce}, conn)
        elif not call.nonce:
            # Without resume there is nothing to say now; the request is remembered, and a late grant released.
            p.answer.add_done_callback(lambda f: self.release_late(call.key, f.result(), conn))

    def release_late(self, key, answer, conn):
        if answer and answer["op"] == b"A":
            self.deliver_later({"op": b"R", "key": key, "token": answer["token"]}, conn)

    def give_back(self, lock):
        lock.over()
        self.deliver_later({"op": b"R", "key": lock.key, "token": lock.token}, lock.conn)

    async def run_acquire(self, call):
        while True:
            self.acquires.append(call)
            try:
                return await self.try_all(call)
            except (NoConnection, NoActive):
                if now() + RESEND > call.unserved + self.retry_for:
                    raise
            finally:
                self.acquires.remove(call)
                call.moved()
            await asyncio.sleep(RESEND)
            call.begin_anew()
            call.redirects = 0

    async def try_all(self, call):
        """Tries each live connection once, then each address that is down (13.7)."""
        named = None  # the connection that a redirect or a dial led to
        while True:
            if call.moving:
                await self.turn(call)
            if named and named.alive and named.unanswered >= UNANSWERED:
                await asyncio.sleep(0.05)  # many have dialled at once, and all may send here
                continue
            conn = named if named and named.alive else self.next_for(call)
            named = None
            untried = [c for _, c in self.in_rotation() if c not in call.tried]
            if conn is None and untried and all(c.unanswered >= UNANSWERED for c in untried):
                await asyncio.sleep(0.05)
                continue
            behind = conn is None and call.unsettled and untried
            if behind or conn and call.unsettled and self.behind_a_younger(conn, call):
                # Only connections are left on which the nonce must not be repeated: cancel it and start anew (9.9).
                try:
                    await self.deliver({"op": b"C", "key": call.key, "nonce": call.nonce}, conn)
                except StileError as e:
                    log.info("cancel: %s", e)
                call.fresh_nonce()
                continue
            if conn is None:
                named = await self.dial_for(call)
                continue
            a = await self.ask(call, conn)
            if a is None:
                call.reasons[conn.slot.addr] = conn.slot.why
                call.unsettled = True
                call.moves()
                # Did it have a place in line? If something was answered that was sent after the acquire, then the
                # server has read the acquire, and let it wait.
                if conn.counted_from > call.pending.sent:
                    call.begin_anew()
                    call.unserved = now()
                continue
            if a["op"] == b"A":
                lock = await self.lock_of(call, conn, a)
                if lock:
                    return lock
                call.fresh_nonce()
                continue
            if a["op"] == b"T":
                call.unsettled = False
                raise TimedOut("not granted within the limit")
            if a["op"] == b"M":
                addr = a["addr"].decode("latin-1")
                call.served_by_none = True
                call.reasons[conn.slot.addr] = "moved to " + addr
                call.redirects += 1
                if call.redirects > REDIRECTS:
                    raise NoActive("more than %d redirects; %s" % (REDIRECTS, self.reasons(call)))
                named = await self.follow(addr, conn, call.redirects)
                if named is None:
                    call.dialled.add(addr)
                continue
            if a["code"] in (b"no-active", b"stopping"):
                call.served_by_none = True
                call.reasons[conn.slot.addr] = a["code"].decode()
                continue
            if a["code"] == b"spent":
                call.fresh_nonce()
                continue
            raise Refused(a)

    async def turn(self, call):
        """Waits for older calls for the key that lost their connections, too: they move on oldest first (9.9)."""
        while older := [c for c in self.acquires if c.moving and c.key == call.key and c.seq < call.seq]:
            await older[0].moving.wait()

    async def ask(self, call, conn):
        """Sends the acquire over this connection, and returns its answer."""
        wait_ms = call.wait_ms
        if call.limit is not None and call.pending:
            wait_ms = milliseconds(max(0, call.limit - now()), "wait")
            if not wait_ms:  # 0 would mean: no limit
                raise TimedOut("the limit is over")
        request = {"op": b"A", "key": call.key, "wait_ms": wait_ms, "lease_ms": call.lease_ms}
        if conn.has("resume"):
            call.nonce = call.nonce or self.nonce_base + b"%d" % next(self.nonces)
            request["nonce"] = call.nonce
        call.tried.add(conn)
        call.conn, call.pending = conn, conn.send(request, call.seq, call.limit)
        call.moved()
        return await asyncio.shield(call.pending.answer)

    async def dial_for(self, call):
        """Dials one more address that is down, or fails when there is none."""
        live = {s.addr for s in self.slots if s.live()}
        down = [s for s in self.slots if s.addr not in live and s.addr not in call.dialled]
        if not down:
            kind = NoActive if call.served_by_none else NoConnection
            raise kind(self.reasons(call))
        # Those that are being dialled already first: whichever comes up first serves.
        slot = next((s for s in down if s.dialling), down[0])
        dial = asyncio.ensure_future(slot.demand())
        others = [s.dialled for s in self.slots if s.dialling and s is not slot]
        await asyncio.wait({dial, *others}, return_when=asyncio.FIRST_COMPLETED)
        if not dial.done():
            dial.cancel()
            return None
        call.dialled.add(slot.addr)
        return slot.conn if dial.result() else None

    def reasons(self, call):
        return ", ".join("%s: %s" % (a, call.reasons.get(a) or w) for a, w in {s.addr: s.why for s in self.slots}.items())

    async def lock_of(self, call, conn, a):
        """Makes a Lock of a grant, or None if too little of it is left: then the call starts anew (13.11)."""
        lock = Lock(self, call.key, a["token"], conn)
        lease = a["lease_ms"] / 1000
        lock.until = a["counted_from"] + lease
        if 0 < lease and lock.left() < lease / 2 and conn.has("keep"):
            # It was long on its way, or who knows when the wait ended. The server's lease ends at a["read"] + lease at
            # the latest.
            try:
                await self.keep_until(lock, call.lease_ms, a["read"] + lease)
            except NotHeld as e:
                if e.outcome == "no":
                    return None  # it is over; nothing is left to give back
                lock.until = 0.0
            except StileError as e:
                log.info("keep before handing out: %s", e)
                lock.until = 0.0
        if lock.left() <= 0:
            self.give_back(lock)
            return None
        call.unsettled = False
        lock.extend(lock.until)
        return lock

    # -- Keep

    async def keep(self, lock, lease=30.0):
        """Gives a lock a new lease. It is sent again, over any connection, until it is answered or the lease is over."""
        lease_ms = milliseconds(lease, "lease")
        if self.closed:
            raise Closed("the client is closed")
        if not lock.held():
            raise NotHeld("not held any more")
        if lock.conn.alive and not lock.conn.has("keep"):
            raise Unsupported("the server has no keep")
        await self.keep_until(lock, lease_ms, lock.until)

    async def keep_until(self, lock, lease_ms, end):
        request = {"op": b"K", "key": lock.key, "token": lock.token, "lease_ms": lease_ms}
        redirects, conn, outcome = 0, None, "no"
        while now() < end:
            conn = conn or self.some_conn(lock.conn, "keep") or await self.some_dialled("keep", end)
            if conn is None:
                await asyncio.sleep(RESEND)
                continue
            sent = conn.send(request)
            # However this call ends, the answer counts.
            sent.answer.add_done_callback(lambda f, sent=sent, conn=conn: self.kept(lock, sent, conn))
            await asyncio.wait({sent.answer}, timeout=end - now())
            a, asked, conn = sent.result(), conn, None
            if not a:
                outcome = "maybe"
            elif a["op"] == b"K":
                if lock.lost.is_set():
                    break
                return
            elif a["op"] == b"M":
                redirects += 1
                if redirects > REDIRECTS:
                    raise NoActive("more than %d redirects" % REDIRECTS, outcome)
                conn = await self.follow(a["addr"].decode("latin-1"), asked, redirects)
                if conn is None:
                    await asyncio.sleep(RESEND)
            elif a["code"] in (b"no-active", b"stopping"):
                await asyncio.sleep(RESEND)
            elif a["code"] == b"not-held":
                raise NotHeld("the server does not know this lock any more")
            else:
                raise Refused(a)
        raise NotHeld("no good answer before the lease was over", outcome)

    def kept(self, lock, sent, conn):
        a = sent.result()
        if a and a["op"] == b"K":
            if lock.lost.is_set():
                # Too late: the user was told that the lock is lost, and it stays so.
                self.give_back(lock)
            elif not lock.released:
                lock.conn = conn
                lock.extend(sent.sent + a["lease_ms"] / 1000)  # counted from the sending
        elif a and a["op"] == b"E" and a["code"] == b"not-held" and lock.timer:
            lock.lose()

    # -- Release, cancel

    async def release(self, lock):
        """Gives a lock back. A caller that gives up ends the call, not the sending."""
        if self.closed:
            raise Closed("the client is closed")
        lock.over()
        return await asyncio.shield(self.delivery({"op": b"R", "key": lock.key, "token": lock.token}, lock.conn, lock))

    def delivery(self, request, conn, lock=None):
        task = self.spawn(self.deliver(request, conn, lock))
        self.deliveries.add(task)
        task.add_done_callback(self.deliveries.discard)
        return task

    def deliver_later(self, request, conn):
        def done(task):
            if not task.cancelled() and task.exception():
                log.info("%s: %s", request["op"].decode(), task.exception())
        self.delivery(request, conn).add_done_callback(done)

    async def deliver(self, request, home, lock=None):
        """Sends R or C every 200 ms, for 5 s, while no live connection owes its answer (13.12)."""
        profile = "resume" if request["op"] == b"C" else "core"
        end = now() + DELIVER_FOR
        copies, unread = [], []  # all that may have had an effect; those of them whose answer is not looked at yet
        named, redirects = None, 0
        tick = now()
        while True:
            if named or now() >= tick and all(p.answer.done() for p, _ in unread):
                tick = now() + RESEND
                conn = named or self.some_conn(home, profile) or await self.some_dialled(profile, end)
                named = None
                if conn and conn.alive:
                    copy = conn.send(request), conn
                    copies.append(copy)
                    unread.append(copy)
            owed = {p.answer for p, _ in unread}
            until = end if any(not f.done() for f in owed) else min(tick, end)
            if owed and not all(f.done() for f in owed):
                await asyncio.wait(owed, timeout=max(0, until - now()), return_when=asyncio.FIRST_COMPLETED)
            elif not any(f.done() and f.result() for f in owed):
                await asyncio.sleep(max(0, until - now()))
            for copy in [c for c in unread if c[0].answer.done()]:
                unread.remove(copy)
                a, conn = copy[0].result(), copy[1]
                if a is None:
                    continue
                if a["op"] in (b"R", b"C"):
                    return
                if a["op"] == b"M":
                    copies.remove(copy)  # it certainly had no effect
                    redirects += 1
                    if redirects <= REDIRECTS:
                        named = await self.follow(a["addr"].decode("latin-1"), conn, redirects)
                elif a["code"] in (b"no-active", b"stopping"):
                    copies.remove(copy)
                elif a["code"] == b"not-held":
                    # An earlier copy may have done it, if the lease had time left.
                    if len(copies) > 1 and lock and lock.left() > 0:
                        return
                    raise NotHeld("the server does not know this lock any more")
                else:
                    raise Refused(a)
            if now() >= end:
                raise Undelivered("no answer within %g s" % DELIVER_FOR, "maybe" if copies else "no")
