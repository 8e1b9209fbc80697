// nodes.tsx - the nodes of a run: state, ranks, verdicts against them, findings of their sensors, results of their checks.
// SPDX-License-Identifier: Apache-2.0
import { useState } from 'preact/hooks';
import { ago, clock, ranges, seconds, trim } from './format';
import { checks, CHECKS_READ, clockNow, findings, link, nodes, nodeStates, rankOf, route, verdicts, why } from './model';
import type { Check, Node } from './types';
import { Empty, Mark, More, Panel } from './ui';

const QUIET_S = 30;
const MARKS: Record<string, string> = { ok: 'ok', limited: 'warn', failed: 'bad', unknown: 'unknown', info: 'over', warn: 'warn', error: 'bad', fatal: 'bad' };

/* Nothing finer than the error is claimed. */
function offset(n: Node): string {
  if (!n.clock) return 'not known';
  const { offset_seconds: by, error_seconds: error } = n.clock;
  if (!by && !error) return 'reference';
  return Math.abs(by) < error ? `within ${seconds(error)}` : `${seconds(by)} ± ${seconds(error)}`;
}

/* A node that says nothing is not a healthy one. */
function stateOf(n: Node, alive: boolean): { mark: string; text: string } {
  const wrong = verdicts.value.filter((v) => v.nodes.includes(n.node) && !v.until_time).length, site = nodeStates.value.get(n.node);
  const results = checks.value.filter((c) => c.node === n.node), failed = results.filter((c) => c.state === 'failed');
  const silent = alive && n.heard_time && clockNow.value - +new Date(n.heard_time) > QUIET_S * 1000;
  if (wrong) return { mark: 'warn', text: wrong === 1 ? '1 open verdict' : `${wrong} open verdicts` };
  if (site && (site.state === 'failed' || site.state === 'limited')) return { mark: MARKS[site.state], text: `${site.state}${site.why ? `: ${site.why}` : ''}` };
  if (failed.length) return { mark: 'bad', text: `check failed: ${failed[0].name}` };
  if (silent) return { mark: 'unknown', text: 'silent' };
  if (!n.heard_time) return { mark: 'unknown', text: 'no message yet' };
  const text = alive ? 'reports' : 'run ended';
  if (results.some((c) => c.state === 'ok')) return { mark: 'ok', text };
  return { mark: 'unknown', text: checks.value.length < CHECKS_READ ? `${text}, not checked` : text }; // else older checks are not known here
}

function Findings() {
  const list = findings.value;
  return (
    <Panel title="Findings" note={list.length ? `${list.length}${list.length === 200 ? ' newest' : ''}` : undefined}>
      {list.length ? (
        <table class="rows" aria-label="Findings">
          <thead><tr><th>Time</th><th>Node</th><th>Device</th><th>Kind</th><th>What</th><th class="num">Count</th><th>Ranks</th></tr></thead>
          <tbody>
            {list.map((f) => (
              <tr>
                <td>{clock(f.time)}</td><td><b>{f.node}</b></td><td>{f.device ?? '–'}</td>
                <td><Mark state={MARKS[f.severity] ?? 'unknown'} /> {f.kind}{f.code !== null ? ` ${f.code}` : ''} <span class="dim">{f.severity}</span></td>
                <td title={f.raw ?? undefined}>{f.text ?? f.raw ?? '–'}</td><td class="num">{f.count}</td><td>{f.ranks.length ? ranges(f.ranks, f.rank_count) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="dim">No sensor of these nodes reported anything. <code>lockstep doctor</code> shows what the sensors of a node can observe.</p>
      )}
    </Panel>
  );
}

const measured = (c: Check) => (c.value === null ? '–' : `${trim(c.value)}${c.unit ? ` ${c.unit}` : ''}${c.expected === null ? '' : ` of ${trim(c.expected)}`}`);

function Checks() {
  const list = checks.value;
  return (
    <Panel title="Checks" note={list.length ? `${list.length}${list.length === CHECKS_READ ? ' newest' : ''}` : undefined}>
      {list.length ? (
        <table class="rows" aria-label="Checks">
          <thead><tr><th>Node</th><th>Device</th><th>Check</th><th>Stage</th><th>State</th><th class="num">Measured</th><th>Why</th><th>When</th></tr></thead>
          <tbody>
            {list.map((c) => (
              <tr>
                <td><b>{c.node}</b></td><td>{c.device ?? 'node'}</td><td>{c.name}</td><td>{c.stage ?? '–'}</td>
                <td><Mark state={MARKS[c.state] ?? 'unknown'} /> {c.state}</td><td class="num">{measured(c)}</td><td>{c.why ?? '–'}</td><td>{ago(c.time, clockNow.value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="dim">No check of these nodes was run for this run, so nothing is known about their fitness.</p>
      )}
    </Panel>
  );
}

const ROWS_SHOWN = 200;
const WORST = ['bad', 'warn', 'unknown', 'ok'];

export function Nodes() {
  const { run } = route.value;
  const [filter, setFilter] = useState(''), [most, setMost] = useState(ROWS_SHOWN);
  if (!nodes.value.length) return <Empty title="No node has reported yet" />;
  const of = new Map<string, number[]>();
  for (const row of rankOf.value.values()) {
    const list = of.get(row.node ?? '') ?? [];
    list.push(row.rank);
    of.set(row.node ?? '', list);
  }
  const alive = why.value?.alive ?? false;
  const all = nodes.value.map((n) => ({ n, state: stateOf(n, alive) }));
  const shown = all.filter(({ n, state }) => `${n.node} ${state.text}`.toLowerCase().includes(filter.trim().toLowerCase()));
  shown.sort((a, b) => WORST.indexOf(a.state.mark) - WORST.indexOf(b.state.mark) || a.n.node.localeCompare(b.n.node, undefined, { numeric: true }));
  return (
    <div class="ledger">
      <Panel title="Nodes" note={`${shown.length === all.length ? all.length : `${shown.length} of ${all.length}`}, worst first`}
        actions={<input type="search" aria-label="Filter nodes" placeholder="Filter: name, state" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />}>
        <table class="rows" aria-label="Nodes">
          <thead><tr><th>Node</th><th>State</th><th>Ranks</th><th>Last report</th><th class="num">Clock offset</th><th>Agent</th><th class="num">Findings</th><th>Verdicts</th></tr></thead>
          <tbody>
            {shown.slice(0, most).map(({ n, state }) => {
              const mine = verdicts.value.filter((v) => v.nodes.includes(n.node));
              const list = (of.get(n.node) ?? []).sort((a, b) => a - b), found = findings.value.filter((f) => f.node === n.node).length;
              return (
                <tr>
                  <td><b>{n.node}</b></td>
                  <td><Mark state={state.mark} /> {state.text}</td>
                  <td>{list.length ? ranges(list) : n.ranks}</td>
                  <td>{ago(n.heard_time, clockNow.value)}</td>
                  <td class="num">{offset(n)}</td>
                  <td>{n.version ?? '–'}</td>
                  <td class="num">{found}</td>
                  <td>{mine.length ? mine.slice(0, 3).map((v) => <a class="verdict-link" href={link('now', run, { verdict: v.id })}>{v.kind}{v.until_time ? ' (over)' : ''}</a>) : <span class="dim">none</span>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
        <More shown={most} of={shown.length} what="nodes" more={setMost} />
      </Panel>
      <Findings />
      <Checks />
    </div>
  );
}
