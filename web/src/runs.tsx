// runs.tsx - all runs that this controller knows.
// SPDX-License-Identifier: Apache-2.0
import { useState } from 'preact/hooks';
import { count, dateTime, percent } from './format';
import { link, runs } from './model';
import { Empty, Mark, More, Panel } from './ui';
import type { Run } from './types';

function state(r: Run): string {
  if (r.refused) return 'unknown';
  if (r.verdicts_open) return 'warn';
  if (r.status) return r.verdicts ? 'over' : 'unknown';
  return r.steps && (r.ended || !r.closed) ? 'ok' : 'unknown';
}

export function Runs() {
  const [filter, setFilter] = useState(''), [most, setMost] = useState(200);
  const all = runs.value;
  if (!all) return <Empty title="Reading the runs …" />;
  if (!all.length) return (
    <Empty title="No runs yet">
      <p>This controller has not received any facts. Start a job under it:</p>
      <pre>lockstep run -n 8 -- python3 train.py</pre>
    </Empty>
  );
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = all.filter((r) => words.every((word) => `${r.run} ${r.state} ${r.command ?? ''} ${r.verdicts_open ? 'open' : ''}`.toLowerCase().includes(word)));
  return (
    <Panel title="Runs" note={`${shown.length} of ${all.length}`} actions={<input type="search" aria-label="Filter runs" placeholder="Filter: name, state, command" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />}>
      <table class="rows">
        <thead><tr><th>Run</th><th>State</th><th class="num">Ranks</th><th class="num">Steps</th><th class="num">Open</th><th class="num">Verdicts</th><th class="num">Goodput</th><th>Began</th><th>Command</th></tr></thead>
        <tbody>
          {shown.slice(0, most).map((r) => (
            <tr>
              <td><a href={link('now', r.run)}><b>{r.run}</b></a></td>
              <td><Mark state={state(r)} /> {r.state}{r.status ? ` (${r.status})` : ''}</td>
              <td class="num">{count(r.ranks)}</td><td class="num">{count(r.steps)}</td><td class="num">{r.verdicts_open || ''}</td><td class="num">{r.verdicts}</td>
              <td class="num">{r.ledger ? percent(r.ledger.goodput) : '–'}</td><td>{dateTime(r.begin_time)}</td>
              <td class="command" title={r.command ?? ''}>{r.command ?? '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More shown={most} of={shown.length} what="runs" more={setMost} />
    </Panel>
  );
}
