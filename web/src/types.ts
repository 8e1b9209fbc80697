// types.ts - the answers of the API, as far as the page reads them.  docs/openapi.json has the whole.
// SPDX-License-Identifier: Apache-2.0

export interface Line { source: string; what: string; file?: string; line?: number }
export interface RuledOut { layer: string; why: string }
export interface Verdict {
  id: string; run: string; kind: string; layer: string; cause: string | null;
  ranks: number[]; rank_count?: number; nodes: string[]; node_count?: number;
  device: string | null; group: string | null; confidence: number;
  since_step: number; since_time: string | null; until_time: string | null;
  decided_step: number; decided_time: string | null;
  cost: { seconds_per_step: number; gpu_seconds: number };
  because: Line[]; ruled_out: RuledOut[]; echoes: Line[];
  advice: string; action: { plan: string; state: string } | null; cursor?: number;
}
export interface Ledger {
  buckets: Record<string, number>; ranks: number; wall_seconds: number;
  goodput: number | null; ettr: number | null; steps: number; unfit_steps: number; host_view: boolean;
}
export interface Why {
  run: string; alive: boolean; state: string; status: number | null; unexplained: boolean;
  standstill_seconds?: number; lost_share?: number; checkpoint?: { step: number; bytes: number; verify_seconds: number } | null;
  verdicts: Verdict[]; ledger: Ledger | null; decisions?: Decision[];
  restarts: { attempt: number; culprit: number | null; status: number; why: string; parts?: { start_s: number } }[]; // start_s: from its end to the next attempt
  environment?: { ranks: number; difference_count: number; change_count: number };
  counts: Record<string, number>;
}
export interface Run {
  cursor: number; run: string; command: string | null; ranks: number; attempts: number; state: string;
  ended: boolean; closed: boolean; status: number | null; begin_time: string | null; end_time: string | null;
  steps: number; verdicts: number; verdicts_open: number; ledger: Ledger | null; refused: string | null;
  log_bytes: number; damaged_bytes: number;
}
export interface Step {
  cursor: number; step: number; attempt: number; column: number; ranks: number; begin_time: string | null;
  seconds: number; median_work_seconds: number; excess_seconds: number; worst_rank: number; loss?: number | null; tokens?: number | null;
}
export interface Rank {
  cursor: number; rank: number; attempt: number; node: string | null; pid: number; step: number;
  layout: Record<string, { size: number; index: number }> | null;
  state: string | null; phase: number; beat_time: string | null; ended: boolean; status: number | null; end: string | null;
}
export interface Node {
  run: string; node: string; version: string | null; ranks: number; hello_time: string | null; heard_time: string | null;
  clock: { offset_seconds: number; error_seconds: number } | null;
}
export interface Finding {
  id: string; kind: string; severity: string; code: number | null; node: string; device: string | null; ranks: number[]; rank_count: number;
  count: number; time: string | null; action: string; text: string | null; raw: string | null; cursor: number;
}
export interface Check {
  node: string; device: string | null; stage: string | null; name: string; state: string; value: number | null; expected: number | null;
  unit: string | null; why: string | null; time: string | null; cursor: number;
}
export interface NodeState { node: string; state: string; why: string | null; since_time: string | null }
export interface LedgerRow { cursor: number; time: string | null; ledger: Ledger }
export interface MatrixMeta { ranks: number; columns: number; levels: number; tile: number }
export interface Columns { first: number; step: number[]; attempt: number[]; median_seconds: number[] }
export interface Decision { id: string; answers: string | null; action: string; state: string; outcome?: string | null; why: string | null }
export interface Item {
  kind: string; name: string; stream: number; count: number; bytes: number; comm: string | null;
  enqueue_seconds: number; start_seconds: number; end_seconds: number;
}
export interface RankStep {
  rank: number; step: number; attempt: number; begin_seconds: number; seconds: number; own_seconds: number;
  cpu_seconds: number; run_delay_seconds: number; host_view: boolean; complete: boolean; items: Item[];
}
export interface StepDetail { column: number; ranks: RankStep[] }

/* The score card of a saved page, as lockstep report --json prints it. */
export interface Score {
  [field: string]: unknown; mfu_formula: string; ranks: number; failures: number; steps: number; attempts: number; checkpoints: number; pauses: number; spikes: number;
  dearest: Verdict[]; savings: { without: string; gpu_seconds: number }[]; ledger: Ledger | null;
  published: { field: string; low: number; high: number; gpus: number | null }[]; unknown: Record<string, string>;
}
