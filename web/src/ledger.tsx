// ledger.tsx - where every allocated GPU-second went.
// SPDX-License-Identifier: Apache-2.0
import { gpuShort, percent } from './format';
import type { Ledger } from './types';

/* In the order in which a waterfall loses them.  Colours are those of Okabe and Ito, told apart also by those who do not see
 * red and green; each piece also has its name beside it.
 */
export const BUCKETS: { name: string; what: string; color: string }[] = [
  { name: 'productive', what: 'training that counts', color: '#3d9a82' },
  { name: 'straggler-wait', what: 'ranks that waited for a slow one', color: '#d55e00' },
  { name: 'imbalance', what: 'work that is split unevenly', color: '#e69f00' },
  { name: 'transfer', what: 'communication that compute waited for', color: '#56b4e9' },
  { name: 'input', what: 'waiting for data', color: '#c9b83f' },
  { name: 'checkpoint', what: 'writing checkpoints', color: '#8b7fd6' },
  { name: 'start-up', what: 'until the first step', color: '#7a8699' },
  { name: 'hang', what: 'standing still', color: '#b5446e' },
  { name: 'restart', what: 'between two attempts', color: '#cc79a7' },
  { name: 'lost', what: 'work that was rolled back', color: '#a0522d' },
  { name: 'spare', what: 'held in reserve', color: '#5f7f9c' },
  { name: 'down', what: 'allocated and not usable', color: '#4b4f58' },
  { name: 'unattributed', what: 'no evidence says what it was', color: '#9a9fa8' },
];

export function LedgerBar({ ledger }: { ledger: Ledger }) {
  const total = Object.values(ledger.buckets).reduce((a, b) => a + b, 0) || 1;
  const rows = BUCKETS.map((b) => ({ ...b, value: ledger.buckets[b.name] ?? 0 })).filter((b) => b.value / total >= 0.0005);
  return (
    <>
      <div class="bar" aria-hidden="true">{rows.map((b) => <i style={{ width: `${(b.value / total) * 100}%`, background: b.color }} />)}</div>
      <ul class="legend" aria-label="Where the time went">
        {rows.map((b) => (
          <li title={b.what}><i style={{ background: b.color }} /><span>{b.name}</span><b>{percent(b.value / total)}</b><em>{gpuShort(b.value)}</em></li>
        ))}
      </ul>
    </>
  );
}
