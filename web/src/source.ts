// source.ts - where the page gets its data: the API of a controller, or what is embedded in a saved page.
//
// Every answer has a path such as "runs/r1/why".  A saved page holds a table from path to answer, so that all views work
// on it unchanged.
//
// A session has two halves: an HttpOnly cookie, and a key that this page keeps and sends as a header.  A browser sends
// cookies to every port of a host; the key belongs to this origin alone, so a process that listens on another port of
// the same machine cannot use a cookie that it receives.
// SPDX-License-Identifier: Apache-2.0
import { signal } from '@preact/signals';
import type { Score } from './types';

export type Connection = 'connecting' | 'live' | 'lost' | 'denied' | 'saved';
export interface Saved {
  version: number; run: string; made: string; note: string[]; answers: Record<string, unknown>; tiles: Record<string, string>;
  report?: Score | null;
}

export const saved: Saved | null = (() => {
  const element = document.getElementById('lockstep-saved');
  return element ? (JSON.parse(element.textContent ?? '') as Saved) : null;
})();
export const connection = signal<Connection>(saved ? 'saved' : 'connecting');
export const lostReason = signal('');
export const lostAt = signal(0);
/* How far the controller's clock is ahead of this browser's, in ms: a node is not silent because a laptop's clock is wrong. */
export const clockSkew = signal(0);
const SKEW_LEAST_MS = 3000; // the header has whole seconds, and the answer took a while

const KEY = 'lockstep-key';
let key = '';

/* "#key=..." comes from the one-time link; it leaves the address bar at once. */
export function takeKey(): void {
  const match = /^#key=([A-Za-z0-9_]+)(?:&to=(.*))?$/.exec(location.hash);
  try {
    if (match) {
      localStorage.setItem(KEY, match[1]);
      history.replaceState(null, '', match[2] ? `#${decodeURIComponent(match[2])}` : location.pathname);
    }
    key = localStorage.getItem(KEY) ?? '';
  } catch {
    key = match ? match[1] : '';
  }
}

export class HttpError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

function headers(): Record<string, string> {
  return key ? { 'Lockstep-Key': key } : {};
}

async function request(path: string, signal?: AbortSignal): Promise<Response> {
  const response = await fetch(`api/v1/${path}`, { headers: headers(), credentials: 'same-origin', cache: 'no-cache', signal });
  const ahead = Date.parse(response.headers.get('Date') ?? '') - Date.now();
  if (isFinite(ahead)) clockSkew.value = Math.abs(ahead) < SKEW_LEAST_MS ? 0 : ahead;
  if (response.ok) return response;
  let text = response.statusText;
  try {
    text = ((await response.json()) as { error: string }).error;
  } catch { /* not JSON */ }
  if (response.status === 401 || response.status === 403) connection.value = 'denied';
  throw new HttpError(response.status, text);
}

export async function get<T>(path: string): Promise<T> {
  if (saved) {
    const answer = saved.answers[path.split('?')[0]];
    if (answer === undefined) throw new HttpError(404, 'not part of the saved page');
    return answer as T;
  }
  return (await (await request(path)).json()) as T;
}

export async function tile(path: string): Promise<Uint8Array> {
  if (saved) {
    const text = saved.tiles[path];
    if (text === undefined) throw new HttpError(404, 'not part of the saved page');
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  }
  return new Uint8Array(await (await request(path)).arrayBuffer());
}

export interface ServerEvent { type: string; data: Record<string, unknown> }

/* The one stream of a page.  fetch() instead of EventSource, which cannot send the key. */
export async function listen(handle: (event: ServerEvent) => void): Promise<never> {
  let last = '';
  for (let wait = 250; ; wait = Math.min(wait * 2, 5000)) {
    const stop = new AbortController(), cut = () => stop.abort();
    addEventListener('offline', cut);
    let alive = 0;
    try {
      const response = await fetch('api/v1/events', {
        headers: { ...headers(), Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) },
        credentials: 'same-origin', cache: 'no-store', signal: stop.signal,
      });
      if (response.status === 401 || response.status === 403) {
        connection.value = 'denied';
        await new Promise(() => undefined);
      }
      if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
      const resumed = connection.value === 'lost';
      connection.value = 'live';
      wait = 250;
      handle({ type: resumed ? 'resumed' : 'begin', data: {} });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      // The controller sends a comment every 15 s: a silent stream is a dead one.
      const watch = () => {
        clearTimeout(alive);
        alive = window.setTimeout(() => stop.abort(), 40000);
      };
      watch();
      let rest = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new Error('the controller closed the connection');
        watch();
        const parts = (rest + value).split('\n\n');
        rest = parts.pop() ?? '';
        for (const part of parts) {
          const event = parse(part);
          if (event.id) last = event.id;
          if (event.type) handle({ type: event.type, data: event.data });
        }
      }
    } catch (error) {
      clearTimeout(alive);
      removeEventListener('offline', cut);
      if (connection.value !== 'lost') lostAt.value = Date.now() + clockSkew.value;
      lostReason.value = error instanceof Error ? error.message : '';
      connection.value = 'lost';
    }
    await new Promise((wake) => setTimeout(wake, wait));
  }
}

function parse(text: string): { id: string; type: string; data: Record<string, unknown> } {
  const event = { id: '', type: '', data: {} };
  for (const line of text.split('\n')) {
    if (line.startsWith('id: ')) event.id = line.slice(4);
    else if (line.startsWith('event: ')) event.type = line.slice(7);
    else if (line.startsWith('data: ')) {
      try {
        event.data = JSON.parse(line.slice(6)) as Record<string, unknown>;
      } catch { /* a line that was cut: the next answer has it */ }
    }
  }
  return event;
}
