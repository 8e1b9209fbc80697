// ledger_view.tsx - the ledger: from allocated to productive GPU time, and over time.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { BUCKETS } from './ledger';
import { clock, gpuShort, gpuTime, percent, ranges, seconds, trim } from './format';
import { firstSteps, ledger, ledgers, link, route, steps, verdicts, why } from './model';
import { saved } from './source';
import type { LedgerRow, Step } from './types';
import { Mfu, MfuQuestion } from './mfu';
import { color, Empty, Panel, Stat, theme } from './ui';
import { sentence, severity } from './words';

const AXIS = 48, LANES_SHOWN = 24; // pixels left of the chart; verdicts below it
const LOSSES_MOST = 100; // that are averaged at each end, as in lockstep report

/* Which kinds of verdicts explain a bucket. */
const KINDS: Record<string, string[]> = {
  'straggler-wait': ['straggler', 'regression'], imbalance: ['imbalance'], transfer: ['sync-stall'], input: ['input-stall'], checkpoint: ['checkpoint-stall'],
  'start-up': ['startup-stall'], hang: ['hang', 'desync'], restart: ['crash', 'node-fault', 'hang'], lost: ['crash', 'corruption', 'node-fault'], down: ['node-fault'],
};

function Waterfall() {
  const book = ledger.value!;
  const total = Object.values(book.buckets).reduce((a, b) => a + b, 0) || 1;
  const losses = BUCKETS.filter((b) => b.name !== 'productive').map((b) => ({ ...b, value: book.buckets[b.name] ?? 0 })).filter((b) => b.value > 0).sort((a, b) => b.value - a.value);
  let left = total;
  const rows = [{ name: 'allocated', what: `${book.ranks} places × ${seconds(book.wall_seconds)}`, color: 'var(--faint)', from: 0, to: total, value: total }];
  for (const b of losses) {
    rows.push({ ...b, from: left - b.value, to: left });
    left -= b.value;
  }
  rows.push({ ...BUCKETS[0], from: 0, to: left, value: left });
  return (
    <table class="waterfall" aria-label="From allocated to productive GPU time">
      <tbody>
        {rows.map((b) => {
          const mine = verdicts.value.filter((v) => KINDS[b.name]?.includes(v.kind));
          return (
            <tr>
              <th scope="row">{b.name}<small>{b.what}</small></th>
              <td class="track"><i style={{ left: `${(b.from / total) * 100}%`, width: `${Math.max(0.15, ((b.to - b.from) / total) * 100)}%`, background: b.color }} /></td>
              <td class="num">{gpuShort(b.value)}</td>
              <td class="num">{percent(b.value / total)}</td>
              <td>{mine.slice(0, 2).map((v) => <a class="verdict-link" href={link('now', v.run, { verdict: v.id })} title={sentence(v)}>{v.kind} {v.ranks.length ? `${v.ranks.length === 1 ? 'rank' : 'ranks'} ${ranges(v.ranks, v.rank_count)}` : (v.nodes[0] ?? '')}</a>)}{mine.length > 2 && <span class="dim"> and {mine.length - 2} more</span>}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

interface Intervals { shown: typeof BUCKETS; times: number[]; parts: number[][] } // times in seconds; parts: from the bottom up, in per cent

function intervalsOf(rows: LedgerRow[]): Intervals {
  const shown = BUCKETS.filter((b) => (rows[rows.length - 1]?.ledger.buckets[b.name] ?? 0) > 0);
  const stride = Math.max(1, Math.floor(rows.length / 400)), times: number[] = [], parts: number[][] = shown.map(() => []);
  for (let i = stride; i < rows.length; i += stride) {
    const before = rows[i - stride].ledger.buckets, now = rows[i].ledger.buckets;
    const gained = shown.map((b) => Math.max(0, (now[b.name] ?? 0) - (before[b.name] ?? 0)));
    const sum = gained.reduce((a, b) => a + b, 0);
    if (sum <= 0) continue;
    times.push(+new Date(rows[i].time ?? 0) / 1000);
    let below = 0;
    gained.forEach((g, k) => parts[k].push((below += g / sum) * 100));
  }
  return { shown, times, parts };
}

/* Below the chart, on its time axis: which verdicts a rise belongs to, the dearest ones. */
function VerdictLanes({ from, to }: { from: number; to: number }) {
  const ends: number[] = [], span = to - from || 1, name = Math.min(0.5, 130 / Math.max(260, innerWidth - 120)); // share of the width that a name needs
  const dear = [...verdicts.value].sort((a, b) => b.cost.gpu_seconds - a.cost.gpu_seconds).slice(0, LANES_SHOWN);
  const bars = dear.flatMap((v) => {
    const begin = v.since_time ? +new Date(v.since_time) / 1000 : NaN, end = v.until_time ? +new Date(v.until_time) / 1000 : to;
    if (!(begin < to && end > from)) return [];
    return [{ v, left: Math.max(0, (begin - from) / span), right: Math.min(1, (end - from) / span) }];
  }).sort((a, b) => a.left - b.left).map((bar) => {
    let lane = ends.findIndex((end) => end <= bar.left);
    if (lane < 0) lane = ends.length;
    ends[lane] = Math.max(bar.right, bar.left + name);
    return { ...bar, lane };
  });
  if (!bars.length) return null;
  return (
    <ul class="lanes" aria-label="Verdicts over time" style={{ height: `${ends.length * 22}px` }}>
      {bars.map(({ v, left, right, lane }) => (
        <li class={severity(v)} style={{ left: `${Math.min(left, 1 - name) * 100}%`, top: `${lane * 22}px`, width: `${Math.max(right - left, name) * 100}%` }}>
          <i style={{ marginLeft: `${(Math.max(0, left - (1 - name)) / Math.max(right - left, name)) * 100}%`, width: `${((right - left) / Math.max(right - left, name)) * 100}%` }} />
          <a href={link('now', v.run, { verdict: v.id })} title={sentence(v)}>{v.kind} {v.ranks.length ? ranges(v.ranks, v.rank_count) : v.nodes[0] ?? ''}</a>
        </li>
      ))}
    </ul>
  );
}

/* Shares of each interval, stacked. */
function OverTime() {
  const box = useRef<HTMLDivElement>(null);
  const rows = ledgers.value;
  useEffect(() => {
    const element = box.current;
    const { shown, times, parts } = intervalsOf(rows);
    if (!element || times.length < 2) return;
    const width = element.clientWidth;
    const axis = { stroke: color('dim'), grid: { stroke: color('line'), width: 1 }, ticks: { show: false }, font: `11px ${color('font')}` };
    const plot = new uPlot({
      width, height: 220, cursor: { points: { show: false }, y: false }, legend: { show: false }, padding: [8, 8, 0, 0],
      scales: { x: { time: true }, y: { range: [0, 100] } },
      axes: [{ ...axis, values: (_, values) => values.map((v) => clock(new Date(v * 1000).toISOString())), size: 26, space: 80 }, { ...axis, values: (_, values) => values.map((v) => `${v} %`), size: AXIS }],
      series: [{}, ...shown.map((b) => ({ label: b.name, stroke: b.color, fill: b.color, width: 0, points: { show: false } })).reverse()],
    }, [times, ...[...parts].reverse()], element); // from the top down: each area covers the lower part of the one before it
    return () => plot.destroy();
  }, [rows.length, theme.value]);
  const { shown, times } = intervalsOf(rows);
  if (times.length < 2) return <p class="dim">The ledger is written every five seconds; two intervals are needed.</p>;
  return (
    <>
      <div ref={box} class="chart" role="img" aria-label="Shares of the buckets over time, stacked" />
      <VerdictLanes from={times[0]} to={times[times.length - 1]} />
      <div class="keys" aria-hidden="true">{shown.map((b) => <span><i style={{ background: b.color }} />{b.name}</span>)}</div>
    </>
  );
}

/* Loss at both ends of the surviving lineage, each the mean of a twentieth of it, as lockstep report computes it; null: the program reports none. */
function learned(): { first: number; last: number } | null {
  const report = saved?.report;
  if (report) return typeof report.loss_first === 'number' && typeof report.loss_last === 'number' ? { first: report.loss_first, last: report.loss_last } : null;
  const told = (s: Step) => s.loss !== null && s.loss !== undefined, rows = new Map<number, Step>();
  for (const s of [...firstSteps.value, ...steps.value]) rows.set(s.column, s);
  const lineage: Step[] = [];
  for (const s of [...rows.values()].sort((a, b) => b.column - a.column)) { // a step that a later attempt did again does not count
    if (!lineage.length || s.step < lineage[lineage.length - 1].step) lineage.push(s);
  }
  const losses = lineage.filter(told).map((s) => s.loss as number);
  const columns = lineage.length ? lineage[0].column + 1 : 0, all = rows.size < columns ? columns : losses.length; // the page has both ends of a long run
  const ends = Math.min(Math.floor(all / 20) + 1, LOSSES_MOST, losses.length);
  const mean = (list: number[]) => list.reduce((sum, loss) => sum + loss, 0) / list.length;
  return losses.length > 1 ? { first: mean(losses.slice(-ends)), last: mean(losses.slice(0, ends)) } : null;
}

function Figures({ hours }: { hours: number }) {
  const loss = learned(), velocity = loss && hours > 0 ? (loss.first - loss.last) / hours : null;
  return (
    <>
      <Stat name="Learning velocity" tone={velocity === null ? 'unknown' : ''} label={`Learning velocity: ${velocity === null ? 'not known, the program reports no loss' : `${velocity.toPrecision(3)} per GPU-hour`}`}
        value={velocity === null ? 'not known' : `${velocity.toPrecision(3)} / GPU-h`} note={loss ? `(loss ${trim(loss.first)} − ${trim(loss.last)}) ÷ allocated GPU-hours` : 'the program reports no loss'} />
      <Mfu />
    </>
  );
}

/* Attempts that failed, as lockstep report counts them. */
function failed(): number {
  const w = why.value;
  if (!w) return 0;
  const last = !w.alive && w.status && (w.unexplained || w.verdicts.some((v) => !v.until_time && ['crash', 'hang', 'desync'].includes(v.kind)));
  return w.restarts.filter((r) => r.status !== 0).length + (last ? 1 : 0);
}

/* Time in attempts: between two of them nothing can fail. */
function exposure(wall: number): number {
  return wall - (why.value?.restarts ?? []).reduce((sum, r) => sum + (r.parts?.start_s ?? 0), 0);
}

export function LedgerView() {
  const book = ledger.value;
  if (!book) return <Empty title="Nothing is accounted yet"><p>The ledger begins with the first step.</p></Empty>;
  const total = Object.values(book.buckets).reduce((a, b) => a + b, 0);
  const failures = failed(), trained = exposure(book.wall_seconds);
  void route.value;
  return (
    <div class="ledger">
      <div class="stats">
        <Stat name="Allocated" label={`Allocated: ${gpuTime(total)}`} value={gpuShort(total)} note={`${book.ranks} places × ${seconds(book.wall_seconds)}`} />
        <Stat name="Goodput" label={`Goodput: ${percent(book.goodput)}`} value={percent(book.goodput)} note="productive ÷ allocated GPU time" />
        <Stat name="ETTR" label={`ETTR: ${percent(book.ettr)}`} value={percent(book.ettr)} note="productive ÷ GPU time of the places that train" />
        <Stat name="Wasted" label={`Wasted: ${gpuTime(total - (book.buckets.productive ?? 0))}`} value={gpuShort(total - (book.buckets.productive ?? 0))} note="allocated − productive" />
        <Stat name="MTTF" label={`MTTF: ${failures ? seconds(trained / failures) : 'no failure yet'}`} value={failures ? seconds(trained / failures) : '–'} note={failures ? `${seconds(trained)} of attempts ÷ ${failures} ${failures === 1 ? 'failure' : 'failures'}` : 'no failure yet'} />
        <Figures hours={total / 3600} />
      </div>
      <MfuQuestion />
      <Panel title="From allocated to productive" note={book.host_view ? 'host view: no device times' : `${book.steps} steps${book.unfit_steps ? `, ${book.unfit_steps} without a cost` : ''}`}><Waterfall /></Panel>
      <Panel title="Over time"><OverTime /></Panel>
    </div>
  );
}
