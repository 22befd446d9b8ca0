"""The lines of Stile's protocol, version 1 (SPEC.md 2 to 5). Durations are in milliseconds, -1 is the wait of -1."""
import re, ipaddress
MAXLINE = 1024
FB = rb'[\x21-\x7e\x80-\xff]'
KEY = re.compile(FB + rb'{1,255}\Z')
FIELD = re.compile(FB + rb'+\Z')
NAME = re.compile(FB + rb'{1,64}\Z')
NONCE = re.compile(rb'[A-Za-z0-9_-]{1,32}\Z')
SEC = re.compile(rb'(0|[1-9][0-9]{0,8})(?:\.([0-9]{1,3}))?\Z')
TOK = re.compile(rb'[1-9][0-9]{0,19}\Z')
PORT = re.compile(rb'(0|[1-9][0-9]{0,4})\Z')

class Splitter:
    def __init__(self):
        self.buf = b''
        self.too_long = False

    def feed(self, data):
        """Returns the lines that are complete now, without the empty ones (2.2). Sets too_long where 1,024 bytes came
        without LF. What follows the last LF stays in buf, and is never executed."""
        if self.too_long:
            return []
        buf, at, out = self.buf + data, 0, []
        while True:
            end = buf.find(b'\n', at, at + MAXLINE)
            if end < 0:
                break
            line, at = buf[at:end], end + 1
            if line.endswith(b'\r'):
                line = line[:-1]
            if line:
                out.append(line)
        self.buf = buf[at:]
        self.too_long = len(self.buf) >= MAXLINE
        return out

def p_seconds(f):
    m = SEC.match(f)
    if not m:
        return None
    return int(m[1]) * 1000 + int((m[2] or b'0').ljust(3, b'0'))


def f_seconds(ms):
    s, r = divmod(ms, 1000)
    return (b'%d' % s) + ((b'.%03d' % r).rstrip(b'0') if r else b'')


def p_wait(f):
    return -1 if f == b'-1' else p_seconds(f)


def p_token(f):
    if not TOK.match(f):
        return None
    t = int(f)
    return t if t < 1 << 64 else None


def ok_key(f):
    return bool(KEY.match(f)) and f != b'?'


def ok_addr(f):
    if len(f) > 261 or not FIELD.match(f):
        return False
    if f.startswith(b'['):
        h, sep, p = f[1:].partition(b']:')
        if not sep or b'%' in h:
            return False
        try:
            ipaddress.IPv6Address(h.decode('ascii'))
        except ValueError:
            return False
    else:
        h, sep, p = f.partition(b':')
        if not sep or not h or any(c in h for c in b':[]'):
            return False
    return bool(PORT.match(p)) and int(p) < 65536

class Refusal(Exception):
    def __init__(self, op, key, code, text=b'', close=False):
        self.op, self.key, self.code, self.text, self.close = op, key, code, text, close

    def line(self):
        l = b'E %s %s %s' % (self.op or b'?', self.key or b'?', self.code)
        return (l + b' ' + self.text if self.text else l) + b'\n'

ALL = frozenset(['core', 'keep', 'ping', 'hello', 'resume'])


def ops_of(prof):
    return {b'A', b'R'} | ({b'K'} if 'keep' in prof else set()) | ({b'P'} if 'ping' in prof else set()) \
        | ({b'H'} if 'hello' in prof else set()) | ({b'C'} if 'resume' in prof else set())

def parse_request(line, prof=ALL):
    f = line.split(b' ')
    op = f[0]
    if len(op) != 1 or not b'A' <= op <= b'Z':
        raise Refusal(None, None, b'bad-request', close=True)
    if len(f) < 2 or not ok_key(f[1]):
        raise Refusal(op, None, b'bad-key')
    key = f[1]
    if op not in ops_of(prof):
        raise Refusal(op, key, b'unknown-op')
    if op == b'H' and key != b'1':
        raise Refusal(op, key, b'version', b'1')
    a, r, n = f[2:], dict(op=op, key=key), len(f) - 2
    bad = Refusal(op, key, b'bad-request')

    def chk(c):
        if not c:
            raise bad
    if op == b'A':
        chk(n == 2 or (n == 3 and 'resume' in prof))
        r['wait_ms'] = p_wait(a[0])
        r['lease_ms'] = p_seconds(a[1])
        chk(r['wait_ms'] is not None and r['lease_ms'] is not None)
        if n == 3:
            chk(NONCE.match(a[2]))
            r['nonce'] = a[2]
    elif op == b'R':
        chk(n == 1)
        r['token'] = p_token(a[0])
        chk(r['token'])
    elif op == b'K':
        chk(n == 2)
        r['token'] = p_token(a[0])
        r['lease_ms'] = p_seconds(a[1])
        chk(r['token'] and r['lease_ms'] is not None)
    elif op == b'C':
        chk(n == 1 and NONCE.match(a[0]))
        r['nonce'] = a[0]
    elif op == b'P':
        chk(n == 0)
    elif op == b'H':
        chk(n in (1, 2) and NAME.match(a[0]))
        r['name'] = a[0]
        if n == 2:
            chk(KEY.match(a[1]))
            r['secret'] = a[1]
    return r

def encode_request(r):
    o, k = r['op'], r['key']
    p = [o, k]
    if o == b'A':
        p += [b'-1' if r['wait_ms'] == -1 else f_seconds(r['wait_ms']), f_seconds(r['lease_ms'])]
    if o in b'RK':
        p.append(b'%d' % r['token'])
    if o == b'K':
        p.append(f_seconds(r['lease_ms']))
    for x in ('nonce', 'name', 'secret'):
        if x in r:
            p.append(r[x])
    return b' '.join(p) + b'\n'

def parse_answer(line):
    """dict or None"""
    f = line.split(b' ')
    op = f[0]
    if op == b'E':
        f = line.split(b' ', 4)
        if len(f) < 4 or not FIELD.match(f[3]):
            return None
        fo, k, code = f[1:4]
        if len(fo) != 1 or not (b'A' <= fo <= b'Z' or fo == b'?'):
            return None
        if k == b'?':
            k = None
        elif fo == b'?' or not ok_key(k):
            return None
        text = f[4] if len(f) > 4 else b''
        d = {'op': op, 'for': None if fo == b'?' else fo, 'code': code, 'text': text}
        if k is not None:
            d['key'] = k
        return d
    if not all(FIELD.match(x) for x in f):
        return None
    if op == b'M':
        if len(f) < 4 or len(f[1]) != 1 or not b'A' <= f[1] <= b'Z' or not ok_key(f[2]) or not ok_addr(f[3]):
            return None
        return {'op': op, 'for': f[1], 'key': f[2], 'addr': f[3]}
    if len(f) < 2 or not ok_key(f[1]):
        return None
    r = {'op': op, 'for': b'A' if op == b'T' else op, 'key': f[1]}
    a = f[2:]
    if op in (b'T', b'P'):
        return r
    if op in (b'A', b'K'):
        if len(a) < 2:
            return None
        r['token'] = p_token(a[0])
        r['lease_ms'] = p_seconds(a[1])
        return None if r['token'] is None or r['lease_ms'] is None else r
    if op == b'R':
        if not a:
            return None
        r['token'] = p_token(a[0])
        return None if r['token'] is None else r
    if op == b'C':
        if not a or not NONCE.match(a[0]):
            return None
        r['nonce'] = a[0]
        return r
    if op == b'H':
        if f[1] != b'1' or len(a) < 2 or not ok_addr(a[0]):
            return None
        ps = [] if a[1] == b'-' else a[1].split(b',')
        if not all(ps):
            return None
        r['addr'] = a[0]
        r['profiles'] = ps
        return r
    return None
