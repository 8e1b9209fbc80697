// score_view.tsx - the score card of a saved page: for people who pay, beside figures that others have published.
// SPDX-License-Identifier: Apache-2.0
import { count, gpuShort, gpuTime, percent, seconds, trim } from './format';
import { link } from './model';
import { saved } from './source';
import type { Score } from './types';
import { Empty, Panel } from './ui';
import { sentence } from './words';

interface Row { name: string; field: string; show: (n: number) => string; note?: string }

function rows(s: Score): Row[] {
  const number = (field: string) => s[field] as number | null;
  const low = number('mttf_low'), high = number('mttf_high'), spread = number('checkpoint_deviation_s'), spikes = number('data_p50_at_spikes_s'), plain = number('data_p50_s');
  const money = number('learning_velocity_per_money');
  const interval = low === null ? '' : `${high === null ? `more than ${seconds(low)}` : `${seconds(low)} to ${seconds(high)}`} with 95 % confidence: ${s.failures} ${s.failures === 1 ? 'failure' : 'failures'} in ${seconds(number('exposure_seconds'))} of training`;
  return [
    { name: 'Goodput', field: 'goodput', show: percent, note: 'productive ÷ allocated GPU time' },
    { name: 'ETTR', field: 'ettr', show: percent, note: 'productive ÷ GPU time of the places that train' },
    { name: 'MFU', field: 'mfu', show: percent, note: s.mfu_formula },
    { name: 'Tokens per second', field: 'tokens_per_second', show: trim },
    { name: 'MTTF', field: 'mttf_seconds', show: seconds, note: interval },
    { name: 'Time to first step', field: 'time_to_first_step_seconds', show: seconds, note: 'from the begin of the run to the end of its first step' },
    { name: 'Queue', field: 'queue_seconds', show: seconds },
    { name: 'Prolog', field: 'prolog_seconds', show: seconds },
    { name: 'Start-up', field: 'start_up_seconds', show: seconds, note: 'from the begin of the run to the begin of its first step' },
    { name: 'Time to steady steps', field: 'time_to_steady_seconds', show: seconds, note: 'the first of ten in a row within 10 % of the median' },
    { name: 'Step', field: 'step_p50_s', show: seconds, note: `median; p99 ${seconds(number('step_p99_s'))}` },
    { name: 'Input wait at spikes', field: 'data_p50_at_spikes_s', show: seconds, note: spikes === null ? undefined : `${s.spikes} steps over 1.5 times the median; ${seconds(plain)} otherwise` },
    { name: 'Checkpoint', field: 'checkpoint_p50_s', show: seconds, note: spread === null ? undefined : `median of ${s.checkpoints}; p99 ${seconds(number('checkpoint_p99_s'))}, standard deviation ${seconds(spread)}` },
    { name: 'Pauses per hour', field: 'pauses_per_hour', show: trim, note: `${s.pauses} in all` },
    { name: 'Learning velocity', field: 'learning_velocity', show: (n) => `${n.toPrecision(3)} per GPU-hour`, note: [number('loss_first') === null ? '' : `(loss ${trim(number('loss_first')!)} − ${trim(number('loss_last')!)}) ÷ allocated GPU-hours`, money === null ? '' : `${money.toPrecision(3)} per unit of money`].filter(Boolean).join('; ') },
  ];
}

function published(s: Score, field: string, show: (n: number) => string): string {
  return s.published.filter((p) => p.field === field).map((p) => `${p.low === p.high ? show(p.low) : `${show(p.low)} to ${show(p.high)}`}${p.gpus ? ` at ${count(p.gpus)} GPUs` : ''}`).join('; ');
}

export function ScoreView() {
  const s = saved?.report;
  if (!s) return <Empty title="No score card"><p>A page saved by <code>lockstep report -o</code> has one.</p></Empty>;
  return (
    <div class="ledger">
      <Panel title="Score card" note={`${s.ranks} ranks, ${s.steps} steps, ${s.attempts} attempts`}>
        <table class="rows" aria-label="Score card">
          <thead><tr><th>What</th><th class="num">This run</th><th>How, or why it is not known</th><th>Published by others</th></tr></thead>
          <tbody>
            {rows(s).map((r) => {
              const value = s[r.field] as number | null;
              return (
                <tr>
                  <td class="name"><b>{r.name}</b></td><td class="num">{value === null ? <span class="dim">not known</span> : r.show(value)}</td>
                  <td class="dim">{[value === null ? s.unknown[r.field] : '', r.note].filter(Boolean).join('; ')}</td><td class="dim">{published(s, r.field, r.show) || '–'}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Panel>
      <Panel title="The dearest verdicts">
        {s.dearest.length ? (
          <table class="rows" aria-label="The dearest verdicts"><tbody>
            {s.dearest.map((v) => <tr><td class="num">{gpuShort(v.cost.gpu_seconds)}</td><td><a href={link('now', v.run, { verdict: v.id })}>{v.kind}</a> {sentence(v)}</td></tr>)}
          </tbody></table>
        ) : <p class="dim">no verdict has a cost</p>}
      </Panel>
      <Panel title="What would have saved most, by replay">
        {s.savings.length ? <ul class="plain">{s.savings.map((one) => <li>{gpuTime(one.gpu_seconds)} without {one.without}</li>)}</ul> : <p class="dim">nothing that has a cost</p>}
      </Panel>
    </div>
  );
}
