"""A lock server that speaks version 1 of Stile's protocol, all profiles but the cluster.

It was written from SPEC.md alone; numbers in comments are its sections. Everything is in memory and in one thread: a
request takes effect as a whole before the next one is looked at, and so the order of 3.4 comes by itself. Time is in
nanoseconds of the monotonic clock (7.4).
"""
import argparse
import asyncio
import bisect
import collections
import heapq
import hmac
import itertools
import socket
import time

from codec import ALL, KEY, Refusal, Splitter, f_seconds, ok_addr, parse_request

MS = 10**6
GRACE = 1000 * MS  # how long a detached waiter keeps its place (9.6)
REMEMBER, REMEMBER_AT_LEAST, REMEMBER_AT_MOST = 10_000 * MS, 65_536, 1_000_000  # spent nonces (9.7)
MAX_UNANSWERED = 4096  # 3.6
MAX_WAITERS = 200_000  # for one key (6.4)
MAX_OUTPUT = 1 << 18  # bytes kept for a client that does not read (11.6)
MAX_SILENT_OUTPUT = 5  # and for how many seconds
LINES_AT_ONCE = 200  # then it is the turn of the other connections
order = itertools.count(1)


class Req:
    """A line A that is not answered yet. res is its answer, or the Grant it is to tell of, once that is known."""
    __slots__ = ("conn", "key", "res")

    def __init__(self, conn, key):
        self.conn, self.key, self.res = conn, key, None


class Waiter:
    """A place in line. req is None while it is detached (9.6)."""
    __slots__ = ("seq", "req", "key", "limit", "lease_ms", "nonce", "grace", "in_line")

    def __init__(self, key, nonce):
        self.seq, self.key, self.nonce, self.in_line = next(order), key, nonce, False

    def __lt__(self, other):
        return self.seq < other.seq


class Grant:
    __slots__ = ("token", "key", "deadline", "waiter", "nonce", "reqs", "told", "over")

    def __init__(self, token, waiter, deadline):
        self.token, self.waiter, self.deadline = token, waiter, deadline
        self.key, self.nonce = waiter.key, waiter.nonce
        self.reqs = {waiter.req}  # those that are still to be told of it
        self.told = self.over = False


class Key:
    """What is held or waited for. line is sorted by Waiter.seq, the order of arrival (6.2)."""
    __slots__ = ("grant", "line")

    def __init__(self):
        self.grant, self.line = None, []


class Deadlines:
    """A heap of deadlines. Those that were moved or have become void stay in it until they are met, or too many."""

    def __init__(self, valid):
        self.heap, self.valid, self.clear_at = [], valid, 1000

    def add(self, deadline, what):
        if len(self.heap) >= self.clear_at:
            self.heap = [e for e in self.heap if self.valid(e[0], e[2])]
            heapq.heapify(self.heap)
            self.clear_at = 1000 + 2 * len(self.heap)
        heapq.heappush(self.heap, (deadline, next(order), what))

    def due(self, now):
        while self.heap and self.heap[0][0] <= now:
            deadline, _, what = heapq.heappop(self.heap)
            if self.valid(deadline, what):
                yield what


class Server:
    def __init__(self, profiles=ALL, secret=None, default_ms=30_000, max_ms=86_400_000, max_conns=10_000):
        self.conns, self.max_conns = 0, max_conns
        self.profiles, self.secret, self.default_ms, self.max_ms = profiles, secret, default_ms, max_ms
        # Above all tokens given before a restart, as long as the clock does not go back (8.1, 17.1).
        self.token = int(time.time() * 1000) << 20
        self.keys = {}
        # The states of a nonce (9.2): queued or granted in live, spent in spent (with the time), else unknown.
        self.live, self.spent = {}, collections.OrderedDict()
        self.wait_ends = Deadlines(lambda t, w: w.in_line and t in (w.limit, w.grace))
        self.lease_ends = Deadlines(lambda t, g: not g.over and t == g.deadline)
        self.timer = None
        self.addr, self.loop = b"127.0.0.1:5625", None

    # -- Time

    def arm(self):
        """Sets the timer for the earliest deadline."""
        if self.timer:
            self.timer.cancel()
        first = min((d.heap[0][0] for d in (self.wait_ends, self.lease_ends) if d.heap), default=None)
        self.timer = first and self.loop.call_later(max(0, (first - time.monotonic_ns()) / 1e9) + 0.0005, self.tick)

    def tick(self):
        self.timer = None
        self.expire(time.monotonic_ns())
        self.arm()

    def expire(self, now):
        """Ends what is over. The timer may be late, so each request calls this first (7.2). Waits end before leases,
        so that nobody is granted a key at the instant of his limit (6.3)."""
        for w in self.wait_ends.due(now):
            self.leave(w)
            if w.limit is not None and w.limit <= now:
                self.spend(w.key, w.nonce, now)
                if w.req:
                    self.answer(w.req, b"T %s\n" % w.key, now)
            else:  # the grace is over: forgotten, and its nonce is unknown again
                del self.live[w.key, w.nonce]
        for g in self.lease_ends.due(now):
            self.end(g, now)

    # -- Answers to acquires, in the order of the requests (3.3)

    def answer(self, req, res, now):
        req.res = res
        conn, key = req.conn, req.key
        queue = conn.acquires.get(key)
        while queue and queue[0].res is not None:
            first = queue.popleft()
            conn.unanswered -= 1
            res = first.res
            if isinstance(res, Grant):
                # What is left of the lease is counted now, not when it was granted.
                left = 0 if res.over else max(0, res.deadline - now) // MS
                conn.write(b"A %s %d %s\n" % (key, res.token, f_seconds(left)), first)
            else:
                conn.write(res)
        if not queue:
            conn.acquires.pop(key, None)

    # -- The lock table

    def spend(self, key, nonce, now):
        if not nonce:
            return
        self.live.pop((key, nonce), None)
        self.spent[key, nonce] = now
        while len(self.spent) > REMEMBER_AT_LEAST and (
                len(self.spent) > REMEMBER_AT_MOST or next(iter(self.spent.values())) < now - REMEMBER):
            self.spent.popitem(last=False)

    def attach(self, w, req, r, now):
        """Gives a waiter the request that waits, with its limit and lease (9.4)."""
        w.req, w.lease_ms, w.grace = req, r["lease_ms"], None
        w.limit = now + r["wait_ms"] * MS if r["wait_ms"] > 0 else None
        self.watch(w)

    def detach(self, w, now):
        w.req, w.grace = None, now + GRACE
        self.watch(w)

    def watch(self, w):
        for deadline in (w.limit, w.grace):
            if w.in_line and deadline is not None:
                self.wait_ends.add(deadline, w)

    def join(self, w):
        w.in_line = True
        bisect.insort(self.keys.setdefault(w.key, Key()).line, w)
        if w.nonce:
            self.live[w.key, w.nonce] = w

    def leave(self, w):
        w.in_line = False
        line = self.keys[w.key].line
        del line[bisect.bisect_left(line, w)]
        self.tidy(w.key)

    def tidy(self, key):
        k = self.keys[key]
        if k.grant is None and not k.line:
            del self.keys[key]

    def lease(self, ms):
        return min(ms or self.default_ms, self.max_ms)

    def grant(self, w, now):
        """w is not in line (any more)."""
        self.token += 1
        g = Grant(self.token, w, now + self.lease(w.lease_ms) * MS)
        self.keys.setdefault(w.key, Key()).grant = g
        if w.nonce:
            self.live[w.key, w.nonce] = g
        self.lease_ends.add(g.deadline, g)
        self.answer(w.req, g, now)

    def end(self, g, now, spend=True):
        """Ends a grant; the key goes to the first in line who is attached and whose limit has not passed."""
        g.over = True
        if spend:
            self.spend(g.key, g.nonce, now)
        k = self.keys[g.key]
        k.grant = None
        for w in k.line:
            if w.req and (w.limit is None or w.limit > now):
                self.leave(w)
                self.grant(w, now)
                return
        self.tidy(g.key)

    # -- Requests

    def line(self, conn, line):
        now = time.monotonic_ns()
        self.expire(now)
        if conn.unanswered >= MAX_UNANSWERED:
            return conn.write_last(b"E ? ? limit\n")
        try:
            r = parse_request(line, self.profiles)
            if self.secret and not conn.trusted and r["op"] not in (b"P", b"H"):
                raise Refusal(r["op"], r["key"], b"unauthorized")
        except Refusal as e:
            if e.close:
                conn.write_last(e.line())
            elif e.op == b"A" and e.key:
                self.answer(conn.add(e.key), e.line(), now)  # refusals take their turn, too (3.3)
            else:
                conn.write(e.line())
            return
        {b"A": self.acquire, b"R": self.release, b"K": self.keep, b"C": self.cancel, b"P": self.ping,
         b"H": self.hello}[r["op"]](conn, r, now)

    def acquire(self, conn, r, now):
        key, nonce, wait_ms = r["key"], r.get("nonce"), r["wait_ms"]
        req = conn.add(key)
        k = self.keys.get(key)
        # A key that is free has nobody in line but detached waiters, and they hold nobody up (9.6).
        held = k is not None and k.grant is not None
        if (key, nonce) in self.spent:
            return self.answer(req, b"E A %s spent\n" % key, now)
        known = self.live.get((key, nonce))
        if isinstance(known, Grant):  # it asks again for what it has (9.5)
            known.reqs.add(req)
            return self.answer(req, known, now)
        old = None
        if known:  # it takes its own place over (9.4)
            w, old = known, known.req
        else:
            w = Waiter(key, nonce)
        stays = held and wait_ms >= 0
        if stays and not known and len(k.line) >= MAX_WAITERS:
            return self.answer(req, b"E A %s queue-full\n" % key, now)
        if w.in_line and not stays:
            self.leave(w)
        if stays and not w.in_line:
            self.join(w)
        self.attach(w, req, r, now)
        if old:
            self.answer(old, b"E A %s superseded\n" % key, now)
        if not held:
            self.grant(w, now)
        elif not stays:
            self.spend(key, nonce, now)
            self.answer(req, b"T %s\n" % key, now)

    def held_by(self, r, now):
        """The living grant that R or K names."""
        k = self.keys.get(r["key"])
        g = k and k.grant
        return g if g and g.token == r["token"] and g.deadline > now else None

    def release(self, conn, r, now):
        g = self.held_by(r, now)
        if not g:
            return conn.write(b"E R %s not-held\n" % r["key"])
        conn.write(b"R %s %d\n" % (g.key, g.token))
        self.end(g, now)

    def keep(self, conn, r, now):
        g = self.held_by(r, now)
        if not g:
            return conn.write(b"E K %s not-held\n" % r["key"])
        lease = self.lease(r["lease_ms"])
        g.deadline = now + lease * MS
        self.lease_ends.add(g.deadline, g)
        conn.write(b"K %s %d %s\n" % (g.key, g.token, f_seconds(lease)))

    def cancel(self, conn, r, now):
        key, nonce = r["key"], r["nonce"]
        conn.write(b"C %s %s\n" % (key, nonce))
        known = self.live.get((key, nonce))
        if isinstance(known, Grant):
            self.end(known, now)
        elif known:
            self.leave(known)
            self.spend(key, nonce, now)
            if known.req:
                self.answer(known.req, b"T %s\n" % key, now)
        elif (key, nonce) not in self.spent:
            self.spend(key, nonce, now)  # a C may overtake its A (4.4)

    def ping(self, conn, r, now):
        conn.write(b"P %s\n" % r["key"])

    def hello(self, conn, r, now):
        if self.secret:
            given = r.get("secret")
            if given is None or not hmac.compare_digest(given, self.secret):
                conn.wrong += given is not None  # none at all does not count as a wrong one (10.4)
                write = conn.write_last if conn.wrong >= 3 else conn.write
                return write(b"E H 1 unauthorized\n")
            conn.trusted = True
        profiles = [p.encode() for p in ("core", "keep", "ping", "hello", "resume") if p in self.profiles]
        conn.write(b"H 1 %s %s\n" % (self.addr, b",".join(profiles)))

    # -- The end of a connection

    def drop(self, conn):
        """Its waiters leave or are detached; what it holds stays held (6.5)."""
        if conn.dropped:
            return
        conn.dropped = True
        now = time.monotonic_ns()
        self.expire(now)
        waiting = [req for queue in conn.acquires.values() for req in queue]
        conn.acquires = {}
        for key in {req.key for req in waiting}:
            k = self.keys.get(key)
            for w in [w for w in k.line if w.req and w.req.conn is conn] if k else []:
                if w.nonce:
                    self.detach(w, now)
                else:
                    self.leave(w)
        # Grants that nobody was told of are undone (6.6): those whose answers were held back, and those whose lines
        # were not handed to the operating system yet.
        for req in waiting + conn.take_unsent():
            g = req.res
            if not isinstance(g, Grant):
                continue
            g.reqs.discard(req)
            if g.over or g.told or g.reqs:
                continue
            w = g.waiter
            if w.nonce and (w.limit is None or w.limit > now):
                self.join(w)  # at its place: the line is sorted by arrival
                self.detach(w, now)
                self.end(g, now, spend=False)
            else:
                self.end(g, now)
        self.arm()


class Conn(asyncio.Protocol):
    def __init__(self, server):
        self.server = server

    def connection_made(self, transport):
        self.transport = transport
        self.splitter, self.lines = Splitter(), collections.deque()
        self.acquires, self.unanswered = {}, 0  # key: its Reqs, oldest first
        self.trusted, self.wrong = False, 0
        self.dropped = self.deaf = False  # deaf: what comes now is not executed any more (11.4)
        self.working = self.ended = False  # lines are left to be served; the client has ended its half
        # Lines that the transport has not got yet, with the Req whose grant they tell of. The transport gets one line
        # at a time, and says by pause_writing that the operating system has not taken it, so that 6.6 can be kept.
        self.out, self.out_bytes, self.partial = collections.deque(), 0, None
        self.full, self.full_timer, self.finish = False, None, None
        transport.set_write_buffer_limits(high=0)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # finds waiters on machines that vanished (11.2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.conns += 1
        if self.server.conns > self.server.max_conns:
            self.write_last(b"E ? ? limit\n")  # 11.5

    def add(self, key):
        req = Req(self, key)
        self.acquires.setdefault(key, collections.deque()).append(req)
        self.unanswered += 1
        return req

    # -- Writing

    def write(self, line, req=None):
        if self.dropped or self.transport.is_closing():
            # Nobody reads it. A grant stays untold, and the drop that is on its way undoes it.
            if req:
                self.out.append((line, req))
            return
        self.out.append((line, req))
        self.out_bytes += len(line)
        self.pump()
        if self.out_bytes > MAX_OUTPUT:
            self.transport.abort()

    def pump(self):
        while self.out and not self.full:
            line, self.partial = self.out.popleft()
            self.out_bytes -= len(line)
            self.transport.write(line)
            if not self.full and not self.transport.is_closing():
                self.handed_over()
        if self.finish and not self.full:
            finish, self.finish = self.finish, None
            finish()

    def handed_over(self):
        if self.partial:
            self.partial.res.told = True
            self.partial.res.reqs.discard(self.partial)
            self.partial = None

    def pause_writing(self):
        self.full = True
        self.full_timer = self.server.loop.call_later(MAX_SILENT_OUTPUT, self.transport.abort)

    def resume_writing(self):
        self.full = False
        self.full_timer.cancel()
        self.handed_over()
        self.pump()

    def take_unsent(self):
        """Takes the lines out that tell of grants, and returns their Reqs. Other answers are still written (6.5)."""
        reqs = [req for _, req in self.out if req] + ([self.partial] if self.partial else [])
        self.out = collections.deque((line, req) for line, req in self.out if not req)
        self.partial = None
        return reqs

    def write_last(self, line):
        """Says why, and closes. First its own half only: unread input would make the close a reset, which could destroy
        the line on its way (11.4)."""
        def finish():
            try:
                self.transport.write_eof()
            except OSError:
                pass
            self.server.loop.call_later(1, self.transport.close)
        self.write(line)
        self.deaf = True
        self.server.drop(self)
        self.transport.resume_reading()
        self.finish = finish
        self.pump()

    # -- Reading

    def data_received(self, data):
        if self.deaf:
            return
        self.lines.extend(self.splitter.feed(data))
        if not self.working:
            self.work()

    def work(self):
        for _ in range(min(len(self.lines), LINES_AT_ONCE)):
            self.server.line(self, self.lines.popleft())
            if self.deaf or self.dropped:
                self.server.arm()
                return
        self.working = bool(self.lines)
        if self.working:
            self.transport.pause_reading()
            self.server.loop.call_soon(self.work)
        elif self.splitter.too_long:
            self.write_last(b"E ? ? bad-request\n")
        elif self.ended:
            self.end_of_input()
        elif not self.transport.is_closing():
            self.transport.resume_reading()
        self.server.arm()

    def eof_received(self):
        self.ended = True
        if not self.working and not self.deaf:  # what came before the end is served first
            self.end_of_input()
        return True  # it is we who close

    def end_of_input(self):
        """A drop (11.3). What is due is written before the close."""
        self.deaf = True
        self.server.drop(self)
        self.finish = self.transport.close
        self.pump()

    def connection_lost(self, exc):
        self.deaf = True
        self.server.conns -= 1
        if self.full_timer:
            self.full_timer.cancel()
        self.server.drop(self)


def address(text):
    """HOST:PORT or [V6]:PORT, as host and port."""
    if not ok_addr(text.encode()):
        raise argparse.ArgumentTypeError("%r is not HOST:PORT" % text)
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def secret(text):
    if not KEY.match(text.encode()):
        raise argparse.ArgumentTypeError("1 to 255 bytes without spaces and control bytes")
    return text.encode()


async def main():
    p = argparse.ArgumentParser(description="A small Stile server.")
    p.add_argument("--listen", metavar="HOST:PORT", type=address, default="127.0.0.1:5625")
    p.add_argument("--advertise", metavar="HOST:PORT", help="the address by which clients reach it; default: --listen")
    p.add_argument("--secret", type=secret, help="what clients have to know")
    p.add_argument("--default-lease", metavar="SECONDS", type=float, default=30)
    p.add_argument("--max-connections", metavar="N", type=int, default=10_000)
    p.add_argument("--profiles", default=",".join(sorted(ALL)))
    a = p.parse_args()
    if a.advertise:
        address(a.advertise)
    server = Server(frozenset(a.profiles.split(",")), a.secret, int(a.default_lease * 1000), max_conns=a.max_connections)
    server.loop = asyncio.get_running_loop()
    listener = await server.loop.create_server(lambda: Conn(server), *a.listen, backlog=1024)
    host, port = listener.sockets[0].getsockname()[:2]
    listening = ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)
    server.addr = (a.advertise or listening).encode()
    print("listening on", listening, flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
