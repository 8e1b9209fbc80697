// now.tsx - is the job healthy; if not: what is wrong, since when, why, what it costs, and what was done.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef, useState } from 'preact/hooks';
import { clock, count, dateTime, gpuShort, gpuTime, percent, ranges, seconds, span, trim } from './format';
import { clockNow, judged, ledger, link, open, route, run, steps, verdicts, why } from './model';
import type { Verdict, Why } from './types';
import { Chip, Copy, Empty, Mark, More, Panel, Spark, Stat } from './ui';
import { comparison, sentence, severity, who } from './words';
import { LedgerBar } from './ledger';

/* ---- one verdict ---- */

function Compare({ text }: { text: string }) {
  const pair = comparison(text);
  if (!pair) return null;
  const most = Math.max(pair.mine, pair.peers) || 1;
  return (
    <div class="compare" aria-hidden="true">
      <span>this rank</span>
      <i class="mine" style={{ width: `${(pair.mine / most) * 100}%` }} />
      <b>{pair.mine} {pair.unit}</b>
      <span>peers</span>
      <i style={{ width: `${(pair.peers / most) * 100}%` }} />
      <b>{pair.peers} {pair.unit}</b>
    </div>
  );
}

function Evidence({ v }: { v: Verdict }) {
  return (
    <>
      <h4>Evidence</h4>
      <ul class="evidence" aria-label="Evidence">
        {v.because.map((line) => (
          <li>
            <div><span>{line.file ? `${line.file}:${line.line}: ` : ''}{line.what}</span><Compare text={line.what} /></div>
            <Chip tone="source">{line.source}</Chip>
          </li>
        ))}
      </ul>
      {v.ruled_out.length > 0 && (
        <>
          <h4>Ruled out</h4>
          <ul class="ruled" aria-label="Ruled out">
            {v.ruled_out.map((line) => (
              <li><s>{line.layer}</s><span>{line.why}</span></li>
            ))}
          </ul>
        </>
      )}
      {v.echoes.length > 0 && (
        <>
          <h4>Follow-on errors</h4>
          <ul class="ruled" aria-label="Follow-on errors">
            {v.echoes.map((line) => (
              <li><em>{line.source}</em><span>{line.what}</span></li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Fact({ name, label, children, note, wide }: { name: string; label: string; children: preact.ComponentChildren; note?: string; wide?: boolean }) {
  return (
    <div class={wide ? 'fact wide' : 'fact'} role="group" aria-label={label}>
      <dt>{name}</dt>
      <dd>{children}</dd>
      {note && <small>{note}</small>}
    </div>
  );
}

/* The newest checkpoint that all ranks had read back and found right when a rank failed. */
export function verifiedOf(v: Verdict): string {
  const line = v.because.find((b) => b.source === 'note' && /which all ranks have verified/.test(b.what));
  const match = line && /from the checkpoint of step (\d+),/.exec(line.what);
  return match ? `step ${match[1]}` : '';
}

export function checkpointOf(v: Verdict): string {
  const match = /(?:training since|from|restart from) step (\d+)/.exec(v.action?.plan ?? '');
  return match ? `step ${match[1]}` : '';
}

/* What the policy decided about a verdict, the newest: done, or what it would do. */
function decided(v: Verdict): { text: string; state: string } | null {
  const d = (why.value?.decisions ?? []).filter((one) => one.answers === v.id && one.action !== 'alert').pop();
  if (!d) return null;
  const rule = /^([a-z0-9][a-z0-9-]*): (.*)$/s.exec(d.why ?? ''); // "RULE: reason"
  const text = `${d.action.replace(/-/g, ' ')}${rule ? `, by the rule ${rule[1]}: ${rule[2]}` : d.why ? `: ${d.why}` : ''}`;
  return d.state === 'dry-run' ? { text: `would ${text}`, state: 'dry run' } : { text, state: d.outcome ?? d.state };
}

function Facts({ v }: { v: Verdict }) {
  const lasted = v.since_time ? ((v.until_time ? +new Date(v.until_time) : clockNow.value) - +new Date(v.since_time)) / 1000 : 0;
  const act = v.action ? { text: v.action.plan, state: v.action.state } : decided(v), nothing = v.until_time ? 'nothing' : 'nothing yet';
  const done = act ? `${act.text} (${act.state})` : `${nothing}: no rule of the policy acts on this verdict`;
  const from = checkpointOf(v) || verifiedOf(v);
  const since = `${v.since_time ? `${clock(v.since_time)}, ` : ''}step ${v.since_step}`;
  const cost = v.cost.gpu_seconds > 0 ? gpuTime(v.cost.gpu_seconds) : 'not priced';
  return (
    <dl class="facts">
      <Fact name="Which" label={`Which rank: ${who(v)}`} note={v.device ?? v.group ?? undefined}>{who(v)}</Fact>
      <Fact name="Since" label={`Since when: ${since}`} note={v.until_time ? `over after ${span(lasted)}` : v.since_time ? `for ${span(lasted)}` : undefined}>
        step {v.since_step}{v.since_time && <span class="dim"> · {clock(v.since_time)}</span>}
      </Fact>
      <Fact name="Cost" label={`What it cost: ${cost}`} note={v.cost.seconds_per_step > 0 ? `${seconds(v.cost.seconds_per_step)} of each step` : undefined}>{cost}</Fact>
      {from && <Fact name={checkpointOf(v) ? 'Resumed from' : 'Can continue from'} label={`Which checkpoint: ${from}`}>checkpoint of {from}</Fact>}
      <Fact wide={!!act && act.text.length > 30} name={act?.state === 'dry run' ? 'Would be done' : 'Done'} label={`What was done: ${done}`}>{act ? <>{act.text} <Chip>{act.state}</Chip></> : <span class="dim">{nothing}</span>}</Fact>
    </dl>
  );
}

export function Card({ v, expanded }: { v: Verdict; expanded: boolean }) {
  const [shown, setShown] = useState(expanded);
  const state = severity(v);
  const at = `v-${v.id}`;
  const linked = route.value.params.get('verdict') === v.id, box = useRef<HTMLElement>(null);
  useEffect(() => {
    if (linked) box.current?.scrollIntoView({ block: 'nearest' });
  }, [linked]);
  return (
    <article ref={box} class={`card ${state} ${linked ? 'linked' : ''}`} id={at} aria-label={`${v.kind}: ${sentence(v)}${v.until_time ? ', over' : ''}`}>
      <header>
        <Mark state={state} size={14} />
        <span class="kind">{v.kind}</span>
        <Chip>{v.layer}</Chip>
        <Chip>{v.until_time ? 'over' : 'open'}</Chip>
        <span class="confidence" title="confidence" aria-label={`Confidence ${percent(v.confidence)}`}>
          <i style={{ width: `${v.confidence * 40}px` }} />{Math.round(v.confidence * 100)} % sure
        </span>
      </header>
      <h3>{sentence(v)}</h3>
      {v.cause && <p class="cause">{v.cause}</p>}
      <Facts v={v} />
      {shown && (
        <>
          <Evidence v={v} />
          <p class="todo"><b>To do</b> {v.advice}</p>
        </>
      )}
      <footer>
        <button class="quiet" type="button" aria-expanded={shown} onClick={() => setShown(!shown)}>{shown ? 'Less' : 'Evidence and what to do'}</button>
        {v.ranks.length > 0 && <a class="quiet" href={link('heatmap', v.run, { rank: v.ranks[0], step: v.since_step })}>Show on heatmap</a>}
        {v.ranks.length > 0 && <a class="quiet" href={link('timeline', v.run, { rank: v.ranks[0], step: v.decided_step })}>Timeline of step {v.decided_step}</a>}
        <Copy label="Copy as command" text={`lockstep incident --run ${shellWord(v.run)} ${v.id}`} />
        <Copy label="Copy link" text={`${location.href.split('#')[0]}${link('now', v.run, { verdict: v.id })}`} />
        <span class="id">{v.id}</span>
      </footer>
    </article>
  );
}

export function shellWord(text: string): string {
  return /^[A-Za-z0-9_.,:@%+=/-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

/* ---- the run ---- */

export function health(w: Why | null): { state: string; title: string; text: string } {
  if (!w) return { state: 'unknown', title: 'Reading …', text: '' };
  const wrong = w.verdicts.filter((v) => !v.until_time);
  const steps = w.counts.steps ?? 0;
  if (wrong.length) {
    const stops = wrong.some((v) => severity(v) === 'bad');
    return { state: stops ? 'bad' : 'warn', title: wrong.length === 1 ? '1 open verdict' : `${wrong.length} open verdicts`, text: sentence(wrong[0]) };
  }
  if (w.unexplained) return { state: 'unknown', title: 'Cannot tell', text: 'The run ended badly and no verdict explains why.' };
  if (!steps) return { state: 'unknown', title: 'Cannot tell', text: 'No step was observed, so the speed of the job is not known.' };
  if (w.standstill_seconds) return { state: 'unknown', title: 'Cannot tell', text: `No rank ${w.alive ? 'has' : 'had'} advanced for ${seconds(w.standstill_seconds)}${w.alive ? '' : ' when it ended'}, and no verdict explains why.` };
  if (w.lost_share) return { state: 'unknown', title: 'Cannot tell', text: `${percent(w.lost_share)} of the GPU time since start-up was lost, and no verdict explains why.` };
  const over = w.verdicts.length;
  const past = over ? `${over} ${over === 1 ? 'verdict is' : 'verdicts are'} over.` : 'No verdict so far.';
  return w.alive
    ? { state: 'ok', title: 'Healthy', text: `No open verdict. ${past}` }
    : { state: w.status ? 'warn' : 'ok', title: `Ended${w.status ? ` with status ${w.status}` : ''}`, text: `No verdict was open at the end. ${past}` };
}

function when(alive: boolean): string {
  const r = run.value;
  if (!alive && r?.end_time) return ` at ${dateTime(r.end_time)}`;
  if (!r?.begin_time) return '';
  return `${alive ? ' since' : ', began'} ${dateTime(r.begin_time)}`;
}

function Banner() {
  const h = health(why.value);
  const w = why.value;
  return (
    <div class={`banner ${h.state}`} role="status" aria-label={`Health: ${h.title}. ${h.text}`}>
      <Mark state={h.state} size={22} />
      <div>
        <h1>{h.title}</h1>
        <p>{h.text}</p>
      </div>
      {w && <span class="banner-state">{w.state}{when(w.alive)}</span>}
    </div>
  );
}

function pace(): { perSecond: number; typical: number; times: number[] } {
  const last = steps.value.slice(-120);
  const times = last.map((s) => s.seconds);
  const sorted = [...times].sort((a, b) => a - b);
  const typical = sorted.length ? sorted[sorted.length >> 1] : 0;
  const from = last.slice(-32);
  let perSecond = 0;
  if (from.length > 1 && from[0].begin_time && from[from.length - 1].begin_time) {
    const span = (+new Date(from[from.length - 1].begin_time!) - +new Date(from[0].begin_time)) / 1000;
    perSecond = span > 0 ? (from.length - 1) / span : 0;
  }
  return { perSecond, typical, times };
}

function Numbers() {
  const last = steps.value[steps.value.length - 1];
  const { perSecond, typical, times } = pace();
  const losses = steps.value.filter((s) => s.loss !== null && s.loss !== undefined).slice(-300).map((s) => s.loss as number);
  const book = ledger.value;
  const cost = verdicts.value.reduce((sum, v) => sum + v.cost.gpu_seconds, 0);
  const resumed = verdicts.value.map(checkpointOf).find((text) => text);
  const saved = why.value?.checkpoint;
  const verified = saved ? `step ${saved.step}` : [...verdicts.value].sort((a, b) => b.decided_step - a.decided_step).map(verifiedOf).find((text) => text);
  const newest = resumed ? `restarted from ${resumed}` : '';
  const loss = losses.length ? trim4(losses[losses.length - 1]) : '–';
  const r = run.value;
  return (
    <div class="stats">
      <Stat name="Step" label={`Step: ${last ? last.step : 'none yet'}`} value={last ? count(last.step) : '–'}
        note={last ? `attempt ${last.attempt}, ${count(Math.max(judged.value, r?.steps ?? 0))} steps trained` : 'no step yet'} />
      <Stat name="Steps per second" label={`Steps per second: ${perSecond ? trim(perSecond) : 'unknown'}`} value={perSecond ? trim(perSecond) : '–'}
        note={typical ? `${seconds(typical)} typical` : undefined}><Spark values={times} zero /></Stat>
      <Stat name="Loss" label={`Loss: ${losses.length ? loss : 'not reported'}`} value={loss} note={losses.length ? 'mean of the ranks' : 'the program reports none'}>
        {losses.length > 1 && <Spark values={losses} />}
      </Stat>
      <Stat name="Goodput" label={`Goodput: ${book && book.goodput !== null ? percent(book.goodput) : 'not known'}`} value={book ? percent(book.goodput) : '–'}
        note={book ? `of ${gpuShort(book.wall_seconds * book.ranks)} allocated` : undefined} />
      <Stat name="Cost of verdicts" label={`Cost of all verdicts: ${cost || !verdicts.value.length ? gpuTime(cost) : 'not priced'}`} value={cost || !verdicts.value.length ? gpuShort(cost) : 'not priced'} note={verdicts.value.length === 1 ? 'of 1 verdict' : `of ${verdicts.value.length} verdicts`} tone={cost || !verdicts.value.length ? '' : 'unknown'} />
      <Stat name="Last verified checkpoint" label={`Last verified checkpoint: ${verified ?? 'not observed'}${newest ? `; ${newest}` : ''}`} value={verified ?? 'not observed'}
        tone={verified ? '' : 'unknown'} note={newest || (saved ? `read back by all ranks in ${seconds(saved.verify_seconds)}` : verified ? 'by all ranks, as of the last failure' : 'the ranks report none')} />
    </div>
  );
}
function trim4(n: number): string {
  return Math.abs(n) >= 1000 ? n.toExponential(2) : n.toPrecision(4);
}

/* What the judges could not see is listed, and never counts as healthy. */
export function notObserved(w: Why): string[] {
  const c = w.counts, list: string[] = [];
  const say = (n: number | undefined, one: string, many: string) => {
    if (n) list.push(`${count(n)} ${n === 1 ? one : many}`);
  };
  if (!c.steps) list.push('steps: no process loaded the lockstep probe; only crashes and exits are known');
  say((c.ranks ?? 0) - (c.ranks_seen ?? 0), 'rank was never seen', 'ranks were never seen');
  say(c.unfinished_steps, 'step had not ended when its rank ended', 'steps had not ended when their ranks ended');
  say(c.unfit_steps, 'step has no cost: it cannot be replayed', 'steps have no cost: they cannot be replayed');
  say(c.gap_records, 'record was overwritten before it was read', 'records were overwritten before they were read');
  say(c.gap_steps, 'step was lost in such a gap', 'steps were lost in such gaps');
  say(c.torn_steps, 'step is incomplete', 'steps are incomplete');
  say(c.bare_steps, 'step came without its operations', 'steps came without their operations');
  say(c.merged_steps, 'step is known only together with others', 'steps are known only together with others');
  say(c.lost_frames, 'message of an agent is missing', 'messages of agents are missing');
  say(c.damaged_bytes, 'byte of the log is damaged', 'bytes of the log are damaged');
  say(c.malformed, 'message was malformed', 'messages were malformed');
  if (w.ledger?.host_view) list.push('device times: host phases stand for the work');
  return list;
}

function Side() {
  const w = why.value;
  if (!w) return null;
  const unseen = notObserved(w);
  const forecast = (v: Verdict) => v.because.find((b) => b.source === 'forecast')?.what;
  const forming = open.value.filter(forecast);
  return (
    <aside>
      <Panel title="Where the time went" actions={<a class="quiet" href={link('ledger')}>Ledger</a>}>
        {ledger.value ? <LedgerBar ledger={ledger.value} /> : <p class="dim">nothing is accounted yet</p>}
      </Panel>
      <Panel title="Forming stragglers">
        {forming.length ? (
          <ul class="plain">{forming.map((v) => <li><a href={link('now', v.run, { verdict: v.id })}>{who(v)}</a>: {v.cause?.replace(/^forming: /, '') ?? ''}; {forecast(v)}</li>)}</ul>
        ) : (
          <p class="dim">no rank gets slower step by step</p>
        )}
      </Panel>
      <Panel title="Restarts" note={w.counts.attempts > 1 ? `${w.counts.attempts} attempts` : undefined}>
        {w.restarts.length ? (
          <ul class="plain">{w.restarts.map((r) => <li>attempt {r.attempt} ended: {r.culprit === null ? '' : `rank ${r.culprit} `}{r.why}</li>)}</ul>
        ) : (
          <p class="dim">none</p>
        )}
      </Panel>
      <Panel title="Not observed">
        {unseen.length ? <ul class="plain">{unseen.map((text) => <li>{text}</li>)}</ul> : <p class="dim">every rank and every step was observed</p>}
      </Panel>
      {w.environment && (w.environment.difference_count > 0 || w.environment.change_count > 0) && (
        <Panel title="Environments">
          <p>{w.environment.difference_count} differ between ranks, {w.environment.change_count} changed since the attempt before</p>
        </Panel>
      )}
    </aside>
  );
}

const CARDS_SHOWN = 50, EXPANDED = 5; // of open verdicts; the others open by a click

export function Now() {
  const [most, setMost] = useState(CARDS_SHOWN);
  const w = why.value;
  if (!w) return <Empty title="Reading the run …" />;
  const wrong = open.value, over = verdicts.value.filter((v) => v.until_time);
  const asked = route.value.params.get('verdict');
  return (
    <div class="now">
      <Banner />
      <Numbers />
      <div class="columns">
        <main>
          {wrong.slice(0, most).map((v, i) => <Card key={v.id} v={v} expanded={i < EXPANDED || v.id === asked} />)}
          <More shown={most} of={wrong.length} what="open verdicts" more={setMost} />
          {over.length > 0 && <h2 class="section">Over <span class="dim">{over.length}</span></h2>}
          {over.filter((v, i) => i < most || v.id === asked).map((v, i) => <Card key={v.id} v={v} expanded={v.id === asked || (!wrong.length && i === 0)} />)}
          <More shown={most} of={over.length} what="verdicts" more={setMost} />
          {!verdicts.value.length && (
            <div class="calm">
              <p>No verdict{w.alive ? ' so far' : ''}.</p>
              <p class="dim">{(w.counts.steps ?? 0) > 0 ? `${count(w.counts.steps)} steps of ${ranges([w.counts.ranks_seen])} ranks were judged.` : 'Nothing could be judged yet.'}</p>
            </div>
          )}
        </main>
        <Side />
      </div>
    </div>
  );
}
