// timeline.tsx - one step of a rank beside its peers: phases of the host, work of the device, communication.
//
// Ranks are aligned by the clocks of their nodes, as the judges align them.  An arrow leads from an operation that waited to
// the rank that came last.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count, percent, seconds } from './format';
import { link, nodes, rankOf, route, setParams, steps, stepsNumbered } from './model';
import { get, HttpError } from './source';
import type { Item, RankStep, Step, StepDetail } from './types';
import { color, Empty, Panel, theme } from './ui';

const LEFT = 132, LANE = 15, GAP = 9, TOP = 24, PEERS_READ = 31, PEERS_SHOWN = 5;
const COLORS: Record<string, string> = {
  data: '#c9b83f', forward: '#4f8fd0', backward: '#6f7fd8', optimizer: '#3d9a82', checkpoint: '#8b7fd6', eval: '#5f9ea0', gc: '#c9638c', init: '#7a8699',
  'comm-init': '#7a8699', compile: '#bd6a45', collective: '#d98a3d', p2p: '#cf6f6f', other: '#7a8699',
};
const colorOf = (item: Item) => COLORS[item.kind === 'collective' || item.kind === 'p2p' ? item.kind : item.name] ?? COLORS.other;

interface Lane { name: string; items: Item[] }
interface Row { title: string; note: string; rank: number; begin: number; lanes: Lane[]; step: RankStep | null }

function lanesOf(items: Item[]): Lane[] {
  const lanes = new Map<string, Lane>();
  for (const item of items) {
    const name = item.kind === 'phase' ? 'host' : item.kind === 'span' ? `device ${item.stream}` : `comm ${item.stream}`;
    const lane = lanes.get(name) ?? { name, items: [] };
    lane.items.push(item);
    lanes.set(name, lane);
  }
  const order = (name: string) => (name === 'host' ? 0 : name.startsWith('device') ? 1 : 2);
  return [...lanes.values()].sort((a, b) => order(a.name) - order(b.name) || (a.name < b.name ? -1 : 1));
}

function median(list: number[]): number {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted.length ? sorted[(sorted.length - 1) >> 1] : 0;
}

/* Peers that did the same operations in the same order, merged into one rank. */
function typical(mine: RankStep, peers: RankStep[]): { step: RankStep; of: number } | null {
  const alike = peers.filter((p) => p.items.length === mine.items.length && p.items.every((item, i) => item.kind === mine.items[i].kind && item.name === mine.items[i].name));
  if (!alike.length) return null;
  return {
    of: alike.length,
    step: {
      ...mine, rank: -1, seconds: median(alike.map((p) => p.seconds)), own_seconds: median(alike.map((p) => p.own_seconds)),
      cpu_seconds: median(alike.map((p) => p.cpu_seconds)), run_delay_seconds: median(alike.map((p) => p.run_delay_seconds)),
      items: mine.items.map((item, i) => ({
        ...item,
        enqueue_seconds: median(alike.map((p) => p.items[i].enqueue_seconds)),
        start_seconds: median(alike.map((p) => p.items[i].start_seconds)),
        end_seconds: median(alike.map((p) => p.items[i].end_seconds)),
      })),
    },
  };
}

/* Same stage and tensor index across data parallel where the layout is known; else all others. */
function peersOf(rank: number): number[] {
  const mine = rankOf.value.get(rank)?.layout, all = [...rankOf.value.values()].filter((r) => r.rank !== rank);
  const alike = mine ? all.filter((r) => r.layout && r.layout.pp.index === mine.pp.index && r.layout.tp.index === mine.tp.index) : [];
  const list = (alike.length ? alike : all).map((r) => r.rank).sort((a, b) => Math.abs(a - rank) - Math.abs(b - rank));
  return list.slice(0, PEERS_READ);
}

/* "0-3, 9001" as ranks of the run; those that it does not have are left out. */
export function chosenRanks(text: string | null): number[] {
  const out = new Set<number>();
  for (const part of (text ?? '').split(',')) {
    const match = /^\s*(\d{1,7})(?:\s*-\s*(\d{1,7}))?\s*$/.exec(part);
    if (!match) continue;
    for (let rank = +match[1]; rank <= +(match[2] ?? match[1]) && out.size <= PEERS_READ; rank++) if (rankOf.value.has(rank)) out.add(rank);
  }
  return [...out].slice(0, PEERS_READ);
}

/* Which column of the matrix a step is, when a link names the step alone. */
function useColumn(run: string): { column: number | null; rank: number } {
  const { params } = route.value;
  const last = steps.value[steps.value.length - 1];
  const [found, setFound] = useState<number | null>(null);
  const step = params.get('step');
  useEffect(() => {
    if (found !== -1) setFound(null);
    if (params.has('column') || step === null) return;
    if (last) void stepsNumbered(run, +step).then((rows) => setFound(rows[0]?.column ?? -1));
  }, [run, step, params.get('column'), found === -1 ? steps.value.length : !!last]); // a step that is not there yet may come
  const frozen = useRef<Step | null>(null);
  if (!frozen.current && last) frozen.current = last;
  const worst = params.has('rank') ? +params.get('rank')! : (frozen.current?.worst_rank ?? 0);
  if (params.has('column')) return { column: +params.get('column')!, rank: worst };
  if (step !== null) return { column: found, rank: worst };
  return { column: frozen.current ? frozen.current.column : null, rank: worst };
}

/* The step of a rank and of those beside it.  It is asked for once the choice rests: a key that is held moves it fast. */
function useDetail(run: string, column: number | null, rank: number, chosen: string | null, restMs: number): { detail: StepDetail | null; error: string } {
  const [detail, setDetail] = useState<StepDetail | null>(null);
  const [error, setError] = useState('');
  const known = rankOf.value.size > 0;
  useEffect(() => {
    let stale = false;
    const ask = () => {
      const others = chosenRanks(chosen).filter((r) => r !== rank), list = [rank, ...(others.length ? others : peersOf(rank))];
      void get<StepDetail>(`runs/${encodeURIComponent(run)}/steps/${column}?ranks=${list.join()}`)
        .then((answer) => { // a saved page has the ranks that it has
          const asked = answer.ranks.filter((r) => list.includes(r.rank));
          if (!stale) setDetail(asked.length > 1 ? { ...answer, ranks: asked } : answer);
        })
        .catch((e: unknown) => { if (!stale) { setDetail(null); setError(e instanceof HttpError ? e.message : 'the controller does not answer'); } });
    };
    setError('');
    if (column === null || column < 0 || !known) return;
    const timer = setTimeout(ask, restMs);
    return () => { stale = true; clearTimeout(timer); };
  }, [run, column, rank, known, chosen]);
  return { detail: detail && detail.column === column ? detail : null, error };
}

/* Ranks that did the same, on the common clock, beside the median of all peers that were read. */
function rowsOf(mine: RankStep, middle: ReturnType<typeof typical>, shown: RankStep[]): Row[] {
  const offset = new Map(nodes.value.map((n) => [n.node, n.clock?.offset_seconds ?? 0]));
  const at = (r: RankStep) => r.begin_seconds - (offset.get(rankOf.value.get(r.rank)?.node ?? '') ?? 0);
  const first = Math.min(at(mine), ...shown.map(at));
  const row = (r: RankStep): Row => ({ title: `rank ${r.rank}`, note: rankOf.value.get(r.rank)?.node ?? '', rank: r.rank, begin: at(r) - first, lanes: lanesOf(r.items), step: r });
  const rows = [row(mine)];
  if (middle) rows.push({ title: `median of ${middle.of}`, note: 'peers', rank: -1, begin: at(mine) - first, lanes: lanesOf(middle.step.items), step: null });
  return [...rows, ...shown.map(row)];
}

/* Below the heatmap: the step of the chosen cell beside the median of the rank's peers. */
export function Beside({ column, rank }: { column: number; rank: number }) {
  const { detail, error } = useDetail(route.value.run, column, rank, null, 150);
  const mine = detail?.ranks.find((r) => r.rank === rank);
  const middle = useMemo(() => (mine && detail ? typical(mine, detail.ranks.filter((r) => r.rank !== rank)) : null), [mine]);
  if (error) return <p class="dim">No timeline of this step: {error}.</p>;
  if (!detail) return <p class="dim">Reading the step …</p>;
  if (!mine) return <p class="dim">Rank {rank} has not sent this step.</p>;
  return <Lines rows={rowsOf(mine, middle, [])} mine={mine} label={`rank ${rank}${middle ? ` beside the median of ${middle.of} ${middle.of === 1 ? 'peer' : 'peers'}` : ''}. Plus and minus zoom.`} />;
}

export function Timeline() {
  const { run } = route.value;
  const { column, rank } = useColumn(run);
  const { detail, error } = useDetail(run, column, rank, route.value.params.get('ranks'), 0);
  if (column === -1) return <Empty title="No such step"><p>The run has no step {route.value.params.get('step')}.</p></Empty>;
  if (error) return <Empty title="No timeline of this step"><p>{error}</p><p><a href={link('heatmap')}>Choose another on the heatmap</a></p></Empty>;
  if (!detail || column === null) return <Empty title="Reading the step …" />;
  const mine = detail.ranks.find((r) => r.rank === rank);
  if (!mine) return <Empty title={`Rank ${rank} has not sent this step`}><p><a href={link('heatmap')}>Choose another on the heatmap</a></p></Empty>;
  return <Step mine={mine} peers={detail.ranks.filter((r) => r.rank !== rank)} column={column} />;
}

function Step({ mine, peers, column }: { mine: RankStep; peers: RankStep[]; column: number }) {
  const { run } = route.value;
  const [all, setAll] = useState(false);
  const middle = useMemo(() => typical(mine, peers), [mine, peers]);
  const chosen = route.value.params.get('ranks') ?? '';
  const shown = peers.slice(0, all || chosen ? PEERS_READ : PEERS_SHOWN);
  const move = (by: number) => setParams({ column: Math.max(0, column + by), step: undefined, rank: mine.rank, attempt: undefined });
  return (
    <div class="timeline">
      <div class="toolbar" role="toolbar" aria-label="Timeline">
        <span class="group">
          <button type="button" onClick={() => move(-1)} aria-label="Step before">‹</button>
          <button type="button" onClick={() => move(1)} aria-label="Step after">›</button>
        </span>
        <b class="title">Step {count(mine.step)}{mine.attempt ? `, attempt ${mine.attempt}` : ''}, rank {mine.rank}</b>
        <label>Rank <select value={mine.rank} onChange={(e) => setParams({ rank: e.currentTarget.value, column, step: undefined })}>
          {[mine.rank, ...peers.map((p) => p.rank)].sort((a, b) => a - b).map((r) => <option value={r}>{r}</option>)}
        </select></label>
        <label>Beside ranks <input type="search" class="short" value={chosen} placeholder="its peers" aria-label="Ranks to show beside it, such as 0-3, 8"
          onChange={(e) => setParams({ ranks: e.currentTarget.value.trim() || undefined, rank: mine.rank, column, step: undefined })} /></label>
        {!chosen && peers.length > PEERS_SHOWN && <button class="quiet" type="button" onClick={() => setAll(!all)}>{all ? 'Fewer peers' : `All ${peers.length} peers`}</button>}
        <span class="dim">{seconds(mine.seconds)} long, {seconds(mine.own_seconds)} own work{middle ? `, peers ${seconds(middle.step.own_seconds)}` : ''}{mine.host_view ? ', host view' : ''}{mine.complete ? '' : ', incomplete'}</span>
        <a class="quiet right" href={link('heatmap', run, { rank: mine.rank, column })}>On the heatmap</a>
      </div>
      <Lines rows={rowsOf(mine, middle, shown)} mine={mine} label={`rank ${mine.rank} and ${shown.length} peers. The table below has the numbers. Plus and minus zoom.`} />
      <Differences mine={mine} middle={middle} />
    </div>
  );
}

/* ---- the picture ---- */

interface Box { x: number; y: number; w: number; item: Item; row: Row }

function Lines({ rows, mine, label }: { rows: Row[]; mine: RankStep; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null), box = useRef<HTMLDivElement>(null), boxes = useRef<Box[]>([]);
  const [width, setWidth] = useState(1000);
  const [tip, setTip] = useState<{ x: number; y: number; box: Box } | null>(null);
  const [view, setView] = useState<[number, number] | null>(null);
  const height = TOP + rows.reduce((sum, row) => sum + row.lanes.length * LANE + GAP, 0) + 4;
  const end = Math.max(...rows.map((row) => row.begin + Math.max(row.step?.seconds ?? 0, ...row.lanes.flatMap((l) => l.items.map((i) => i.end_seconds))))) * 1.01;
  const [from, to] = view ?? [0, end];
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(Math.max(400, box.current!.clientWidth)));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const px = width - LEFT - 12, toX = (t: number) => LEFT + ((t - from) / (to - from)) * px;
  useEffect(() => {
    const element = canvas.current!, ratio = devicePixelRatio || 1, ctx = element.getContext('2d', { alpha: false })!;
    element.width = width * ratio;
    element.height = height * ratio;
    ctx.scale(ratio, ratio);
    boxes.current = paint(ctx);
  });

  function paint(ctx: CanvasRenderingContext2D): Box[] {
    const out: Box[] = [], font = `11px ${color('font')}`;
    ctx.fillStyle = color('panel');
    ctx.fillRect(0, 0, width, height);
    ctx.font = font;
    ctx.textBaseline = 'middle';
    const tick = niceTick((to - from) / Math.max(2, px / 100));
    for (let t = Math.ceil(from / tick) * tick; t <= to; t += tick) {
      ctx.fillStyle = color('line');
      ctx.fillRect(Math.round(toX(t)), TOP - 6, 1, height);
      ctx.fillStyle = color('faint');
      ctx.textAlign = 'center';
      if (toX(t) < width - 20) ctx.fillText(t === 0 ? '0' : seconds(t), toX(t), 9);
    }
    let y = TOP;
    rows.forEach((row, index) => {
      const tall = row.lanes.length * LANE;
      if (index < 2) {
        ctx.fillStyle = color('raised');
        ctx.fillRect(0, y - 4, width, tall + 7);
      }
      ctx.textAlign = 'left';
      ctx.fillStyle = color(index === 0 ? 'text' : 'dim');
      ctx.font = index === 0 ? `600 11px ${color('font')}` : font;
      ctx.fillText(row.title, 10, y + LANE / 2 - 1);
      ctx.font = font;
      ctx.fillStyle = color('faint');
      if (row.lanes.length > 1) ctx.fillText(row.note, 10, y + LANE * 1.5 - 1);
      ctx.save();
      ctx.beginPath();
      ctx.rect(LEFT, 0, px + 8, height);
      ctx.clip();
      for (const lane of row.lanes) {
        for (const item of lane.items) {
          const x = toX(row.begin + item.start_seconds), w = Math.max(1, toX(row.begin + item.end_seconds) - x);
          ctx.globalAlpha = row.rank < 0 ? 0.6 : 1;
          ctx.fillStyle = colorOf(item);
          ctx.fillRect(x, y, w, LANE - 3);
          ctx.globalAlpha = 1;
          if (w > 46) {
            ctx.fillStyle = '#0d0f13';
            ctx.fillText(clip(ctx, `${item.name}${item.count > 1 ? ` ×${item.count}` : ''}`, w - 8), x + 4, y + LANE / 2 - 1);
          }
          out.push({ x, y, w, item, row });
        }
        y += LANE;
      }
      ctx.restore();
      ctx.textAlign = 'right';
      ctx.fillStyle = color('faint');
      row.lanes.forEach((lane, i) => ctx.fillText(lane.name, LEFT - 8, y - tall + (i + 0.5) * LANE - 1));
      y += GAP;
    });
    arrows(ctx, out);
    return out;
  }

  /* From each operation of the chosen rank that waited, to the one that came last. */
  function arrows(ctx: CanvasRenderingContext2D, all: Box[]): void {
    const byKey = new Map<string, Box[]>(), seen = new Map<string, number>();
    for (const b of all) {
      if (b.row.rank < 0 || !b.item.comm || b.item.kind !== 'collective') continue;
      const nth = `${b.row.rank} ${b.item.comm}`, n = seen.get(nth) ?? 0;
      seen.set(nth, n + 1);
      const key = `${b.item.comm} ${n}`;
      byKey.set(key, [...(byKey.get(key) ?? []), b]);
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(LEFT, 0, px + 8, height);
    ctx.clip();
    ctx.fillStyle = color('text');
    for (const group of byKey.values()) {
      const last = group.reduce((a, b) => (b.row.begin + b.item.start_seconds > a.row.begin + a.item.start_seconds ? b : a));
      const own = group.find((b) => b.row.rank === mine.rank);
      const from = own && own !== last ? [own] : own === last ? group.filter((b) => b !== last) : [];
      for (const b of from) {
        if (last.row.begin + last.item.start_seconds - b.row.begin - b.item.start_seconds < mine.seconds * 0.02) continue;
        // Straight, at the moment when the last one came: until there the others have waited.
        const up = last.y < b.y, y1 = b.y + (LANE - 3) / 2, y2 = last.y + (up ? LANE - 3 : 0);
        ctx.globalAlpha = 0.7;
        ctx.fillRect(Math.round(last.x), Math.min(y1, y2), 1, Math.abs(y2 - y1));
        ctx.beginPath();
        ctx.arc(last.x + 0.5, y1, 2.5, 0, 7);
        ctx.fill();
        ctx.beginPath();
        ctx.moveTo(last.x + 0.5, y2);
        ctx.lineTo(last.x - 3, y2 + (up ? 6 : -6));
        ctx.lineTo(last.x + 4, y2 + (up ? 6 : -6));
        ctx.fill();
      }
    }
    ctx.restore();
  }

  function onMove(event: MouseEvent): void {
    const area = canvas.current!.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
    const hit = [...boxes.current].reverse().find((b) => x >= b.x - 1 && x <= b.x + b.w + 1 && y >= b.y && y < b.y + LANE);
    setTip(hit ? { x, y, box: hit } : null);
  }
  function zoom(factor: number, at = 0.5): void {
    const wide = Math.min(end, Math.max(end / 2000, (to - from) * factor)), middle = from + (to - from) * at;
    const start = Math.max(0, Math.min(end - wide, middle - wide * at));
    setView(wide >= end ? null : [start, start + wide]);
  }
  useEffect(() => {
    const element = canvas.current!;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX) && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      const area = element.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.2 : 0.83, Math.max(0, Math.min(1, (event.clientX - area.left - LEFT) / px)));
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  });
  function onKey(event: KeyboardEvent): void {
    const wide = to - from, shift = (by: number) => { const start = Math.max(0, Math.min(end - wide, from + by * wide)); setView([start, start + wide]); };
    if (event.key === '+' || event.key === '=') zoom(0.7);
    else if (event.key === '-') zoom(1.4);
    else if (event.key === '0') setView(null);
    else if (event.key === 'ArrowLeft') shift(-0.2);
    else if (event.key === 'ArrowRight') shift(0.2);
    else return;
    event.preventDefault();
  }
  const names = [...new Set(rows[0].lanes.flatMap((l) => l.items.map((i) => (i.comm ? i.kind : i.name))))];
  void theme.value;
  return (
    <>
      <div class="canvas" ref={box}>
        <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} tabIndex={0} role="img" onMouseMove={onMove} onMouseLeave={() => setTip(null)} onKeyDown={onKey}
          aria-label={`Timeline of step ${mine.step}: ${label}`} />
        {tip && (
          <div class="tip" style={{ left: `${Math.min(tip.x + 14, width - 240)}px`, top: `${tip.y + 14}px` }}>
            <b>{tip.box.item.name}</b> <span class="dim">{tip.box.row.title}</span><br />
            {seconds(tip.box.item.end_seconds - tip.box.item.start_seconds)} from {seconds(tip.box.item.start_seconds)}
            {tip.box.item.bytes > 0 && <><br />{count(tip.box.item.bytes)} bytes</>}
            {tip.box.item.count > 1 && <><br />{tip.box.item.count} operations</>}
          </div>
        )}
      </div>
      <div class="keys" aria-hidden="true">{names.map((name) => <span><i style={{ background: COLORS[name] ?? COLORS.other }} />{name}</span>)}<span class="dim">{rows.some((r) => r.rank >= 0 && r.rank !== mine.rank) ? 'arrows lead to the rank that came last · ' : ''}shift and wheel zoom</span></div>
    </>
  );
}

function clip(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  while (text.length > 1 && ctx.measureText(`${text}…`).width > width) text = text.slice(0, -1);
  return `${text}…`;
}
export function niceTick(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * (least / power <= 1 ? 1 : least / power <= 2 ? 2 : least / power <= 5 ? 5 : 10);
}

/* ---- in words ---- */

function Differences({ mine, middle }: { mine: RankStep; middle: { step: RankStep; of: number } | null }) {
  const sums = new Map<string, { name: string; own: number; peers: number; n: number }>();
  mine.items.forEach((item, i) => {
    const name = item.kind === 'phase' ? `host: ${item.name}` : item.kind === 'span' ? `device: ${item.name}` : item.name;
    const row = sums.get(name) ?? { name, own: 0, peers: 0, n: 0 };
    row.own += item.end_seconds - item.start_seconds;
    if (middle) row.peers += middle.step.items[i].end_seconds - middle.step.items[i].start_seconds;
    row.n += item.count;
    sums.set(name, row);
  });
  const rows = [...sums.values()].sort((a, b) => b.own - b.peers - (a.own - a.peers)); // what takes longer first; waiting less follows from it
  return (
    <Panel title={middle ? `Rank ${mine.rank} beside the median of ${middle.of} peers` : `Rank ${mine.rank}`} note={middle ? undefined : 'no peer did the same operations in the same order'}>
      <table class="rows">
        <thead><tr><th>What</th><th class="num">Count</th><th class="num">This rank</th><th class="num">Peers</th><th class="num">Difference</th><th /></tr></thead>
        <tbody>
          {rows.map((r) => (
            <tr>
              <td>{r.name}</td><td class="num">{count(r.n)}</td><td class="num">{seconds(r.own)}</td><td class="num">{middle ? seconds(r.peers) : '–'}</td>
              <td class="num">{middle ? `${r.own >= r.peers ? '+' : '−'}${seconds(Math.abs(r.own - r.peers))}` : '–'}</td>
              <td class="difference">{middle && <i class={r.own >= r.peers ? 'more' : 'less'} style={{ width: `${Math.min(100, (Math.abs(r.own - r.peers) / mine.seconds) * 100)}%` }} title={percent(Math.abs(r.own - r.peers) / mine.seconds)} />}</td>
            </tr>
          ))}
          <tr><td>CPU time of the host</td><td /><td class="num">{seconds(mine.cpu_seconds)}</td><td class="num">{middle ? seconds(middle.step.cpu_seconds) : '–'}</td><td /><td /></tr>
          <tr><td>runnable, without a CPU</td><td /><td class="num">{seconds(mine.run_delay_seconds)}</td><td class="num">{middle ? seconds(middle.step.run_delay_seconds) : '–'}</td><td /><td /></tr>
        </tbody>
      </table>
    </Panel>
  );
}
