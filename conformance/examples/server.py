"""A lock server that speaks version 1 of Stile's protocol, all profiles but the cluster.

It was written from SPEC.md alone; numbers in comments are its sections. Everything is in memory and in one thread.
Time is in nanoseconds of the monotonic clock. Tokens begin at the clock's millisecond, so they rise over a restart.
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

from codec import Refusal, Splitter, f_seconds, parse_request

NS = 10**6
GRACE = 1000 * NS
MAX_UNANSWERED, MAX_WAIT_KEY, MAX_CONN = 4096, 200_000, 10_000
seqs = itertools.count(1)


# A line A. res is its answer, or the Grant it is to tell of, once that is known.
class Req:
    __slots__ = ('conn', 'key', 'res', 'told')

    def __init__(self, conn, key):
        self.conn, self.key, self.res, self.told = conn, key, None, False


# A place in line. req is None while it is detached (9.6).
class Waiter:
    __slots__ = ('seq', 'req', 'key', 'limit', 'lease', 'nonce', 'grace', 'gone')

    def __lt__(self, o):
        return self.seq < o.seq


class Grant:
    __slots__ = ('token', 'key', 'deadline', 'waiter', 'told', 'reqs', 'nonce', 'over')


class Key:
    __slots__ = ('grant', 'line')

    def __init__(self):
        self.grant, self.line = None, []


class Server:
    def __init__(self, prof, secret=None, default=30_000, maximum=86_400_000):
        self.prof, self.secret, self.default, self.max = prof, secret, default, maximum
        self.token = int(time.time() * 1000) << 20
        # live: (key, nonce) -> Waiter or Grant
        self.keys, self.live, self.spent = {}, {}, collections.OrderedDict()
        # Deadlines of waiters, and of leases. What is outdated in them is skipped when its time comes.
        self.heap_w, self.heap_l, self.timer, self.conns = [], [], None, set()

    # time
    def now(self):
        return time.monotonic_ns()

    def arm(self):
        d = min([h[0][0] for h in (self.heap_w, self.heap_l) if h], default=None)
        if self.timer:
            self.timer.cancel()
            self.timer = None
        if d is not None:
            self.timer = self.loop.call_later(max(0, (d - self.now()) / 1e9) + .0005, self.tick)

    def tick(self):
        self.timer = None
        self.expire(self.now())
        self.arm()

    # waits first, then leases (6.3)
    def expire(self, now):
        while self.heap_w and self.heap_w[0][0] <= now:
            _, _, w = heapq.heappop(self.heap_w)
            if w.gone:
                continue
            if w.limit is not None and w.limit <= now:
                self.leave(w)
                if w.nonce:
                    self.spend(w.key, w.nonce, now)
                if w.req:
                    self.done(w.req, b'T ' + w.key + b'\n', now)
            elif w.req is None and w.grace <= now:
                self.leave(w)
                if w.nonce:
                    self.live.pop((w.key, w.nonce), None)
        while self.heap_l and self.heap_l[0][0] <= now:
            d, _, g = heapq.heappop(self.heap_l)
            if not g.over and g.deadline <= now:
                self.end(g, now)

    # answers, in order (3.3)
    def done(self, req, res, now):
        req.res = res
        self.flush(req.conn, req.key, now)

    def flush(self, c, key, now):
        q = c.pending.get(key)
        while q and q[0].res is not None and not c.dropped:
            r = q[0]
            if isinstance(r.res, Grant):
                g = r.res
                left = 0 if g.over else max(0, g.deadline - now) // NS
                # 6.6: it stays untold
                if not c.write(b'A %s %d %s\n' % (key, g.token, f_seconds(left))):
                    return
                g.told = r.told = True
                g.reqs.discard(r)
            elif not c.write(r.res):
                return
            q.popleft()
            c.unanswered -= 1
        if q is not None and not q:
            c.pending.pop(key, None)

    # lock table
    def spend(self, key, nonce, now):
        self.live.pop((key, nonce), None)
        self.spent[key, nonce] = now
        while len(self.spent) > 1_000_000:
            self.spent.popitem(last=False)
        while len(self.spent) > 65_536 and next(iter(self.spent.values())) < now - 10_000 * NS:
            self.spent.popitem(last=False)

    def leave(self, w):
        w.gone = True
        k = self.keys[w.key]
        i = bisect.bisect_left(k.line, w)
        assert k.line[i] is w
        del k.line[i]
        self.tidy(w.key)

    def tidy(self, key):
        k = self.keys.get(key)
        if k and k.grant is None and not k.line:
            del self.keys[key]

    def lease(self, ms):
        return min(ms or self.default, self.max)

    # w: out of the line by now
    def grant(self, w, now):
        self.token += 1
        g = Grant()
        g.token, g.key, g.waiter, g.nonce, g.told, g.over = self.token, w.key, w, w.nonce, False, False
        g.reqs = {w.req}
        g.deadline = now + self.lease(w.lease) * NS
        self.keys.setdefault(w.key, Key()).grant = g
        if w.nonce:
            self.live[w.key, w.nonce] = g
        heapq.heappush(self.heap_l, (g.deadline, next(seqs), g))
        self.done(w.req, g, now)

    def end(self, g, now, spend=True):
        g.over = True
        k = self.keys[g.key]
        k.grant = None
        if g.nonce and spend:
            self.spend(g.key, g.nonce, now)
        self.hand_on(g.key, now)

    def hand_on(self, key, now):
        k = self.keys[key]
        for w in k.line:
            if w.req is not None and not w.req.conn.dropped and (w.limit is None or w.limit > now):
                self.leave(w)
                self.grant(w, now)
                return
        self.tidy(key)

    def join(self, w):
        w.gone = False
        bisect.insort(self.keys.setdefault(w.key, Key()).line, w)
        self.watch(w)

    def watch(self, w):
        d = min([x for x in (w.limit, w.grace if w.req is None else None) if x is not None], default=None)
        if d is not None:
            heapq.heappush(self.heap_w, (d, next(seqs), w))

    def attach(self, w, req, r, now):
        w.req, w.lease, w.grace = req, r['lease_ms'], None
        w.limit = now + r['wait_ms'] * NS if r['wait_ms'] > 0 else None

    def acquire(self, c, r, now):
        key, nonce, wait = r['key'], r.get('nonce'), r['wait_ms']
        req = c.push(key)
        T = b'T ' + key + b'\n'
        k = self.keys.get(key)
        held = k is not None and k.grant is not None
        if nonce:
            if (key, nonce) in self.spent:
                return self.done(req, b'E A ' + key + b' spent\n', now)
            x = self.live.get((key, nonce))
            if isinstance(x, Grant):
                x.reqs.add(req)
                return self.done(req, x, now)
            # queued: take the place over
            if x is not None:
                old = x.req
                if held and wait == -1:
                    self.leave(x)
                    self.spend(key, nonce, now)
                else:
                    if not held:
                        self.leave(x)
                    self.attach(x, req, r, now)
                    if held:
                        self.watch(x)
                if old:
                    self.done(old, b'E A ' + key + b' superseded\n', now)
                if not held:
                    self.grant(x, now)
                elif wait == -1:
                    self.done(req, T, now)
                return
        w = Waiter()
        w.seq, w.key, w.nonce, w.gone = next(seqs), key, nonce, True
        self.attach(w, req, r, now)
        if not held:
            return self.grant(w, now)
        if wait == -1:
            if nonce:
                self.spend(key, nonce, now)
            return self.done(req, T, now)
        if len(k.line) >= MAX_WAIT_KEY:
            return self.done(req, b'E A ' + key + b' queue-full\n', now)
        if nonce:
            self.live[key, nonce] = w
        self.join(w)

    def line(self, c, line):
        if c.dropped:
            return
        now = self.now()
        self.expire(now)
        if c.unanswered >= MAX_UNANSWERED:
            return c.last(b'E ? ? limit\n')
        try:
            r = parse_request(line, self.prof)
            op = r['op']
            if self.secret and not c.good and op not in (b'P', b'H'):
                raise Refusal(op, r['key'], b'unauthorized')
        except Refusal as e:
            if e.close:
                c.last(e.line())
            elif e.op == b'A' and e.key:
                self.done(c.push(e.key), e.line(), now)
            else:
                c.write(e.line())
            return
        key = r['key']
        if op == b'A':
            self.acquire(c, r, now)
        elif op in (b'R', b'K'):
            k = self.keys.get(key)
            g = k and k.grant
            if not g or g.token != r['token'] or g.deadline <= now:
                return c.write(b'E %s %s not-held\n' % (op, key))
            if op == b'R':
                c.write(b'R %s %d\n' % (key, g.token))
                self.end(g, now)
            else:
                l = self.lease(r['lease_ms'])
                g.deadline = now + l * NS
                heapq.heappush(self.heap_l, (g.deadline, next(seqs), g))
                c.write(b'K %s %d %s\n' % (key, g.token, f_seconds(l)))
        elif op == b'C':
            nonce = r['nonce']
            x = self.live.get((key, nonce))
            c.write(b'C %s %s\n' % (key, nonce))
            if isinstance(x, Grant):
                self.end(x, now)
            elif x is not None:
                self.leave(x)
                self.spend(key, nonce, now)
                if x.req:
                    self.done(x.req, b'T ' + key + b'\n', now)
            elif (key, nonce) not in self.spent:
                self.spend(key, nonce, now)
        elif op == b'P':
            c.write(b'P ' + key + b'\n')
        elif op == b'H':
            if self.secret:
                sec = r.get('secret')
                if sec is None:
                    return c.write(b'E H 1 unauthorized\n')
                if not hmac.compare_digest(sec, self.secret):
                    c.wrong += 1
                    return c.last(b'E H 1 unauthorized\n') if c.wrong >= 3 else c.write(b'E H 1 unauthorized\n')
                c.good = True
            profiles = [p.encode() for p in ('core', 'keep', 'ping', 'hello', 'resume') if p in self.prof]
            c.write(b'H 1 %s %s\n' % (self.addr, b','.join(profiles)))

    def drop(self, c):
        if c.dropped:
            return
        c.dropped = True
        now = self.now()
        self.expire(now)
        reqs = [r for q in c.pending.values() for r in q]
        c.pending = {}
        mine = set(reqs)
        undo = []
        for key in {r.key for r in reqs}:
            k = self.keys.get(key)
            for w in list(k.line) if k else []:
                if w.req in mine:
                    if w.nonce:
                        w.req, w.grace = None, now + GRACE
                        self.watch(w)
                    else:
                        self.leave(w)
        for r in reqs:
            g = r.res
            if isinstance(g, Grant) and not g.over:
                g.reqs.discard(r)
                if not g.told and not g.reqs:
                    undo.append(g)
        # 6.6
        for g in undo:
            w = g.waiter
            w.req = None
            back = w.nonce and (w.limit is None or w.limit > now)
            if back:
                w.grace = now + GRACE
                self.live[w.key, w.nonce] = w
                self.join(w)
                self.end(g, now, spend=False)
            else:
                self.end(g, now)
        self.arm()

class Conn(asyncio.Protocol):
    def __init__(self, srv):
        self.srv = srv

    def connection_made(self, t):
        self.t, self.split, self.pending, self.unanswered = t, Splitter(), {}, 0
        self.dropped = self.closing = self.good = self.busy = self.eof = False
        self.wrong = 0
        self.lines = collections.deque()
        sk = t.get_extra_info('socket')
        sk.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.srv.conns.add(self)
        if len(self.srv.conns) > MAX_CONN:
            self.last(b'E ? ? limit\n')

    def push(self, key):
        r = Req(self, key)
        self.pending.setdefault(key, collections.deque()).append(r)
        self.unanswered += 1
        return r

    def write(self, b):
        if self.closing or self.t.is_closing():
            return False
        self.t.write(b)
        if self.t.is_closing():
            return False
        # 11.6
        if self.t.get_write_buffer_size() > 1 << 18:
            self.closing = True
            self.srv.loop.call_soon(self.abort)
        return True

    def abort(self):
        self.t.abort()

    # 11.4
    def last(self, b):
        self.write(b)
        self.closing = True
        self.srv.drop(self)
        try:
            self.t.write_eof()
        except OSError:
            pass
        self.srv.loop.call_later(1, self.t.close)

    def data_received(self, data):
        if self.closing:
            return
        self.lines.extend(self.split.feed(data))
        if not self.busy:
            self.work()

    def work(self):
        """serves some lines; then it is the turn of the other connections (11.6)"""
        for _ in range(min(len(self.lines), 200)):
            self.srv.line(self, self.lines.popleft())
            if self.closing:
                return
        self.busy = bool(self.lines)
        if self.busy:
            self.t.pause_reading()
            self.srv.loop.call_soon(self.work)
        elif self.split.too_long:
            self.last(b'E ? ? bad-request\n')
        elif self.eof:
            self.srv.drop(self)
            self.t.close()
        elif not self.t.is_closing():
            self.t.resume_reading()
        self.srv.arm()

    def eof_received(self):
        # what came before the end is served first
        if self.busy:
            self.eof = True
            return True
        # None: the transport writes what is due and closes
        self.srv.drop(self)

    def connection_lost(self, e):
        self.srv.drop(self)
        self.srv.conns.discard(self)

async def main():
    p = argparse.ArgumentParser()
    p.add_argument('--listen', default='127.0.0.1:5625')
    p.add_argument('--secret')
    p.add_argument('--default-lease', type=float, default=30)
    p.add_argument('--profiles', default='core,keep,ping,hello,resume')
    a = p.parse_args()
    srv = Server(frozenset(a.profiles.split(',')), a.secret and a.secret.encode(), int(a.default_lease * 1000))
    srv.loop = asyncio.get_running_loop()
    h, _, port = a.listen.rpartition(':')
    ls = await srv.loop.create_server(lambda: Conn(srv), h, int(port), backlog=1024)
    srv.addr = ('%s:%d' % ls.sockets[0].getsockname()[:2]).encode()
    print('listening on', srv.addr.decode(), flush=True)
    await ls.serve_forever()


if __name__ == '__main__':
    asyncio.run(main())
