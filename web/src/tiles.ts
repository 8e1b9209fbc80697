// tiles.ts - the rank × step matrix as the page holds it: tiles and columns, read when they are looked at.
//
// A tile whose columns are all there never changes; the newest one is asked for again when columns were added.
// SPDX-License-Identifier: Apache-2.0
import { signal } from '@preact/signals';
import { get, tile } from './source';
import type { Columns, MatrixMeta } from './types';

export const TILE = 256;
const KEPT = 400; // tiles: 26 MB

interface Held { data: Uint8Array | null; columns: number; asked: boolean; used: number }

export class Tiles {
  readonly changed = signal(0);
  private held = new Map<string, Held>();
  private bands = new Map<number, { value: Columns | null; columns: number; asked: boolean }>();
  private turn = 0;

  constructor(readonly run: string, public meta: MatrixMeta) {}

  rows(level: number): number {
    let rows = this.meta.ranks;
    for (let i = 0; i < level && rows > TILE; i++) rows = (rows + 1) >> 1;
    return rows;
  }

  /* How many ranks a row of that level has. */
  ranksPerRow(level: number): number {
    let rows = this.meta.ranks, per = 1;
    for (let i = 0; i < level && rows > TILE; i++, per *= 2) rows = (rows + 1) >> 1;
    return per;
  }

  tile(level: number, x: number, y: number): Uint8Array | null {
    const name = `${level}/${x}/${y}`;
    const columns = Math.min(TILE << level, this.meta.columns - x * (TILE << level));
    let held = this.held.get(name);
    if (!held) {
      held = { data: null, columns: 0, asked: false, used: 0 };
      this.held.set(name, held);
    }
    held.used = ++this.turn;
    if (held.columns < columns && !held.asked) void this.read(name, held, columns);
    return held.data;
  }

  private async read(name: string, held: Held, columns: number): Promise<void> {
    held.asked = true;
    try {
      held.data = await tile(`runs/${encodeURIComponent(this.run)}/matrix/${name}`);
    } catch { /* kept as unknown; asked again when columns are added */ }
    held.columns = columns;
    held.asked = false;
    this.forget();
    this.changed.value++;
  }

  private forget(): void {
    if (this.held.size <= KEPT) return;
    const old = [...this.held.entries()].sort((a, b) => a[1].used - b[1].used).slice(0, this.held.size - KEPT);
    for (const [name] of old) this.held.delete(name);
  }

  /* The step of a column; null while it is not known. */
  column(at: number): { step: number; attempt: number; median: number } | null {
    const band = Math.floor(at / TILE), columns = Math.min(TILE, this.meta.columns - band * TILE);
    if (at < 0 || at >= this.meta.columns) return null;
    let held = this.bands.get(band);
    if (!held) {
      held = { value: null, columns: 0, asked: false };
      this.bands.set(band, held);
    }
    if (held.columns < columns && !held.asked) {
      const slot = held;
      slot.asked = true;
      void get<Columns>(`runs/${encodeURIComponent(this.run)}/matrix/${band}`)
        .then((value) => (slot.value = value))
        .catch(() => undefined)
        .finally(() => {
          slot.columns = columns;
          slot.asked = false;
          this.changed.value++;
        });
    }
    const i = at - band * TILE, value = held.value;
    return value && i < value.step.length ? { step: value.step[i], attempt: value.attempt[i], median: value.median_seconds[i] } : null;
  }
}

/* The least excess in seconds that has this code; as matrix_code_ns(). */
const SECONDS = Float64Array.from({ length: 256 }, (_, code) => (code < 2 ? 0 : ((8 + ((code - 2) % 8)) * 2 ** Math.floor((code - 2) / 8) * 125) / 1e9));
export const codeSeconds = (code: number): number => SECONDS[code];
