"""A client of Stile's protocol, version 1, for asyncio.

It was written from SPEC.md alone; numbers in comments are its sections. A Client has a Slot for each connection that it
wants, which keeps a Conn; each acquire is a task that moves on from one Conn to the next.
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

from codec import Splitter, encode_request, ok_key, parse_answer

log = logging.getLogger('stile')
now = time.monotonic

class StileError(Exception):
    """kind is what happened, outcome whether it took effect: no or maybe (SPEC.md 13.14)."""
    kind, outcome = "other", "no"


class TimedOut(StileError):
    kind = "timeout"


class NoConnection(StileError):
    kind = "no_connection"


class NoActive(StileError):
    kind = "no_active"


class NotHeld(StileError):
    kind = "not_held"


class Closed(StileError):
    kind = "closed"


class Unsupported(StileError):
    kind = "unsupported"


class Undelivered(StileError):
    kind, outcome = "undelivered", "maybe"


class Refused(StileError):
    kind = "refused"

    def __init__(self, code, text=b"", outcome="no"):
        super().__init__(code.decode("latin-1"))
        self.code, self.outcome = code, outcome


# Codes that say that nothing happened (5.4).
NO_EFFECT = {
    b'bad-request', b'bad-key', b'unknown-op', b'not-held', b'spent', b'queue-full', b'limit', b'unauthorized', b'version',
    b'no-active', b'stopping',
}

class Pend:
    __slots__ = ('op', 'key', 'sent', 'fut', 'seq', 'limit', 'late')


class Conn:
    def __init__(self, cl, slot, r, w):
        self.cl, self.slot, self.r, self.w = cl, slot, r, w
        self.pend = collections.defaultdict(collections.deque)
        self.n = 0
        self.alive, self.spare, self.profiles, self.bytes = True, False, set(), 0
        self.read_at = now()
        self.floor = 0
        self.pinged = None
        self.words = itertools.count(1)
        self.peer = w.get_extra_info('peername')
        w.get_extra_info('socket').setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.closed = asyncio.get_running_loop().create_future()
        self.tasks = [asyncio.create_task(self.reader()), asyncio.create_task(self.pinger())]

    def send(self, r, seq=0, limit=None):
        p = Pend()
        p.op, p.key, p.seq, p.limit, p.late = r['op'], r['key'], seq, limit, None
        p.fut = asyncio.get_running_loop().create_future()
        p.sent = now()
        if not self.alive:
            p.fut.set_result(None)
            return p
        if self.n == 0:
            self.first = p.sent
        self.pend[p.op, p.key].append(p)
        self.n += 1
        self.w.write(encode_request(r))
        return p

    async def reader(self):
        sp = Splitter()
        why = 'end of stream'
        try:
            while True:
                d = await self.r.read(65536)
                if not d:
                    break
                self.read_at = now()
                self.bytes += len(d)
                for l in sp.feed(d):
                    if not self.answer(l):
                        why = 'out of step: %r' % l
                        return
                if sp.too_long:
                    why = 'line too long'
                    return
        except OSError as e:
            why = str(e)
        finally:
            self.reset(why)

    def answer(self, l):
        a = parse_answer(l)
        if not a or not a.get('for') or 'key' not in a:
            return False
        q = self.pend.get((a['for'], a['key']))
        if not q:
            return False
        p = q.popleft()
        self.n -= 1
        self.first = now()
        if not q:
            del self.pend[a['for'], a['key']]
        if p.op == b'P':
            self.pinged = None
        if a['op'] == b'A':
            a['floor'] = max(p.sent, self.floor)
            # 13.13
            if a['token'] in self.cl.tokens and not p.late:
                return False
            self.cl.tokens.add(a['token'])
        self.floor = max(self.floor, p.sent)
        if not p.fut.done():
            p.fut.set_result(a)
        elif p.late and a['op'] == b'A':
            p.late(a)
        return True

    # 13.3
    async def pinger(self):
        while self.alive:
            await asyncio.sleep(.05)
            t = now()
            if self.pinged is not None:
                if t - max(self.read_at, self.pinged) >= 2:
                    self.reset('dead')
                    return
            else:
                acq = any(k[0] == b'A' for k in self.pend)
                silent = self.n and t - max(self.read_at, self.first) >= 1
                idle = not self.n and t - self.read_at >= 15
                if silent or idle or acq and t - self.lastping() >= 1:
                    self.pinged = self.lp = t
                    self.send(dict(op=b'P', key=b'p%d' % next(self.words)))
    lp = 0

    def lastping(self):
        return max(self.lp, min((p.sent for k, q in self.pend.items() if k[0] == b'A' for p in q), default=0))

    def reset(self, why):
        if not self.alive:
            return
        self.alive = False
        log.info('%s: lost: %s', self.slot.addr, why)
        self.slot.why = why
        try:
            self.w.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        except OSError:
            pass
        self.w.transport.abort()
        ps = [p for q in self.pend.values() for p in q]
        self.pend.clear()
        self.n = 0
        for p in sorted(ps, key=lambda p: (p.seq, p.sent)):
            if not p.fut.done():
                p.fut.set_result(None)
        if not self.closed.done():
            self.closed.set_result(None)

    def younger(self, key, seq):
        return any(p.seq > seq for p in self.pend.get((b'A', key), ()))

    def blocks(self, key, limit):
        pending = self.pend.get((b'A', key), ())
        return limit is not None and any(p.limit is None or p.limit > limit for p in pending)

class Slot:
    """one connection to one address, with the beat"""

    def __init__(self, cl, addr, given=True):
        self.cl, self.addr, self.given, self.conn, self.why = cl, addr, given, None, 'not yet dialled'
        self.wake = asyncio.Event()
        self.result = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self.run())
        if not given:
            cl.spawn(self.retire())

    def live(self):
        return self.conn is not None and self.conn.alive

    def serving(self):
        return self.live() and not self.conn.spare

    async def retire(self):
        """an address that only a redirect named goes 30 s after it ceased to serve (13.8)"""
        since = now()
        while now() - since < 30:
            await asyncio.sleep(.2)
            if self.serving():
                since = now()
        self.cl.slots.remove(self)
        self.task.cancel()
        if self.conn:
            self.conn.reset('it has not served for 30 s')

    async def dial(self):
        h, _, p = self.addr.rpartition(':')
        r, w = await asyncio.wait_for(asyncio.open_connection(h.strip('[]'), int(p)), 1)
        c = Conn(self.cl, self, r, w)
        if self.cl.name:
            q = dict(op=b'H', key=b'1', name=self.cl.name)
            if self.cl.secret and self.given:
                q['secret'] = self.cl.secret
            a = await c.send(q).fut
            if a is None:
                raise OSError(self.why)
            if a['op'] == b'H':
                c.profiles = {x.decode('latin1') for x in a['profiles']}
        return c

    async def run(self):
        while True:
            try:
                self.conn = await self.dial()
                self.why = ''
                self.result.set_result(True)
                await self.conn.closed
            except (OSError, asyncio.TimeoutError) as e:
                self.why = str(e) or 'dial timed out'
                if not self.result.done():
                    self.result.set_result(False)
            self.conn = None
            self.result = asyncio.get_running_loop().create_future()
            self.wake.clear()
            try:
                await asyncio.wait_for(self.wake.wait(), 3 * random.uniform(.9, 1.1))
            except asyncio.TimeoutError:
                pass

    async def demand(self):
        self.wake.set()
        try:
            return await asyncio.wait_for(asyncio.shield(self.result), 1)
        except asyncio.TimeoutError:
            return False

class Lock:
    def __init__(self, key, token, until, lease, conn):
        self.key, self.token, self.until, self.lease, self.conn = key, token, until, lease, conn
        self.lost = asyncio.Event()
        self.released = False
        self.task = None

    def left(self):
        return self.until - now()

    def held(self):
        return not self.released and not self.lost.is_set() and self.left() > 0

class Client:
    def __init__(self, addrs, name=b'py', secret=None, profiles=('keep', 'resume', 'ping')):
        self.name, self.secret, self.use = name, secret, set(profiles)
        addrs = list(dict.fromkeys(addrs))
        self.slots = [Slot(self, a) for a in (addrs * 2 if len(addrs) == 1 else addrs)]
        self.cursor = 0
        self.seq = itertools.count(1)
        self.base = secrets.token_urlsafe(12).encode()
        self.nn = itertools.count(1)
        self.tokens = set()
        self.bg = set()
        self.badredir = {}

    async def close(self):
        for x in self.slots:
            x.task.cancel()
            if x.conn:
                x.conn.reset('closed')
                [t.cancel() for t in x.conn.tasks]

    def has(self, c, prof):
        return prof in c.profiles and prof in self.use

    def spawn(self, co):
        t = asyncio.create_task(co)
        self.bg.add(t)
        t.add_done_callback(self.bg.discard)
        return t

    # rotation
    def rotation(self):
        live = [x.conn for x in self.slots if x.live()]
        return [c for c in live if not c.spare] or live

    def pick(self, tried, key=None, seq=0, limit=None, repeat=False, move=True):
        rot = self.rotation()
        if not rot:
            return None
        order = [rot[(self.cursor + i) % len(rot)] for i in range(len(rot))]
        cand = [c for c in order if c not in tried]
        if repeat:
            cand = [c for c in cand if not c.younger(key, seq)] or []
        if not cand:
            return None
        c = next((c for c in cand if not c.blocks(key, limit)), cand[0])
        if move:
            self.cursor = (self.cursor + order.index(c) + 1) % len(rot)
        return c

    # calls
    async def acquire(self, key, wait=None, lease=30.0):
        """wait None: no limit; 0: do not queue; else seconds"""
        if not ok_key(key):
            raise ValueError('bad key')
        lease_ms = round(lease * 1000)
        if not 0 <= lease_ms <= 999999999999 or (wait is not None and not 0 <= wait <= 999999999):
            raise ValueError('bad duration')
        limit = None if not wait else now() + wait
        st = dict(req=[], sent=False)
        try:
            co = self._acquire(key, wait, lease_ms, limit, st)
            t = None if wait is None else wait + .2
            return await asyncio.wait_for(co, t)
        except asyncio.TimeoutError:
            self.abandon(key, st)
            raise TimedOut('by the own clock') from None
        except asyncio.CancelledError:
            self.abandon(key, st)
            raise
        except (NoConnection, NoActive) as e:
            if st['req']:
                e.outcome = 'maybe'
                self.abandon(key, st)
            raise

    def abandon(self, key, st):
        for p, c, nonce in st['req']:
            if nonce:
                self.spawn(self.deliver(lambda: dict(op=b'C', key=key, nonce=nonce), c))
                continue

            def late(a, c=c):
                self.spawn(self.deliver(lambda: dict(op=b'R', key=key, token=a['token']), c))
            p.late = late
            if p.fut.done() and not p.fut.cancelled() and p.fut.result() and p.fut.result()['op'] == b'A':
                late(p.fut.result())
            elif not p.fut.done():
                p.fut.cancel()

    async def _acquire(self, key, wait, lease_ms, limit, st):
        seq = next(self.seq)
        tried, dialled, reasons = set(), set(), {}
        noact = False
        redirects = 0
        want = None
        nonce = None
        used = False
        while True:
            c = want if want and want.alive else self.pick(tried, key, seq, limit, used)
            want = None
            # 9.9: only behind younger ones: start anew
            if c is None and used and any(x not in tried for x in self.rotation()):
                await self.deliver(lambda n=nonce: dict(op=b'C', key=key, nonce=n), None)
                nonce = None
                used = False
                st['req'].clear()
                continue
            if c is None:
                sl = next((x for x in self.slots if not x.live() and x not in dialled and not self.rests(x.addr)), None)
                if sl is None:
                    e = NoActive if noact else NoConnection
                    raise e(', '.join('%s: %s' % (x.addr, reasons.get(x.addr, x.why)) for x in self.slots))
                dialled.add(sl)
                if await sl.demand():
                    want = sl.conn
                continue
            tried.add(c)
            r = dict(op=b'A', key=key, lease_ms=lease_ms)
            if wait == 0:
                r['wait_ms'] = -1
            elif limit is None:
                r['wait_ms'] = 0
            elif not st['sent']:
                r['wait_ms'] = math.ceil(wait * 1000)
            else:
                r['wait_ms'] = math.ceil((limit - now()) * 1000)
                if r['wait_ms'] <= 0:
                    raise TimedOut('limit')
            if self.has(c, 'resume'):
                nonce = nonce or self.base + b'%d' % next(self.nn)
                r['nonce'] = nonce
            st['sent'] = True
            p = c.send(r, seq, limit)
            st['req'] = [(p, c, r.get('nonce'))]
            a = await asyncio.shield(p.fut)
            if a is None:
                reasons[c.slot.addr] = c.slot.why
                used = used or 'nonce' in r
                if c.bytes:
                    dialled.clear()
                continue
            st['req'] = [] if a['op'] != b'A' else st['req']
            if a['op'] == b'T':
                raise TimedOut('T')
            if a['op'] == b'A':
                l = await self.take(key, a, c, lease_ms)
                if l:
                    return l
                nonce, used, tried = None, False, set()
                continue
            if a['op'] == b'M':
                noact = True
                redirects += 1
                c.spare = True
                if redirects > 10:
                    raise NoActive('too many redirects')
                ad = a['addr'].decode('latin1')
                reasons[c.slot.addr] = 'moved to ' + ad
                if redirects > 1:
                    await asyncio.sleep(min(1, .05 * 2 ** (redirects - 2)))
                want = await self.follow(ad, c)
                continue
            code = a['code']
            if code == b'spent':
                nonce, used, tried = None, False, set()
                continue
            if code in (b'no-active', b'stopping'):
                noact = True
                reasons[c.slot.addr] = code.decode()
                continue
            raise Refused(code, a['text'], 'no' if code in NO_EFFECT else 'maybe')

    def rests(self, addr):
        return self.badredir.get(addr, -9) > now() - 3

    async def follow(self, ad, c):
        h, _, p = ad.rpartition(':')
        h = h.strip('[]')
        try:
            ip = ipaddress.ip_address(h)
        except ValueError:
            ip = None
        nowhere = p == '0' or ad == c.slot.addr or ip and ip.is_unspecified
        here = ip and ip.is_loopback or h == 'localhost'
        if nowhere or here and not ipaddress.ip_address(c.peer[0]).is_loopback or self.rests(ad):
            log.warning('redirect to %s not followed', ad)
            return None
        ss = [x for x in self.slots if x.addr == ad]
        if not ss:
            self.slots.append(Slot(self, ad, given=False))
            ss = self.slots[-1:]
        for x in ss:
            if x.live() or await x.demand():
                x.conn.spare = False
                return x.conn
        self.badredir[ad] = now()
        return None

    async def take(self, key, a, c, lease_ms):
        """13.11: from the answer A to a Lock, or None: start anew"""
        until = a['floor'] + a['lease_ms'] / 1000
        l = Lock(key, a['token'], until, lease_ms, c)
        if l.left() < a['lease_ms'] / 2000:
            if self.has(c, 'keep'):
                if not await self._keep(l, lease_ms):
                    return None
            elif l.left() <= 0:
                self.spawn(self.deliver(lambda: dict(op=b'R', key=key, token=l.token), c))
                return None
        l.task = self.spawn(self.watch(l))
        return l

    async def _keep(self, l, lease_ms):
        c = l.conn if l.conn.alive else self.pick((), move=False)
        if not c:
            return False
        p = c.send(dict(op=b'K', key=l.key, token=l.token, lease_ms=lease_ms))
        return await asyncio.shield(self.spawn(self._kept(l, p, c)))

    async def _kept(self, l, p, c):
        a = await p.fut
        if a and a['op'] == b'K':
            if l.task and l.left() <= 0:         # it was handed out, and is lost by now
                self.spawn(self.deliver(lambda: dict(op=b'R', key=l.key, token=l.token), c))
                return False
            l.until = p.sent + a['lease_ms'] / 1000
            l.conn = c
            return True
        if a and a['op'] == b'E' and a['code'] == b'not-held':
            l.until = now()
            if l.task:
                l.lost.set()
        return False if a else None

    async def keep(self, l, lease=30.0):
        """gives it a new lease; the keep is repeated until it is answered or the lease is over"""
        while l.held():
            if not self.has(l.conn, 'keep') and l.conn.alive:
                raise Unsupported('the server has no keep')
            try:
                ok = await asyncio.wait_for(self._keep(l, round(lease * 1000)), max(.001, l.left()))
            except asyncio.TimeoutError:
                break
            if ok:
                return
            if ok is False:
                break
            await asyncio.sleep(.2)
        raise NotHeld('not held')

    async def watch(self, l):
        """tells at the end of the lease that the lock is lost (13.11)"""
        while not l.released and not l.lost.is_set():
            if l.left() <= 0:
                l.lost.set()
                return
            # A keep may move the end, in either direction.
            await asyncio.sleep(max(.001, min(l.left(), .5)))

    async def release(self, l):
        l.released = True
        t = self.spawn(self.deliver(lambda: dict(op=b'R', key=l.key, token=l.token), l.conn, l))
        return await asyncio.shield(t)

    async def deliver(self, mk, conn, l=None):
        """13.12, for R and C"""
        end = now() + 5
        copies = []
        to = None
        while now() < end:
            owed = [x for x in copies if not x[0].fut.done()]
            if not owed or to:
                c = to or (conn if conn and conn.alive else self.pick((), move=False))
                to = None
                if c is None:
                    for x in self.slots:
                        if await x.demand():
                            c = x.conn
                            break
                if c:
                    copies.append((c.send(mk()), c))
            fs = [x[0].fut for x in copies if not x[0].fut.done()]
            t = now() + .2
            if fs:
                await asyncio.wait(fs, timeout=.2, return_when=asyncio.FIRST_COMPLETED)
            for p, c in copies[:]:
                a = p.fut.result() if p.fut.done() else None
                if not a or p.late:
                    continue
                p.late = True
                if a['op'] in (b'R', b'C'):
                    return a
                if a['op'] == b'M':
                    c.spare = True
                    to = await self.follow(a['addr'].decode('latin1'), c)
                    continue
                if a['code'] == b'not-held':
                    if len(copies) > 1 and l and l.left() > 0:
                        return a
                    raise NotHeld('not held')
                if a['code'] not in (b'no-active', b'stopping'):
                    raise Refused(a['code'], a['text'], 'no' if a['code'] in NO_EFFECT else 'maybe')
            await asyncio.sleep(max(0, t - now())) if not any(not x[0].fut.done() for x in copies) and not to else None
        raise Undelivered('no answer within 5 s')
