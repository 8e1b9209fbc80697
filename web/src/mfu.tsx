// mfu.tsx - model FLOPs utilization of the newest steps.
//
// The ranks report their tokens.  What a token costs and what a GPU can do, nobody reports: the reader gives both, and
// the browser keeps them for this run.
// SPDX-License-Identifier: Apache-2.0
import { signal } from '@preact/signals';
import { percent } from './format';
import { rankOf, route, steps } from './model';
import { saved } from './source';
import type { Step } from './types';
import { Stat } from './ui';

const FLOP_PER_PARAMETER = 6; // forward and backward, per token, as lockstep report
interface Model { parameters: string; peak: string } // in billions; in TFLOP/s

const models = signal(new Map<string, Model>()); // by run, for a page without storage
const keyOf = (run: string) => `lockstep-model ${run}`;

function modelOf(run: string): Model {
  const known = models.value.get(run);
  if (known) return known;
  try {
    const kept = JSON.parse(localStorage.getItem(keyOf(run)) ?? 'null') as Model | null;
    if (kept && typeof kept.parameters === 'string' && typeof kept.peak === 'string') return kept;
  } catch { /* a page without storage, or something else of that name */ }
  return { parameters: '', peak: '' };
}

function setModel(run: string, model: Model): void {
  models.value = new Map(models.value).set(run, model);
  try {
    localStorage.setItem(keyOf(run), JSON.stringify(model));
  } catch { /* as above */ }
}

/* From its begin to the begin of the next one, as lockstep report counts: what lies between two steps costs as well.  The longest
 * time of a rank would count the ranks' offsets against each other twice.
 */
function period(step: Step, next: Step | undefined): number {
  if (!next || next.attempt !== step.attempt || next.step !== step.step + 1 || !step.begin_time || !next.begin_time) return step.seconds;
  return (+new Date(next.begin_time) - +new Date(step.begin_time)) / 1000;
}

export interface Utilization { share: number | null; steps: number; why: string }

export function utilization(list: Step[], split: number, parameters: number, peak: number): Utilization {
  let tokens = 0, time = 0, counted = 0;
  list.forEach((step, i) => {
    if (!step.tokens) return;
    tokens += step.tokens;
    time += period(step, list[i + 1]);
    counted++;
  });
  if (!counted || time <= 0) return { share: null, steps: 0, why: 'no rank reported its tokens (lockstep_metric_put)' };
  if (!(parameters > 0 && peak > 0)) return { share: null, steps: counted, why: 'enter the size of the model and the peak of a GPU' };
  return { share: (tokens * FLOP_PER_PARAMETER * parameters * 1e9) / (split * time * peak * 1e12), steps: counted, why: '' };
}

/* Ranks that process the same tokens. */
function splitOf(): number {
  for (const rank of rankOf.value.values()) if (rank.layout) return Math.max(1, rank.layout.tp.size) * Math.max(1, rank.layout.pp.size);
  return 1;
}

export function Mfu() {
  const { parameters, peak } = modelOf(route.value.run);
  const found = utilization(steps.value, splitOf(), +parameters, +peak), given = saved?.report?.mfu;
  const share = found.share ?? (typeof given === 'number' ? given : null);
  const note = share === null ? found.why : share > 1 ? 'more than 100 %: check both numbers' : found.share === null ? 'as lockstep report computed it' : `of the newest ${found.steps} steps`;
  return (
    <Stat name="MFU" tone={share === null ? 'unknown' : ''} label={`MFU: ${share === null ? 'not known' : percent(share)}, ${note}`}
      value={share === null ? 'not known' : percent(share)} note={note} />
  );
}

/* The two numbers that no rank reports. */
export function MfuQuestion() {
  const run = route.value.run, model = modelOf(run);
  if (!steps.value.some((step) => step.tokens)) return null;
  const field = (name: keyof Model, label: string, unit: string) => (
    <label>
      {label} <input class="number" type="text" inputMode="decimal" value={model[name]} aria-label={`${label}, ${unit}`} aria-invalid={model[name] !== '' && !(+model[name] > 0)}
        onInput={(event) => setModel(run, { ...model, [name]: event.currentTarget.value.trim().replace(',', '.') })} /> {unit}
    </label>
  );
  return (
    <div class="toolbar">
      <span class="title">MFU</span>
      {field('parameters', 'Parameters of the model', 'billion')}
      {field('peak', 'Peak of one GPU', 'TFLOP/s')}
      <span class="dim">tokens × {FLOP_PER_PARAMETER} × parameters ÷ (tp × pp × GPU-seconds × peak), with tp × pp = {splitOf()}</span>
    </div>
  );
}
