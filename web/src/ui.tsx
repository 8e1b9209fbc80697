// ui.tsx - the small pieces that all views share.
// SPDX-License-Identifier: Apache-2.0
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

/* ---- light and dark ---- */

export type Theme = 'dark' | 'light';
function firstTheme(): Theme {
  try {
    const kept = localStorage.getItem('lockstep-theme');
    if (kept === 'dark' || kept === 'light') return kept;
  } catch { /* a page without storage */ }
  return matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark';
}
export const theme = signal<Theme>(firstTheme());
document.documentElement.dataset.theme = theme.value;
export function toggleTheme(): void {
  const next = theme.value === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next; // before those who paint with its colours
  theme.value = next;
  try {
    localStorage.setItem('lockstep-theme', theme.value);
  } catch { /* as above */ }
}
const colors = new Map<string, string>(); // a picture asks for hundreds
export function color(name: string): string {
  const key = `${document.documentElement.dataset.theme} ${name}`, known = colors.get(key);
  if (known) return known;
  const value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  if (value) colors.set(key, value);
  return value;
}

/* ---- shapes: a state is never shown by colour alone ---- */

const SHAPES: Record<string, string> = {
  bad: 'M8 1.8 15 14H1z',
  warn: 'M8 1 15 8 8 15 1 8z',
  ok: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zm3.2 4.6-4 4.6-2.4-2.3 1-1 1.3 1.3 3-3.5z',
  unknown: 'M3 7h10v2H3z',
  over: 'M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zm0 1.6a4.9 4.9 0 1 0 0 9.8 4.9 4.9 0 0 0 0-9.8z',
};
export function Mark({ state, size = 12 }: { state: string; size?: number }) {
  return (
    <svg class={`mark ${state}`} width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[state] ?? SHAPES.unknown} fill-rule="evenodd" />
    </svg>
  );
}

export function Chip({ children, tone = '' }: { children: ComponentChildren; tone?: string }) {
  return <span class={`chip ${tone}`}>{children}</span>;
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement('textarea');
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button class="quiet" type="button" onClick={() => void copy()} title={text}>
      {done ? 'Copied' : label}
    </button>
  );
}

/* A number with its name; `label` is what a screen reader reads. */
export function Stat(props: { name: string; value: ComponentChildren; note?: ComponentChildren; label: string; tone?: string; children?: ComponentChildren }) {
  return (
    <div class={`stat ${props.tone ?? ''}`} role="group" aria-label={props.label}>
      <div class="stat-name">{props.name}</div>
      <div class="stat-value">{props.value}</div>
      <div class="stat-note">{props.note ?? '\u00a0'}</div>
      {props.children}
    </div>
  );
}

/* The last values as a line; it says nothing that is not beside it in numbers. */
export function Spark({ values, height = 26, zero = false }: { values: number[]; height?: number; zero?: boolean }) {
  const width = 160;
  if (values.length < 2) return <svg class="spark" viewBox={`0 0 ${width} ${height}`} aria-hidden="true" />;
  let low = zero ? 0 : Infinity, high = -Infinity;
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  const span = high - low || 1;
  const points = values.map((v, i) => `${((i / (values.length - 1)) * width).toFixed(1)},${(height - 2 - ((v - low) / span) * (height - 4)).toFixed(1)}`);
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,${height} ${points.join(' ')} ${width},${height}`} />
      <polyline points={points.join(' ')} />
    </svg>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty" role="status">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Panel({ title, note, children, actions }: { title: string; note?: ComponentChildren; children: ComponentChildren; actions?: ComponentChildren }) {
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note && <span class="note">{note}</span>}
        {actions && <span class="actions">{actions}</span>}
      </header>
      {children}
    </section>
  );
}

/* The end of a long list: what is not shown yet is counted. */
export function More({ shown, of, what, more }: { shown: number; of: number; what: string; more: (most: number) => void }) {
  if (of <= shown) return null;
  return <button class="quiet more" type="button" onClick={() => more(shown * 4)}>Show more: {of - shown} {what} are not shown</button>;
}
