// words.ts - a verdict as sentences, in the same words as the command line.
// SPDX-License-Identifier: Apache-2.0
import { ranges, seconds } from './format';
import type { Verdict } from './types';

const DEEDS: Record<string, [string, string]> = {
  straggler: ['delays the others', 'delay the job'],
  imbalance: ['has more work than its peers', 'have more work than their peers'],
  'sync-stall': ['waits for communication', 'wait for communication'],
  'input-stall': ['waits for input', 'wait for input'],
  'checkpoint-stall': ['waits for a checkpoint', 'wait for a checkpoint'],
  'startup-stall': ['starts late', 'start late'],
  hang: ['blocks all others', 'block all others'],
  desync: ['does not do the same as the others', 'do not do the same as the others'],
  crash: ['failed first', 'failed first'],
  corruption: ['computes wrong results', 'compute wrong results'],
  regression: ['is slower than before', 'are slower than before'],
  'node-fault': ['is affected by a node fault', 'are affected by a node fault'],
};
const STOPS = ['crash', 'hang', 'desync', 'corruption', 'node-fault'];

export function who(v: Verdict): string {
  const ranks = v.ranks.length ? `${v.ranks.length > 1 ? 'Ranks' : 'Rank'} ${ranges(v.ranks, v.rank_count)}` : '';
  const nodes = v.nodes.length ? `${v.nodes.length > 1 ? 'nodes' : 'node'} ${v.nodes.slice(0, 4).join(', ')}${v.nodes.length > 4 ? ' …' : ''}` : '';
  if (ranks && nodes) return `${ranks} (${nodes})`;
  return ranks || (nodes ? nodes[0].toUpperCase() + nodes.slice(1) : 'The job');
}

export function sentence(v: Verdict): string {
  const many = v.ranks.length > 1 || (!v.ranks.length && v.nodes.length > 1);
  const deed = (DEEDS[v.kind] ?? ['is affected', 'are affected'])[many ? 1 : 0];
  const wait = v.kind.endsWith('stall');
  const cost = v.cost.seconds_per_step > 0 ? ` ${wait ? 'for' : 'by'} ${seconds(v.cost.seconds_per_step)} per step` : '';
  return `${who(v)} ${deed}${cost}`;
}

export function severity(v: Verdict): string {
  if (v.until_time) return 'over';
  return STOPS.includes(v.kind) ? 'bad' : 'warn';
}

/* A pair of numbers in a line of evidence, "134.7 ms, median of 3 peers 89.8 ms", to be drawn side by side. */
export function comparison(text: string): { mine: number; peers: number; unit: string; name: string } | null {
  const match = /^(.*?)([\d.]+) (ms|s|µs|us|GB\/s|MB\/s|%)(?: per step)?[^,]{0,24}, (?:peer median|median of \d+ peers) ([\d.]+) (ms|s|µs|us|GB\/s|MB\/s|%)/.exec(text);
  if (!match || match[3] !== match[5]) return null;
  return { name: match[1].trim(), mine: +match[2], peers: +match[4], unit: match[3] };
}
