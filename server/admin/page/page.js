// The page gets a picture of the node once a second and at every change, from
// /events, and lists of keys that are not in it from /keys.
//
// Keys and the names of clients may be anything that somebody chose to send: they
// get into the page as text nodes only. The page's Content-Security-Policy
// refuses anything else.

const $ = (id) => document.getElementById(id);

// ---- Text

const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };

function element(name, className, ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

// Characters that are not seen, or that change the order of others.
const unseen = /[\p{C}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]|(?! )\p{Zs}/u;

// shown is text of somebody's as nodes: what can't be seen is written out.
function shown(text) {
  const nodes = [];
  let plain = '';
  for (const c of text) {
    if (!unseen.test(c)) { plain += c; continue; }
    if (plain) nodes.push(plain);
    plain = '';
    nodes.push(element('span', 'escape', 'U+' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')));
  }
  if (plain) nodes.push(plain);
  return nodes;
}

const bytesOf = (hex) => hex.length / 2;

// keyNodes is a key, with a mark if it is no text.
function keyNodes(k) {
  if (k.key_hex === undefined) return shown(k.key ?? '');
  const mark = element('span', 'hexmark', 'hex');
  mark.title = `${bytesOf(k.key_hex)} bytes that are not UTF-8`;
  return [mark, k.key_hex];
}

const idOf = (k) => k.key_hex === undefined ? 'text ' + k.key : 'hex ' + k.key_hex;

const number = (n) => n.toLocaleString('en');
const count = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

// duration is for people: two units at most.
function duration(s) {
  if (s < 0) return '0 s';
  if (s < 10) return `${Math.floor(s * 10) / 10} s`;
  s = Math.floor(s);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

const seconds = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;

// ---- The feed

// fresh: nothing has come since the stream began.
let fresh = true;
// state is connecting, live, stale, lost, paused or auth.
let state = 'connecting';
let secret = '';
let last = null;      // the last event
let lastAt = 0;       // when it came, by performance.now()
let paused = false;
let failures = 0;
let retryAt = 0;      // when the next try is due; 0: one is under way
let problem = '';     // why the feed was lost
let attempt = null;   // AbortController of the stream
let wake = null;      // ends the wait for the next try

const staleAfter = 4_000;
const silentAfter = 15_000; // then the stream counts as lost
const firstRetry = 500, lastRetry = 10_000;

function authorization() {
  if (!secret) return {};
  // Header values are bytes: those of the secret as UTF-8.
  return { Authorization: 'Bearer ' + String.fromCharCode(...new TextEncoder().encode(secret)) };
}

// Refused is an answer that is no stream.
class Refused extends Error {
  constructor(status, message, wait) {
    super(message);
    this.status = status;
    this.wait = wait; // seconds
  }
}

async function ask(path, signal) {
  const response = await fetch(path, { headers: authorization(), cache: 'no-store', credentials: 'omit', signal });
  if (response.ok) return response;
  let message = `the node answered ${response.status}`;
  try {
    message = (await response.json()).message || message;
  } catch { /* it did not come from a node */ }
  throw new Refused(response.status, message, Number(response.headers.get('Retry-After')) || 0);
}

// listen reads the stream until it ends. It always ends with an exception.
async function listen() {
  attempt = new AbortController();
  const response = await ask('events', attempt.signal);
  fresh = true; // the node may be another process by now
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error('the node ended the connection');
    buffer += value;
    for (let end; (end = buffer.indexOf('\n\n')) >= 0;) {
      const data = buffer.slice(0, end).split('\n').filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('\n');
      buffer = buffer.slice(end + 2);
      if (data) receive(JSON.parse(data));
    }
    if (buffer.length > 1 << 24) throw new Error('what the node sends has no end');
  }
}

function receive(event) {
  const before = last;
  last = event;
  if (!fresh) notePeers(before, event);
  fresh = false;
  lastAt = performance.now();
  failures = 0;
  note(before, event);
  if (state === 'lost') announce('Connected again.');
  if (state === 'auth') $('secret').value = '';
  enter(paused ? 'paused' : 'live');
  if (!paused) draw();
}

async function run() {
  for (;;) {
    retryAt = 0;
    age();
    try {
      await listen();
    } catch (error) {
      attempt?.abort();
      if (error instanceof Refused && error.status === 401) {
        await login(secret ? error.message : '');
        continue;
      }
      problem = error instanceof Refused ? error.message : error.name === 'AbortError' ? problem || 'nothing came from the node' :
        error instanceof TypeError ? 'the node can’t be reached' : error.message;
      if (error instanceof Refused && error.status === 429 && state === 'auth') {
        await login(error.message);
        continue;
      }
      if (state !== 'lost') announce('The connection to the node is lost.');
      enter('lost');
      const back = Math.min(lastRetry, firstRetry * 2 ** failures++) * (0.75 + Math.random() / 4);
      const wait = Math.max(back, (error.wait ?? 0) * 1000);
      retryAt = performance.now() + wait;
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, wait);
      });
      wake = null;
    }
  }
}

// login waits until somebody has given a secret.
function login(complaint) {
  enter('auth');
  set($('auth-error'), complaint ? complaint[0].toUpperCase() + complaint.slice(1) + '.' : '');
  $('secret').focus();
  $('secret').select();
  return new Promise((resolve) => {
    $('auth').onsubmit = (e) => {
      e.preventDefault();
      secret = $('secret').value.trim();
      if (secret) resolve();
    };
  });
}

$('retry').onclick = () => wake?.();
addEventListener('online', () => wake?.());
document.addEventListener('visibilitychange', () => { if (!document.hidden) wake?.(); });

$('pause').onclick = () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  if (state === 'live' || state === 'stale' || state === 'paused') enter(paused ? 'paused' : 'live');
  if (!paused && last) draw();
};

function enter(next) {
  if (state === next) return;
  state = next;
  document.body.dataset.state = next;
  $('lost').hidden = next !== 'lost';
  $('auth').hidden = next !== 'auth';
  $('main').hidden = next === 'auth' || !last;
  age();
  title();
  drawHead();
}

// announce tells what changed to those who do not see it.
function announce(text) { set($('announce'), text); }

// age shows how old the data is.
let drawnAt = 0; // the arrival of what is on the page
function age() {
  const now = performance.now();
  if (attempt && (state === 'live' || state === 'stale') && now - lastAt > silentAfter) {
    problem = 'nothing came from the node for ' + duration(silentAfter / 1000);
    attempt.abort();
  }
  if (state === 'live' && now - lastAt > staleAfter) return enter('stale');
  const old = duration(Math.floor((now - drawnAt) / 1000));
  const text = {
    connecting: 'Connecting',
    live: now - lastAt < 2000 ? 'Live, data under 2 s old' : `Live, data ${old} old`,
    stale: `Nothing new for ${old}`,
    paused: `Paused, data ${old} old`,
    lost: last ? `Lost, data ${old} old` : 'Not connected',
    auth: 'Secret needed',
  }[state];
  set($('feed-text'), text);
  if (state === 'lost') {
    const next = retryAt ? `Next try in ${duration(Math.max(1, Math.ceil((retryAt - now) / 1000)))}.` : 'Trying now.';
    const seen = last ? ` What you see is ${old} old.` : '';
    set($('lost-text'), `Connection lost: ${problem}.${seen} ${next}`);
  }
}
setInterval(age, 500);

function title() {
  const at = last ? last.node : location.host;
  const role = state === 'lost' ? 'lost' : last ? last.role : state;
  document.title = `${role} · ${at} · Stile`;
}

// ---- Rates

// A bucket is a second of the node's clock. A counter between two events is taken
// to rise evenly, and has a whole number at each full second: marks has those.
const buckets = 120;
const charts = [
  { name: 'Grants', of: (c) => (c.grants.immediate ?? 0) + (c.grants.handed_over ?? 0) },
  { name: 'Hand-overs', of: (c) => c.grants.handed_over ?? 0 },
  { name: 'Expiries', of: (c) => c.grants_ended.expired ?? 0 },
];

for (const chart of charts) {
  chart.marks = new Map(); // full second -> the counter
  const svg = (name) => document.createElementNS('http://www.w3.org/2000/svg', name);
  chart.svg = svg('svg');
  chart.svg.setAttribute('viewBox', `0 0 ${buckets} 100`);
  chart.svg.setAttribute('preserveAspectRatio', 'none');
  chart.svg.setAttribute('role', 'img');
  chart.path = svg('path');
  chart.svg.append(chart.path);
  chart.now = element('b', '', '0');
  chart.most = element('span');
  $('rates').append(element('figure', '', element('figcaption', '', chart.name, chart.now), chart.svg,
    element('div', 'axis', element('span', '', '2 min ago'), chart.most, element('span', '', 'now'))));
}

// note adds what happened between two events. Over a gap nothing is known of when
// it happened, and after a restart nothing at all: then it begins anew, with the
// second that is under way.
function note(before, event) {
  const from = before && Date.parse(before.time) / 1000, to = Date.parse(event.time) / 1000;
  for (const chart of charts) {
    const had = before && chart.of(before.counts), has = chart.of(event.counts);
    if (has < had || to < from) chart.marks.clear();
    if (chart.marks.size && to - from < 10) {
      for (let s = Math.floor(from) + 1; s <= to; s++) chart.marks.set(s, Math.round(had + (has - had) * (s - from) / (to - from)));
    } else {
      chart.marks.set(Math.floor(to), has);
    }
    for (const s of chart.marks.keys()) if (s < to - buckets - 2) chart.marks.delete(s);
  }
}

// inSecond is how many there were in the second that began at s; 0 also if that
// is not known.
function inSecond(chart, s) {
  const at = chart.marks.get(s), end = chart.marks.get(s + 1);
  return at === undefined || end === undefined ? 0 : end - at;
}

function drawRates(event) {
  const end = Math.floor(Date.parse(event.time) / 1000); // this second is not over
  const first = Math.min(...charts[0].marks.keys());
  const known = end - first < buckets ? `since this page has heard of it, ${duration(Math.max(end - first, 0))} ago` : 'for the last two minutes';
  for (const chart of charts) {
    const rates = Array.from({ length: buckets }, (_, i) => inSecond(chart, end - buckets + i));
    const most = Math.max(...rates), sum = rates.reduce((a, b) => a + b);
    const scale = 96 / Math.max(most, 1);
    let d = '';
    rates.forEach((n, i) => {
      if (n > 0) {
        const h = Math.max(2, n * scale).toFixed(2);
        d += `M${i + 0.1} 100v-${h}h0.8v${h}z`;
      }
    });
    chart.path.setAttribute('d', d);
    const now = number(rates[buckets - 1]);
    set(chart.now, now);
    set(chart.most, `most ${number(most)}, in all ${number(sum)}`);
    chart.svg.setAttribute('aria-label', `${chart.name} per second: ${now} now, at most ${number(most)}, ${number(sum)} in all ${known}`);
  }
  set($('rates-note'), event.role === 'active' ? `at this node, ${known}` : `at this node, which grants nothing as ${event.role}`);
}

// ---- Drawing

let due = false;
function draw() {
  title(); // is what a tab shows that is not drawn
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    if (!last || state === 'auth') return;
    drawnAt = lastAt;
    $('main').hidden = false;
    set($('node'), last.node);
    set($('held'), number(last.held));
    set($('held-name'), last.held === 1 ? 'key held' : 'keys held');
    set($('waiting'), number(last.waiting));
    set($('connections'), number(last.connections));
    set($('connections-name'), last.role === 'active' ? 'connections' : 'connections to this node');
    drawActive(last);
    drawNodes(last);
    drawRates(last);
    drawKeys(last);
    drawChanges(last);
    age();
  });
}

const rows = new WeakMap(); // list -> its children by the id of the item

// lists keeps the children of a list in step with items: a child stays the same
// element for as long as its item is there, so that it keeps the focus and what
// is unfolded.
function lists(parent, items, id, make, update) {
  const old = rows.get(parent) ?? new Map();
  const now = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  for (const item of items) {
    const key = id(item);
    if (!now.has(key)) now.set(key, old.get(key) ?? make(item));
  }
  for (const [key, child] of old) if (!now.has(key)) child.remove();
  let at = parent.firstElementChild;
  for (const child of now.values()) {
    if (child === at) { at = at.nextElementSibling; continue; }
    if (child.isConnected && parent.moveBefore) parent.moveBefore(child, at);
    else parent.insertBefore(child, at);
  }
  for (const item of items) update(now.get(id(item)), item);
  rows.set(parent, now);
  if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

const epochOf = (text) => text === undefined ? '' : text.split('.')[0];
const reasons = {
  freeze: 'It keeps requests for a moment: a pause, a handoff or another active is being dealt with.',
  refuse: 'It refuses requests: too few standbys are in sync.',
  ending: 'It is about to end.',
};

let headline = '', announced = '';
function drawHead() {
  set($('active-head'), state === 'lost' ? headline.replace(/ is active$/, ' was active') : headline);
}

function drawActive(e) {
  const c = e.cluster;
  let head, why, good = true;
  const because = (text) => text ? `Why: ${text}.` : '';
  if (!c) {
    head = `${e.node} is active`;
    why = 'It is alone: there is no list of peers.';
  } else if (c.role === 'active') {
    head = `Node ${c.id}, ${e.node}, is active`;
    why = because(c.why);
    if (c.mode !== 'serve') { why += ' ' + (reasons[c.mode] ?? ''); good = false; }
    if (c.handoff) why += ` It hands the role over: ${c.handoff}.`;
  } else if (c.active >= 0) {
    const a = c.peers.find((p) => p.id === c.active);
    head = `Node ${c.active}${a ? ', ' + a.addr + ',' : ''} is active`;
    why = `This is node ${c.id}, a ${c.role}. Clients that ask it are sent to node ${c.active}, whose own page says why that is active.`;
    if (!c.complete) { why += ' It has not got the table yet, and could not take over with it.'; good = false; }
  } else {
    head = 'No node is known to be active';
    why = `This is node ${c.id}, ${c.role}: ${c.why}. Requests are kept for a moment, then refused.`;
    good = false;
  }
  if (e.stopping) why += ' It was asked to stop.';
  if (c?.unfit) good = false; // the problems say so
  lists($('problems'), e.problems, (p) => p, (p) => element('li', '', ...shown(p)), () => {});
  $('problems').hidden = !e.problems.length;
  headline = head;
  drawHead();
  set($('active-why'), why);
  $('active').dataset.tone = good ? 'go' : 'wait';
  if (head !== announced) {
    if (announced) announce(head + '.');
    announced = head;
  }
}

function lagOf(e, n) {
  const c = e.cluster;
  if (n.self) {
    if (c.role === 'active') return 'none: it has the table that counts';
    if (c.syncing) return 'it is being sent the whole table';
    if (c.behind === undefined) return 'it has not got the active’s table';
    return c.behind === 0 ? 'none' : count(c.behind, 'change', 'changes');
  }
  if (!n.reached) return 'not known';
  if (n.role === 'active') return 'none: it has the table that counts';
  if (c.role !== 'active') return 'known to the active only';
  if (!n.fed || n.lag === undefined) return 'it has not got the table';
  if (n.lag === 0) return 'none';
  return count(n.lag, 'change', 'changes') + (n.lag_s > 0 ? `, ${duration(n.lag_s)}` : '');
}

// problemOf is why a link is down, without what is of interest to programmers
// alone: which node said it, how, and from which port.
function problemOf(n) {
  const text = n.problem.replace(/^node \d+: /, '');
  const [, addr, what] = text.match(/^(?:dial|read|write) tcp[46]? (?:\S*->)?(\S+): (?:(?:connect|connectex|read|write|wsarecv|wsasend): )?(.+)$/s) ?? [];
  return what ? `${addr}: ${what}` : text.replace(/^dial tcp[46]?: /, '');
}

function nodesOf(e) {
  const c = e.cluster;
  if (!c) return [{ self: true, id: -1, addr: e.node, role: e.role, epoch: String(e.epoch), reached: true }];
  const self = { ...c, self: true, addr: e.node, reached: true };
  return [self, ...c.peers].sort((a, b) => a.rank - b.rank);
}

function drawNodes(e) {
  const c = e.cluster;
  set($('nodes-note'), c ? 'as this one sees them, highest priority first' : '');
  lists($('nodes'), nodesOf(e), (n) => n.id, () => {
    const li = element('li');
    li.parts = {
      name: element('span'), role: element('span'), marks: element('span', 'soft'), addr: element('p', 'addr mono'),
      epoch: element('dd'), lag: element('dd'), link: element('dd'), linkName: element('dt', '', 'Link'),
    };
    const p = li.parts;
    li.append(element('h3', '', p.name, p.role, p.marks), p.addr, element('dl', '',
      element('dt', '', 'Epoch'), p.epoch, element('dt', '', 'Lag'), p.lag, p.linkName, p.link));
    return li;
  }, (li, n) => {
    const p = li.parts;
    const role = n.reached ? n.role : 'not reached';
    li.dataset.role = n.reached ? n.role : '';
    li.dataset.reached = n.reached ? 'yes' : 'no';
    set(p.name, n.id < 0 ? 'This node' : `Node ${n.id}`);
    set(p.role, role);
    p.role.className = 'pill ' + (n.reached ? n.role : 'unreached');
    const marks = [];
    if (n.self && c) marks.push('this node');
    if (c?.in_sync?.includes(n.id)) marks.push('in sync');
    set(p.marks, marks.join(', '));
    set(p.addr, n.addr);
    set(p.epoch, epochOf(n.epoch) || 'not known');
    set(p.lag, c ? lagOf(e, n) : 'none: there is no other node');
    p.link.hidden = p.linkName.hidden = Boolean(n.self);
    const silent = n.silent_s === undefined ? 'no heartbeat yet' : `heartbeat ${duration(n.silent_s)} ago`;
    set(p.link, n.problem ? `${problemOf(n)}${n.silent_s === undefined ? '' : '; ' + silent}` : silent);
  });
}

// ---- Keys

const narrow = matchMedia('(max-width: 30rem)');
const perPage = 50;
const refreshEvery = 2_000;
const unfoldEvery = 500;
let order = 'busiest';
let prefix = '', prefixIsHex = false;
let after = null;     // of the page: {after} or {after_hex}
let listed = null;    // the last answer of /keys, with the query it answers
let listing = null;   // AbortController of the question that is under way
let listedAt = 0, listTook = 0;
let complaint = '';

const fromEvents = () => order !== 'key' && prefix === '';

function keysQuery() {
  const q = new URLSearchParams({ tokens: 'text', limit: String(perPage), waiters: '10' });
  if (prefix) q.set(prefixIsHex ? 'prefix_hex' : 'prefix', prefix);
  if (order !== 'key') q.set('order', order);
  else for (const [name, value] of Object.entries(after ?? {})) q.set(name, value);
  return q.toString();
}

// hexProblem is what is wrong with a beginning in hex.
function hexProblem() {
  if (!prefixIsHex) return '';
  if (/[^0-9a-f]/i.test(prefix)) return `“${prefix}” is no hexadecimal number: with “hex” on, give two digits, 0 to 9 and a to f, for each byte.`;
  return prefix.length % 2 ? 'A digit is missing: each byte has two.' : '';
}

async function refresh(atOnce) {
  if (fromEvents() || state === 'auth') return;
  if (hexProblem()) {
    listing?.abort();
    listing = null;
    return;
  }
  // A node with very many keys is not asked all of the time.
  if (!atOnce && (listing || performance.now() - listedAt < Math.max(refreshEvery, 10 * listTook))) return;
  listing?.abort();
  const mine = listing = new AbortController();
  const query = keysQuery();
  const start = performance.now();
  try {
    const answer = await (await ask('keys?' + query, AbortSignal.any([mine.signal, AbortSignal.timeout(30_000)]))).json();
    if (listing !== mine) return;
    listed = { query, answer };
    complaint = '';
  } catch (error) {
    if (listing !== mine) return;
    // That the node is gone is said elsewhere.
    complaint = error instanceof Refused ? error.message : '';
  }
  listing = null;
  listedAt = performance.now();
  listTook = listedAt - start;
  if (!paused || atOnce) { set($('filter-error'), complaint); if (last) drawList(last); }
}

function drawKeys(e) {
  drawList(e);
  refresh(false);
  for (const li of $('list').children) if (li.firstElementChild.open) unfold(li, false);
}

const clientText = (c) => c.client || c.addr;

// nameless says why a holder has no name. Names are not copied.
function nameless(e) { return e.role === 'active' ? 'not known here until it renews its lease' : 'known to the active'; }

function drawList(e) {
  const own = !fromEvents();
  const current = own && listed?.query === keysQuery() ? listed.answer : null;
  const waited = new Set(e.busiest.map(idOf));
  const keys = own ? current?.keys ?? [] : order === 'longest' ? e.longest :
    [...e.busiest, ...e.longest.filter((k) => !waited.has(idOf(k)))].slice(0, Math.max(e.busiest.length, e.longest.length));
  lists($('list'), keys, idOf, makeKey, (li, k) => updateKey(li, k, e));
  const such = prefix ? ' with this beginning' : '';
  let none = '';
  if (!keys.length) {
    if (own && !current) none = hexProblem() ? 'No key is looked for.' : complaint ? 'No answer.' : 'Looking for keys…';
    else if (order === 'busiest' && e.held > 0) none = `Nobody waits for a key${such}. The other orders have keys that are only held.`;
    else none = `No key${such} is held.`;
  }
  set($('empty'), none);
  $('empty').hidden = !none;
  const what = { busiest: keys.some((k) => !k.waiting) ? 'those that most wait for, then those held for longest' : 'those that most wait for', longest: 'those held for longest', key: 'in bytewise order' }[order];
  const copy = e.role === 'active' ? '' : ', in this node’s copy; the active’s page has the names';
  set($('keys-note'), `${what}${keys.length ? `: ${number(keys.length)} of ${number(Math.max(e.held, keys.length))}` : ''}${copy}`);
  $('pages').hidden = order !== 'key' || !(after || current?.next !== undefined || current?.next_hex !== undefined);
  $('first').disabled = !after;
  $('next').disabled = current?.next === undefined && current?.next_hex === undefined;
}

function makeKey(k) {
  const li = element('li');
  const p = li.parts = {
    key: element('bdi', 'key', ...keyNodes(k)), count: element('span', 'count'), facts: element('span', 'facts'), line: element('span', 'line'),
    token: element('dd', 'mono'), holder: element('dd', 'mono'), since: element('dd'), until: element('dd'), queue: element('ol', 'queue'), rest: element('p', 'soft'),
  };
  p.line.setAttribute('aria-hidden', 'true'); // the list below says it better
  p.queue.tabIndex = 0;
  p.queue.setAttribute('aria-label', 'The line for this key');
  const full = element('bdi', 'key', ...keyNodes(k));
  const details = element('details', '', element('summary', '', p.key, p.count, p.facts, p.line),
    element('div', 'detail', full, element('dl', '',
      element('dt', '', 'Held by'), p.holder, element('dt', '', 'Token'), p.token,
      element('dt', '', 'Since'), p.since, element('dt', '', 'Lease ends'), p.until), p.queue, p.rest));
  details.addEventListener('toggle', () => { if (details.open) unfold(li, true); });
  li.append(details);
  li.of = k.key_hex === undefined ? { key: k.key } : { key_hex: k.key_hex };
  return li;
}

const clock = (t) => {
  const d = new Date(t);
  const day = d.toDateString() === new Date().toDateString() ? '' : d.toLocaleDateString() + ' ';
  return day + d.toLocaleTimeString([], { hour12: false });
};

function updateKey(li, k, e) {
  const p = li.parts;
  const name = clientText(k.holder);
  set(p.count, k.waiting ? `${number(k.waiting)} waiting` : 'nobody waits');
  const left = seconds(e.time, k.until);
  const lease = left > 0 ? `lease ends in ${duration(left)}` : 'the lease is over';
  set(p.facts, `held for ${duration(seconds(k.since, e.time))}, ${lease}`);
  const waiters = k.waiters ?? [];
  const picture = JSON.stringify([name, k.holder.gone, k.waiting, narrow.matches, waiters.map(clientText)]);
  if (p.picture !== picture) {
    p.picture = picture;
    const chip = (className, text, about) => {
      const c = element('bdi', 'chip client ' + className, ...shown(text));
      c.title = about;
      return c;
    };
    const seen = waiters.slice(0, narrow.matches ? 2 : 4);
    // A line of which nobody is known says no more than the number above it.
    p.line.hidden = !name && !seen.some(clientText);
    p.line.replaceChildren(name ? chip(k.holder.gone ? 'holder gone' : 'holder', name, k.holder.gone ? 'holds it, though its connection has ended' : 'holds it') :
      element('span', 'chip rest', 'holder not known yet'));
    if (k.waiting) p.line.append(element('span', 'gate'), ...seen.map((w, i) => chip('', clientText(w) || '…', `number ${i + 1} in line`)));
    if (k.waiting > seen.length) p.line.append(element('span', 'chip rest', seen.length ? `and ${number(k.waiting - seen.length)} more` : `${number(k.waiting)} in line`));
  }
  if (li.firstElementChild.open && !li.whole) drawDetail(li, k, e);
}

// unfold gets a whole line, at every event. It is newer than what the list has.
async function unfold(li, atOnce) {
  const now = performance.now();
  if (li.asking || (!atOnce && now - (li.askedAt ?? 0) < unfoldEvery)) return;
  if (atOnce && !li.whole && last) {
    const known = [...last.busiest, ...last.longest, ...(listed?.answer.keys ?? [])].find((k) => idOf(k) === idOf(li.of));
    if (known) drawDetail(li, known, last);
  }
  li.asking = true;
  li.askedAt = now;
  try {
    const q = new URLSearchParams({ ...li.of, tokens: 'text', waiters: '200' });
    const answer = await (await ask('keys?' + q, AbortSignal.timeout(10_000))).json();
    li.whole = answer.keys[0];
    if (li.whole && last && (!paused || atOnce)) {
      updateKey(li, li.whole, last);
      drawDetail(li, li.whole, last);
    }
  } catch { /* the feed tells of it, if the node is gone */ } finally {
    li.asking = false;
  }
}

function drawDetail(li, k, e) {
  const p = li.parts;
  const replace = (node, children) => {
    const signature = children.map((c) => c.textContent ?? c).join('\n');
    if (node.signature !== signature) { node.signature = signature; node.replaceChildren(...children); }
  };
  const who = (c) => c.client && c.addr ? [...shown(c.client), ' at ', ...shown(c.addr)] : shown(clientText(c));
  replace(p.holder, clientText(k.holder) ? [...who(k.holder), ...(k.holder.gone ? [', its connection has ended'] : [])] : [nameless(e)]);
  set(p.token, k.token);
  set(p.since, clock(k.since));
  set(p.until, clock(k.until));
  const waiters = k.waiters ?? [];
  p.queue.hidden = !waiters.length;
  lists(p.queue, waiters.map((w, i) => ({ ...w, i })), (w) => w.i, () => {
    const row = element('li');
    row.parts = { who: element('bdi', 'client'), when: element('span', 'when') };
    row.append(row.parts.who, row.parts.when);
    return row;
  }, (row, w) => {
    replace(row.parts.who, who(w));
    const limit = w.until ? `gives up in ${duration(seconds(e.time, w.until))}` : 'without limit';
    set(row.parts.when, `waits for ${duration(seconds(w.since, e.time))}, ${limit}`);
  });
  const more = k.waiting - waiters.length;
  set(p.rest, more > 0 ? `and ${number(more)} more in line` : k.waiting ? '' : 'Nobody waits for it.');
}

function look() {
  readFilter();
  after = null;
  again();
  // For a reload, and for others: what is looked for is in the address.
  const q = new URLSearchParams();
  if (order !== 'busiest') q.set('order', order);
  if (prefix || prefixIsHex) q.set(prefixIsHex ? 'prefix_hex' : 'prefix', prefix);
  history.replaceState(null, '', location.pathname + (q.size ? '?' + q : '') + location.hash);
}

function readFilter() {
  prefix = $('prefix').value.trim();
  prefixIsHex = $('hex').checked;
  order = new FormData($('filter')).get('order');
}

// fillFilter fills in what the address has.
function fillFilter() {
  const q = new URLSearchParams(location.search);
  for (const choice of $('filter').elements.order) if (choice.value === q.get('order')) choice.checked = true;
  $('hex').checked = q.has('prefix_hex');
  $('prefix').value = q.get('prefix_hex') ?? q.get('prefix') ?? '';
  readFilter();
  complaint = hexProblem();
  set($('filter-error'), complaint);
}

function again() {
  complaint = hexProblem();
  set($('filter-error'), complaint);
  if (last) drawList(last);
  refresh(true);
}

let typing = 0;
$('prefix').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(look, 200);
});
$('filter').addEventListener('change', look);
$('filter').addEventListener('submit', (e) => { e.preventDefault(); look(); });
$('first').onclick = () => { after = null; again(); };
$('next').onclick = () => {
  const a = listed?.answer;
  after = a?.next !== undefined ? { after: a.next } : a?.next_hex !== undefined ? { after_hex: a.next_hex } : null;
  again();
};

// ---- Changes

// peerChanges are those of the other nodes that this page has seen, the newest
// first: the node itself keeps no list of them.
const peerChanges = [];

// notePeers compares two events of one stream. What it finds happened between
// the two: it is listed before what the node noted in that time, which is a
// consequence of it more often than its cause.
function notePeers(before, event) {
  for (const p of event.cluster?.peers ?? []) {
    const old = before.cluster?.peers.find((o) => o.id === p.id);
    if (old && old.reached !== p.reached) {
      peerChanges.unshift({ kind: p.reached ? 'back' : 'away', time: event.time, after: before.time, id: p.id, addr: p.addr });
    }
  }
  peerChanges.length = Math.min(peerChanges.length, 20);
}

const fewChanges = 6;
let allChanges = false;
$('more').onclick = () => {
  allChanges = !allChanges;
  if (last) drawChanges(last);
};

function drawChanges(e) {
  const at = (c) => Date.parse(c.after ?? c.time);
  const known = [...e.changes, ...peerChanges].sort((a, b) => at(b) - at(a));
  const changes = allChanges ? known : known.slice(0, fewChanges);
  // Several may have the same time.
  const seen = new Map();
  const items = [...changes].reverse().map((c) => {
    const id = `${c.time} ${c.kind} ${c.id ?? ''}`;
    seen.set(id, (seen.get(id) ?? 0) + 1);
    return { ...c, row: `${id} ${seen.get(id)}` };
  }).reverse();
  lists($('changes'), items, (c) => c.row, (c) => {
    const time = element('time', '', clock(c.time));
    time.dateTime = c.time;
    const li = element('li', c.kind === 'role' ? c.role : c.kind, time);
    if (c.kind === 'role') {
      li.append(element('b', '', `This node became ${c.role}`), `: ${c.why}`);
    } else if (c.kind === 'active') {
      const peer = e.cluster?.peers.find((p) => p.addr === c.active);
      li.append(element('b', '', `${peer ? `Node ${peer.id}, ${c.active},` : c.active} is active`));
    } else if (c.kind === 'away' || c.kind === 'back') {
      li.append(element('b', '', `Node ${c.id}, ${c.addr}, is ${c.kind === 'back' ? 'reached again' : 'not reached any more'}`));
    } else if (c.kind === 'break') {
      const holder = clientText(c.holder ?? {});
      li.append(element('b', '', 'Broken by hand: '), element('bdi', 'key', ...keyNodes(c)), element('br'),
        'token ', element('span', 'mono', c.token), ...(holder ? [' of ', element('bdi', 'client', ...shown(holder))] : []), `, by ${c.by}`,
        ...(c.next_token ? [', next ', element('span', 'mono', c.next_token)] : ', nobody waited'));
    } else {
      li.append(c.kind);
    }
    if (c.epoch) li.append(element('span', 'soft', `, epoch ${c.epoch}`));
    return li;
  }, () => {});
  $('more').hidden = known.length <= fewChanges;
  $('more').setAttribute('aria-expanded', String(allChanges));
  set($('more'), allChanges ? 'Show the latest only' : `Show all ${known.length}`);
}

fillFilter();
run();
