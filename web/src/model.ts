// model.ts - the state of the page: what is shown (the route), and what is known of it.
//
// Events say that something changed; what changed is read from the API, at most once a second, so that a fast run
// costs the controller no more than a slow one.
// SPDX-License-Identifier: Apache-2.0
import { batch, computed, effect, signal } from '@preact/signals';
import type { Check, Finding, LedgerRow, Ledger, MatrixMeta, Node, NodeState, Rank, Run, Step, Verdict, Why } from './types';
import { clockSkew, connection, get, HttpError, listen, saved, type ServerEvent } from './source';

export const VIEWS = ['now', 'heatmap', 'timeline', 'ledger', 'nodes', 'report', 'runs'] as const;
export type View = (typeof VIEWS)[number];
export interface Route { view: View; run: string; params: URLSearchParams }

function readRoute(): Route {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [first, name, view] = path.split('/').map(safeDecode);
  const params = new URLSearchParams(query ?? '');
  if (first === 'run' && name) return { run: name, view: (VIEWS as readonly string[]).includes(view) ? (view as View) : 'now', params };
  return { run: '', view: 'runs', params };
}
function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal<Route>(readRoute());
addEventListener('hashchange', () => (route.value = readRoute()));

export function link(view: View, run = route.value.run, params: Record<string, string | number | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== '') query.set(name, `${value}`);
  const text = query.toString();
  return view === 'runs' ? '#/runs' : `#/run/${encodeURIComponent(run)}/${view}${text ? `?${text}` : ''}`;
}
export function go(view: View, params: Record<string, string | number | undefined> = {}, run?: string): void {
  location.hash = link(view, run, params);
}
/* Changes parameters in place, without a step back in the history for each. */
export function setParams(change: Record<string, string | number | undefined>): void {
  const now = route.value, next: Record<string, string> = {};
  now.params.forEach((value, name) => (next[name] = value));
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined || value === '') delete next[name];
    else next[name] = `${value}`;
  }
  history.replaceState(null, '', link(now.view, now.run, next));
  route.value = readRoute();
}

export const runs = signal<Run[] | null>(null);
export const why = signal<Why | null>(null);
export const run = signal<Run | null>(null);
export const steps = signal<Step[]>([]);
export const ranks = signal<Rank[]>([]);
export const nodes = signal<Node[]>([]);
export const ledgers = signal<LedgerRow[]>([]);
export const firstSteps = signal<Step[]>([]); // of the run; `steps` has the newest ones
export const findings = signal<Finding[]>([]);
export const checks = signal<Check[]>([]);
export const nodeStates = signal<Map<string, NodeState>>(new Map());
export const matrix = signal<MatrixMeta | null>(null);
export const trouble = signal('');
export const judged = signal(0);
export const clockNow = signal(saved ? +new Date(saved.made) : Date.now());
if (!saved) setInterval(() => (clockNow.value = Date.now() + clockSkew.value), 1000);

export const ledger = computed<Ledger | null>(() => why.value?.ledger ?? run.value?.ledger ?? null);
export const verdicts = computed<Verdict[]>(() => why.value?.verdicts ?? []);
export const open = computed(() => verdicts.value.filter((v) => !v.until_time));
export const rankOf = computed(() => {
  const map = new Map<number, Rank>();
  for (const row of ranks.value) {
    const before = map.get(row.rank);
    if (!before || row.attempt >= before.attempt) map.set(row.rank, row);
  }
  return map;
});

const STEPS_KEPT = 3000;
const LEDGERS_KEPT = 2000;
export const CHECKS_READ = 1000;
let current = '';

async function pages<T>(path: string, field: string, most: number): Promise<T[]> {
  const rows: T[] = [];
  for (let after = 0; rows.length < most; ) {
    const answer = await get<Record<string, T[]> & { next: number | null }>(`${path}?limit=1000${after ? `&after=${after}` : ''}`);
    rows.push(...answer[field]);
    if (!answer.next || !answer[field].length) break;
    after = answer.next as unknown as number;
  }
  return rows;
}

/* The rows of a step number: one for each attempt that trained it, the newest first. */
export async function stepsNumbered(name: string, step: number): Promise<Step[]> {
  if (saved) return steps.value.filter((s) => s.step === step).reverse();
  try {
    return (await get<{ steps: Step[] }>(`runs/${encodeURIComponent(name)}/steps?step_from=${step}&step_to=${Math.max(step, 1)}&limit=20&newest_first=true`)).steps.filter((s) => s.step === step);
  } catch {
    return [];
  }
}

async function readSteps(name: string): Promise<void> {
  const known = steps.value;
  if (saved && known.length) return;
  if (!known.length) {
    const newest = await get<{ steps: Step[] }>(`runs/${name}/steps?newest_first=true&limit=1000`);
    if (current === name) steps.value = newest.steps.reverse();
    return;
  }
  const more = await get<{ steps: Step[] }>(`runs/${name}/steps?limit=1000&after=${known[known.length - 1].cursor}`);
  if (current === name && more.steps.length) steps.value = known.concat(more.steps).slice(-STEPS_KEPT);
}

async function readRun(name: string): Promise<void> {
  const path = encodeURIComponent(name);
  const [summary, row] = await Promise.all([get<Why>(`runs/${path}/why`), get<Run>(`runs/${path}`)]);
  if (current !== name) return;
  batch(() => {
    why.value = summary;
    run.value = row;
    judged.value = Math.max(judged.value, row.steps);
    trouble.value = '';
  });
  await readSteps(path);
  const meta = await get<MatrixMeta>(`runs/${path}/matrix`).catch(() => null);
  if (current === name) matrix.value = meta;
}

/* Where ranks are changes with an attempt only, and the rows of a large job are megabytes. */
let rankAt = 0, rankAttempts = 0, nodesAt = 0;
async function readRanks(name: string): Promise<void> {
  const known = ranks.value.length, attempts = run.value?.attempts ?? 0;
  if (known && attempts === rankAttempts && Date.now() - rankAt < (known < 1000 ? 10000 : 60000)) return;
  rankAt = Date.now();
  rankAttempts = attempts;
  const rows = await pages<Rank>(`runs/${encodeURIComponent(name)}/ranks`, 'ranks', 300000);
  if (current === name) ranks.value = rows;
}
/* Their clocks change slowly, so only the view of nodes asks often. */
async function readNodeRows(name: string, view: View): Promise<void> {
  if (nodes.value.length && Date.now() - nodesAt < (view !== 'nodes' ? 30000 : nodes.value.length < 500 ? 0 : 5000)) return;
  nodesAt = Date.now();
  const rows = await pages<Node>(`runs/${encodeURIComponent(name)}/nodes`, 'nodes', 100000);
  if (current === name) nodes.value = rows;
}
async function readLedgers(name: string): Promise<void> {
  const path = `runs/${encodeURIComponent(name)}`;
  // Over the whole run at first, then what comes; read anew when that has become long.
  const known = ledgers.value.length < LEDGERS_KEPT ? ledgers.value : [];
  const rows = await get<{ ledgers: LedgerRow[] }>(`${path}/ledger?${known.length ? `limit=1000&after=${known[known.length - 1].cursor}` : 'limit=500&spread=true'}`);
  const first = saved ? steps.value : firstSteps.value.length < 100 ? (await get<{ steps: Step[] }>(`${path}/steps?limit=100`)).steps : firstSteps.value;
  if (current !== name) return;
  batch(() => {
    ledgers.value = [...(saved ? [] : known), ...rows.ledgers].sort((a, b) => a.cursor - b.cursor);
    firstSteps.value = first;
  });
}
/* What sensors and checks reported; a controller of one run has no states of nodes. */
async function readNodes(name: string): Promise<void> {
  const path = `runs/${encodeURIComponent(name)}`;
  const [found, checked, states] = await Promise.all([
    get<{ findings: Finding[] }>(`${path}/findings?limit=200&newest_first=true`).catch(() => ({ findings: [] as Finding[] })),
    get<{ checks: Check[] }>(`${path}/checks?limit=${CHECKS_READ}&newest_first=true`).catch(() => ({ checks: [] as Check[] })),
    get<{ nodes: NodeState[] }>('node-states').catch(() => ({ nodes: [] as NodeState[] })),
  ]);
  if (current !== name) return;
  batch(() => {
    findings.value = found.findings;
    checks.value = checked.checks;
    nodeStates.value = new Map(states.nodes.map((n) => [n.node, n]));
  });
}

let reading = false, again = false;
export async function refresh(): Promise<void> {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  try {
    const { run: name, view } = route.value;
    if (!name || view === 'runs') runs.value = (await pages<Run>('runs', 'runs', 5000)).reverse();
    if (name) {
      await readRun(name);
      await readRanks(name);
      await readNodeRows(name, view);
      if (view === 'ledger') await readLedgers(name);
      if (view === 'nodes') await readNodes(name);
    }
  } catch (error) {
    if (!(error instanceof HttpError)) trouble.value = '';
    else if (error.status === 404) trouble.value = error.message;
    else if (error.status !== 401 && error.status !== 403) trouble.value = error.message;
  } finally {
    reading = false;
    if (again) {
      again = false;
      setTimeout(() => void refresh(), 1000);
    }
  }
}

let due = 0;
function soon(ms: number): void {
  if (due) return;
  due = window.setTimeout(() => {
    due = 0;
    void refresh();
  }, ms);
}

function onEvent(event: ServerEvent): void {
  const mine = event.data.run === current;
  if (event.type === 'progress' && mine && typeof event.data.judged === 'number') judged.value = event.data.judged;
  if (event.type === 'verdict' && mine) soon(50);
  else if (event.type === 'begin' || event.type === 'resumed' || event.type === 'reset') soon(0);
  else if (mine || route.value.view === 'runs') soon(1000);
}

export function begin(): void {
  let shown = '';
  effect(() => {
    const { run: name, view } = route.value, next = `${name}/${view}`;
    if (next === shown) return; // another cell was chosen
    shown = next;
    if (name && name !== current) {
      current = name;
      rankAt = nodesAt = 0;
      batch(() => {
        why.value = null;
        run.value = null;
        steps.value = [];
        ranks.value = [];
        nodes.value = [];
        ledgers.value = [];
        firstSteps.value = [];
        findings.value = [];
        checks.value = [];
        nodeStates.value = new Map();
        matrix.value = null;
        judged.value = 0;
        trouble.value = '';
      });
    }
    void refresh();
  });
  if (!saved) {
    void listen(onEvent);
    // Events tell of facts; the index may have them later.
    setInterval(() => { if (connection.value === 'live' && !document.hidden) soon(0); }, 5000);
  }
  // A page that is opened without a run shows the only one there is.
  effect(() => {
    const all = runs.value;
    if (!location.hash && all && all.length === 1) location.replace(link('now', all[0].run));
    if (saved && !location.hash) location.replace(link('now', saved.run));
  });
  effect(() => {
    document.title = `${open.value.length ? `(${open.value.length}) ` : ''}${route.value.run || 'runs'} · lockstep`;
    void connection.value;
  });
}
