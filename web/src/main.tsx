// main.tsx - the frame around the views: navigation, connection, keyboard.
// SPDX-License-Identifier: Apache-2.0
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { ago, count } from './format';
import { begin, clockNow, go, link, open, route, run, trouble, VIEWS, why, type View } from './model';
import { connection, lostAt, saved, takeKey } from './source';
import { Empty, Mark, theme, toggleTheme } from './ui';
import { health, Now } from './now';
import { Heatmap } from './heatmap';
import { Timeline } from './timeline';
import { LedgerView } from './ledger_view';
import { Nodes } from './nodes';
import { Runs } from './runs';
import { ScoreView } from './score_view';
import 'uplot/dist/uPlot.min.css';
import './style.css';

const TITLES: Record<View, string> = { now: 'Now', heatmap: 'Ranks × steps', timeline: 'Timeline', ledger: 'Ledger', nodes: 'Nodes', report: 'Score card', runs: 'Runs' };
const KEYS: Record<string, View> = { '1': 'now', '2': 'heatmap', '3': 'timeline', '4': 'ledger', '5': 'nodes', '6': 'runs' };

const keyOf = (view: View) => Object.keys(KEYS).find((key) => KEYS[key] === view);

function Live() {
  const state = connection.value, ended = state === 'live' && why.value !== null && !why.value.alive;
  const text = {
    connecting: 'connecting', live: ended ? 'run ended' : 'live', lost: `connection lost ${ago(new Date(lostAt.value).toISOString(), clockNow.value)}, retrying`,
    denied: 'not logged in', saved: `saved ${saved?.made ?? ''}`,
  }[state];
  return <span class={`connection ${ended ? 'ended' : state}`} role="status" aria-label={`Connection: ${text}`}><i />{text}</span>;
}

function Top() {
  const { run: name, view } = route.value;
  const h = health(why.value);
  return (
    <header class="top">
      <a class="logo" href="#/runs" aria-label="All runs">
        <svg width="18" height="18" viewBox="0 0 16 16" aria-hidden="true"><path d="M1 3h9M1 8h14M1 13h9" stroke="currentColor" stroke-width="2" stroke-linecap="round" fill="none" /><circle cx="13" cy="3" r="1.6" /><circle cx="13" cy="13" r="1.6" /></svg>
        lockstep
      </a>
      {name && (
        <span class="where" title={run.value?.command ?? ''}>
          <Mark state={h.state} /> <b>{name}</b>
          {run.value && <span class="dim">{run.value.ranks === 1 ? '1 rank' : `${count(run.value.ranks)} ranks`}</span>}
        </span>
      )}
      <nav aria-label="Views">
        {VIEWS.filter((v) => (v === 'runs' ? !saved : v === 'report' ? saved?.report : name)).map((v) => (
          <a href={link(v)} aria-current={view === v ? 'page' : undefined} aria-keyshortcuts={keyOf(v)} title={keyOf(v) && `key ${keyOf(v)}`}>{TITLES[v]}{v === 'now' && open.value.length > 0 && <span class="badge">{open.value.length}</span>}</a>
        ))}
      </nav>
      <Live />
      <button class="icon" type="button" onClick={toggleTheme} aria-label={`Switch to ${theme.value === 'dark' ? 'light' : 'dark'} colours`}>
        {theme.value === 'dark' ? '☀' : '☾'}
      </button>
    </header>
  );
}

function Login() {
  return (
    <Empty title="Not logged in">
      <p>This page needs a session. Ask for a one-time link on the machine where the controller runs:</p>
      <pre>lockstep control --page</pre>
      <p class="dim">A link works once and for ten minutes. A session lasts twelve hours, and ends when the controller ends.</p>
    </Empty>
  );
}

function Body() {
  const { view, run: name } = route.value;
  if (connection.value === 'denied') return <Login />;
  if (name && trouble.value && !why.value) return <Empty title={`Run ${name}`}><p>{trouble.value}</p></Empty>;
  switch (view) {
    case 'now': return <Now />;
    case 'heatmap': return <Heatmap />;
    case 'timeline': return <Timeline />;
    case 'ledger': return <LedgerView />;
    case 'nodes': return <Nodes />;
    case 'report': return <ScoreView />;
    default: return <Runs />;
  }
}

function App() {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName))) return;
      const view = KEYS[event.key];
      if (view === 'runs' || (view && route.value.run)) go(view);
      if (event.key === 't') toggleTheme();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return (
    <>
      <Top />
      {connection.value === 'lost' && <div class="strip" role="alert">The controller does not answer. What is shown is as of {new Date(lostAt.value).toLocaleTimeString([], { hour12: false })}; the page reconnects by itself.</div>}
      {saved && <div class="strip saved" role="note">{saved.note.join(' ')}</div>}
      <div class="body"><Body /></div>
    </>
  );
}

takeKey();
begin();
render(<App />, document.getElementById('app')!);
