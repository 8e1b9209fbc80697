// format.ts - numbers and times as people read them.
// SPDX-License-Identifier: Apache-2.0

export function seconds(s: number | null | undefined): string {
  if (s === null || s === undefined || !isFinite(s)) return '–';
  const a = Math.abs(s);
  if (a < 5e-9) return '0 s';
  if (a < 0.0009995) return `${trim(s * 1e6)} µs`;
  if (a < 0.9995) return `${trim(s * 1e3)} ms`;
  if (a < 119.5) return `${trim(s)} s`;
  if (a < 3599.5) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (a < 172800) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
  return `${trim(s / 86400)} d`;
}

/* How long something lasted, of which nobody needs the tenths. */
export const span = (s: number): string => (s < 10 || s >= 119.5 ? seconds(Math.max(0, s)) : `${Math.round(s)} s`);

export function trim(n: number): string {
  const a = Math.abs(n);
  return a >= 100 ? n.toFixed(0) : a >= 10 ? n.toFixed(1) : n.toFixed(2);
}

/* GPU-seconds, in hours when they are many. */
export function gpuTime(s: number): string {
  return s >= 3600 ? `${trim(s / 3600)} GPU-hours` : `${trim(s)} GPU-seconds`;
}
export function gpuShort(s: number): string {
  return s >= 3600 ? `${trim(s / 3600)} GPU-h` : `${trim(s)} GPU-s`;
}

/* null: not known */
export const percent = (share: number | null): string => (share === null ? '–' : `${(share * 100).toFixed(1)} %`);
export const count = (n: number): string => n.toString().replace(/\B(?=(\d{3})+(?!\d))/g, '\u2009');

export function clock(time: string | null | undefined): string {
  if (!time) return '–';
  const d = new Date(time);
  return isNaN(+d) ? '–' : d.toLocaleTimeString([], { hour12: false });
}
export function dateTime(time: string | null | undefined): string {
  if (!time) return '–';
  const d = new Date(time);
  if (isNaN(+d)) return '–';
  const two = (n: number) => n.toString().padStart(2, '0');
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}
export function ago(time: string | null | undefined, now: number): string {
  if (!time) return '–';
  const s = Math.max(0, (now - +new Date(time)) / 1000);
  return s < 2 ? 'now' : s < 120 ? `${Math.floor(s)} s ago` : `${seconds(Math.floor(s))} ago`;
}

/* [0,1,2,5] as "0-2, 5" */
export function ranges(list: number[], more = 0): string {
  const out: string[] = [];
  for (let i = 0; i < list.length; ) {
    let end = i;
    while (end + 1 < list.length && list[end + 1] === list[end] + 1) end++;
    out.push(end > i ? `${list[i]}-${list[end]}` : `${list[i]}`);
    i = end + 1;
  }
  const text = out.length > 6 ? `${out.slice(0, 6).join(', ')} …` : out.join(', ');
  return more > list.length ? `${text} and ${more - list.length} more` : text;
}
