// heatmap.tsx - ranks × steps: by how much each rank's own work exceeded the step's median.
//
// A canvas of its own: cells come from tiles that hold maxima, so one slow cell among millions stays visible from any
// distance.  What the picture shows is beside it in words, as a list of the worst ranks.
// SPDX-License-Identifier: Apache-2.0
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count, percent, seconds } from './format';
import { go, link, matrix, rankOf, route, setParams, steps, stepsNumbered, verdicts } from './model';
import { codeSeconds, TILE, Tiles } from './tiles';
import { Beside, niceTick } from './timeline';
import type { Verdict } from './types';
import { color, Empty, Panel, theme } from './ui';
import { severity, who } from './words';

type Sort = 'rank' | 'node' | 'stage' | 'worst';
interface Window { x0: number; x1: number; y0: number; y1: number } // columns and rows of level 0, as real numbers
const LEFT = 78, TOP = 30, BOTTOM = 26, HEAD_RANKS = 64;

/* ---- colours: from the background over blue and orange to near white, even in lightness ---- */

const RAMPS: Record<string, [number, number, number][]> = {
  dark: [[27, 33, 44], [38, 62, 104], [58, 98, 160], [150, 110, 150], [222, 120, 70], [247, 178, 72], [255, 240, 190]],
  light: [[236, 239, 244], [189, 208, 233], [120, 160, 214], [176, 120, 160], [214, 96, 48], [168, 44, 30], [84, 10, 30]],
};
export function ramp(t: number, name: string): [number, number, number] {
  const stops = RAMPS[name], at = Math.max(0, Math.min(1, t)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at)), f = at - i;
  return [0, 1, 2].map((k) => Math.round(stops[i][k] + (stops[i + 1][k] - stops[i][k]) * f)) as [number, number, number];
}

/* An excess as a share of the step's typical work: 1 % is where colour begins, 100 % where it ends. */
export function heat(excess: number, typical: number): number {
  if (excess <= 0 || typical <= 0) return 0;
  return Math.max(0, Math.min(1, Math.log(excess / typical / 0.01) / Math.log(100)));
}

function table(typical: number, name: string): Uint32Array {
  const lut = new Uint32Array(256);
  for (let code = 0; code < 256; code++) {
    const [r, g, b] = code === 0 ? (name === 'dark' ? [17, 19, 24] : [250, 251, 252]) : ramp(heat(codeSeconds(code), typical), name);
    lut[code] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return lut;
}

/* ---- the cells that are looked at ---- */

interface Grid { cells: Uint8Array; width: number; height: number; level: number; first: number; order: Int32Array; per: number; missing: number }

function pick(tiles: Tiles, w: Window, px: number, py: number, sort: Sort, nodeOf: (rank: number) => string, stageOf: (rank: number) => number): Grid {
  const { levels } = tiles.meta;
  const wide = Math.ceil(Math.log2(Math.max(1, (w.x1 - w.x0) / px)));
  const high = Math.ceil(Math.log2(Math.max(1, (w.y1 - w.y0) / (py * 4))));
  const level = Math.max(0, Math.min(levels - 1, Math.max(wide, high)));
  const scale = 2 ** level, per = tiles.ranksPerRow(level), rows = tiles.rows(level);
  const first = Math.floor(w.x0 / scale), last = Math.min(Math.ceil(w.x1 / scale), Math.ceil(tiles.meta.columns / scale));
  const width = Math.max(1, last - first);
  // All rows when they are sorted by what is in them; else those in view.
  const whole = sort !== 'rank';
  const top = whole ? 0 : Math.max(0, Math.floor(w.y0 / per)), bottom = whole ? rows : Math.min(rows, Math.ceil(w.y1 / per));
  const cells = new Uint8Array(width * (bottom - top));
  let missing = 0;
  for (let ty = Math.floor(top / TILE); ty * TILE < bottom; ty++) {
    for (let tx = Math.floor(first / TILE); tx * TILE < last; tx++) {
      const data = tiles.tile(level, tx, ty);
      if (!data) {
        missing++;
        continue;
      }
      const from = Math.max(first, tx * TILE), to = Math.min(last, (tx + 1) * TILE);
      for (let row = Math.max(top, ty * TILE); row < Math.min(bottom, (ty + 1) * TILE); row++) {
        const at = (row - ty * TILE) * TILE - tx * TILE;
        cells.set(data.subarray(at + from, at + to), (row - top) * width + from - first);
      }
    }
  }
  const order = Int32Array.from({ length: bottom - top }, (_, i) => i + top);
  if (sort === 'node') {
    const name = Array.from(order, (row) => nodeOf(row * per));
    order.sort((a, b) => (name[a] < name[b] ? -1 : name[a] > name[b] ? 1 : a - b));
  } else if (sort === 'stage') {
    order.sort((a, b) => stageOf(a * per) - stageOf(b * per) || a - b);
  } else if (sort === 'worst') {
    const score = new Float64Array(bottom - top);
    for (let row = 0; row < bottom - top; row++) {
      for (let x = 0; x < width; x++) score[row] += codeSeconds(cells[row * width + x]);
    }
    order.sort((a, b) => score[b] - score[a] || a - b);
  }
  if (!whole) return { cells, width, height: bottom - top, level, first, order, per, missing };
  const from = Math.max(0, Math.floor(w.y0 / per)), to = Math.min(rows, Math.ceil(w.y1 / per));
  const shown = order.slice(from, to), sorted = new Uint8Array(width * shown.length);
  shown.forEach((row, i) => sorted.set(cells.subarray(row * width, (row + 1) * width), i * width));
  return { cells: sorted, width, height: shown.length, level, first, order: shown, per, missing };
}

/* More rows than pixels: each pixel gets the largest of its rows. */
function reduceRows(grid: Grid, most: number): { cells: Uint8Array; height: number } {
  if (grid.height <= most) return grid;
  const cells = new Uint8Array(grid.width * most);
  for (let row = 0; row < grid.height; row++) {
    const to = Math.floor((row * most) / grid.height) * grid.width, from = row * grid.width;
    for (let x = 0; x < grid.width; x++) if (grid.cells[from + x] > cells[to + x]) cells[to + x] = grid.cells[from + x];
  }
  return { cells, height: most };
}

/* ---- marks of verdicts ---- */

interface Placed { v: Verdict; from: number; to: number }

/* Where a verdict begins and ends, in columns: by the rows of the index, which know the column of each step. */
function usePlaced(run: string): Placed[] {
  const [placed, setPlaced] = useState<Placed[]>([]);
  const known = useRef(new Map<string, number>());
  const list = verdicts.value;
  const mark = list.map((v) => `${v.id}${v.until_time ?? ''}`).join();
  useEffect(() => {
    let stale = false;
    const place = async (v: Verdict): Promise<Placed> => {
      let from = known.current.get(v.id);
      if (from === undefined) {
        const rows = (await stepsNumbered(run, v.since_step)).reverse();
        const row = rows.find((s) => !!s.begin_time && !!v.since_time && +new Date(s.begin_time) >= +new Date(v.since_time) - 2000) ?? rows[rows.length - 1];
        from = row ? row.column : -1;
        if (row) known.current.set(v.id, from);
      }
      const end = v.until_time ? +new Date(v.until_time) : Infinity;
      const after = steps.value.find((s) => s.begin_time && +new Date(s.begin_time) >= end);
      return { v, from, to: v.until_time ? (after ? after.column : from + 1) : Infinity };
    };
    void Promise.all(list.slice(0, 200).map(place)).then((all) => {
      if (!stale) setPlaced(all.filter((p) => p.from >= 0));
    });
    return () => { stale = true; };
  }, [run, mark, steps.value.length > 0]);
  return placed;
}

/* ---- the view ---- */

interface Cell { rank: number; column: number }

export function Heatmap() {
  const { run, params } = route.value;
  const meta = matrix.value;
  const tiles = useMemo(() => (meta ? new Tiles(run, meta) : null), [run, meta?.ranks]);
  if (tiles && meta) tiles.meta = meta;
  if (!meta || !tiles) return <Empty title="No steps yet"><p>The heatmap begins with the first step that all ranks have sent.</p></Empty>;
  return <Sheet key={run} tiles={tiles} sort={(params.get('sort') as Sort) || 'rank'} />;
}

function Sheet({ tiles, sort }: { tiles: Tiles; sort: Sort }) {
  const meta = tiles.meta, { run, params } = route.value;
  const canvas = useRef<HTMLCanvasElement>(null), box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 900, height: 420 });
  const [zoom, setZoom] = useState<Window | null>(headOf(sort)); // null: everything, and on with the newest
  const [hover, setHover] = useState<{ x: number; y: number; cell: Cell } | null>(null);
  /* The worst of thousands of ranks would be a line at the upper edge. */
  function headOf(by: Sort): Window | null {
    return by === 'worst' && meta.ranks > 4 * HEAD_RANKS ? { x0: 0, x1: Math.max(meta.columns, 24), y0: 0, y1: HEAD_RANKS } : null;
  }
  const grid = useRef<Grid | null>(null), kept = useRef<Kept>({ key: '', worstOf: null, worst: [], sheetKey: '', sheet: null });
  const placed = usePlaced(run);
  const view: Window = zoom ?? { x0: Math.max(0, meta.columns - Math.max(meta.columns, 1)), x1: Math.max(meta.columns, 24), y0: 0, y1: meta.ranks };
  const selected: Cell | null = params.has('rank') ? { rank: +params.get('rank')!, column: params.has('column') ? +params.get('column')! : -1 } : null;
  const typical = useMemo(() => {
    const list = steps.value.slice(-200).map((s) => s.median_work_seconds).sort((a, b) => a - b);
    return list.length ? list[list.length >> 1] : 0.1;
  }, [steps.value.length >> 5, meta.columns > 0]);
  const nodeOf = (rank: number) => rankOf.value.get(rank)?.node ?? '';
  const stageOf = (rank: number) => rankOf.value.get(rank)?.layout?.pp?.index ?? 0;

  // A link names a step; where it is in the matrix, the index knows.
  useEffect(() => {
    const step = params.get('step');
    if (step === null || params.has('column')) return;
    let stale = false; // a late answer must not change the address of the view that came after this one
    void stepsNumbered(run, +step).then((rows) => !stale && rows[0] && setParams({ column: rows[0].column }));
    return () => { stale = true; };
  }, [params.get('step')]);

  useEffect(() => {
    const element = box.current!;
    const fit = () => setSize({ width: Math.max(320, element.clientWidth), height: Math.max(260, Math.min(innerHeight - 330, Math.max(260, meta.ranks * 26 + TOP + BOTTOM))) });
    const watch = new ResizeObserver(fit);
    watch.observe(element);
    fit();
    return () => watch.disconnect();
  }, [meta.ranks]);

  const px = size.width - LEFT - 8, py = size.height - TOP - BOTTOM;
  const toColumn = (x: number) => view.x0 + ((x - LEFT) / px) * (view.x1 - view.x0);
  const toX = (column: number) => LEFT + ((column - view.x0) / (view.x1 - view.x0)) * px;
  const toRow = (y: number) => view.y0 + ((y - TOP) / py) * (view.y1 - view.y0);

  // In the frame of the key: an effect would come one frame later.
  useLayoutEffect(() => {
    const element = canvas.current!, ratio = devicePixelRatio || 1, wide = Math.round(size.width * ratio), tall = Math.round(size.height * ratio);
    if (element.width !== wide || element.height !== tall) { // even the same size would be a new canvas
      element.width = wide;
      element.height = tall;
    }
    const ctx = element.getContext('2d', { alpha: false })!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    // A key that only moves the selection leaves the cells as they are: at 16,384 ranks they are most of the work.
    const key = `${view.x0} ${view.x1} ${view.y0} ${view.y1} ${px} ${py} ${sort} ${meta.columns} ${meta.ranks} ${tiles.changed.value} ${sort === 'node' || sort === 'stage' ? rankOf.value.size : 0}`;
    if (!grid.current || kept.current.key !== key) {
      grid.current = pick(tiles, view, px, py, sort, nodeOf, stageOf);
      kept.current.key = key;
      kept.current.sheetKey = '';
    }
    paint(ctx, grid.current);
  });

  /* The cells as a picture of one pixel each. */
  function sheetOf(g: Grid): OffscreenCanvas {
    const tall = Math.round(py * (devicePixelRatio || 1)), key = `${typical} ${theme.value} ${tall}`;
    if (kept.current.sheet && kept.current.sheetKey === key) return kept.current.sheet;
    const lut = table(typical, theme.value), shown = reduceRows(g, tall);
    const image = new ImageData(g.width, Math.max(1, shown.height)), out = new Uint32Array(image.data.buffer);
    for (let i = 0; i < shown.cells.length; i++) out[i] = lut[shown.cells[i]];
    const sheet = new OffscreenCanvas(image.width, image.height);
    sheet.getContext('2d')!.putImageData(image, 0, 0);
    kept.current.sheetKey = key;
    kept.current.sheet = sheet;
    return sheet;
  }

  function paint(ctx: CanvasRenderingContext2D, g: Grid): void {
    const sheet = sheetOf(g);
    ctx.fillStyle = color('panel');
    ctx.fillRect(0, 0, size.width, size.height);
    ctx.fillStyle = color('void');
    ctx.fillRect(LEFT, TOP, px, py);
    const scale = 2 ** g.level, x = toX(g.first * scale), right = toX((g.first + g.width) * scale);
    const y0 = TOP + ((Math.floor(view.y0 / g.per) * g.per - view.y0) / (view.y1 - view.y0)) * py;
    const tall = ((g.height * g.per) / (view.y1 - view.y0)) * py;
    ctx.save();
    ctx.beginPath();
    ctx.rect(LEFT, TOP, px, py);
    ctx.clip();
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(sheet, x, y0, right - x, tall);
    const rowTall = tall / g.height;
    if (rowTall >= 7) { // rows apart, so that a line can be followed by eye
      ctx.fillStyle = color('panel');
      for (let i = 1; i < g.height; i++) ctx.fillRect(LEFT, y0 + i * rowTall - 0.5, px, 1);
    }
    paintSelection(ctx, g, y0, rowTall);
    ctx.restore();
    paintAxes(ctx, g, y0, rowTall);
    paintMarks(ctx);
  }

  function paintSelection(ctx: CanvasRenderingContext2D, g: Grid, y0: number, tall: number): void {
    const at = selected ?? null;
    if (!at) return;
    const row = g.order.indexOf(Math.floor(at.rank / g.per));
    if (row < 0) return;
    const scale = 2 ** g.level, column = Math.floor(at.column / scale) * scale, w = Math.max(4, toX(column + scale) - toX(column));
    for (const [name, wide] of [['panel', 4], ['text', 1.5]] as const) { // to be seen on every colour
      ctx.strokeStyle = color(name);
      ctx.lineWidth = wide;
      if (at.column >= 0) ctx.strokeRect(toX(column) + (w > 4 ? 0.5 : -1), y0 + row * tall + 0.5, w, Math.max(4, tall - 1));
      else ctx.strokeRect(LEFT + 0.5, y0 + row * tall + 0.5, px - 1, Math.max(4, tall - 1));
    }
  }

  function paintAxes(ctx: CanvasRenderingContext2D, g: Grid, y0: number, tall: number): void {
    ctx.font = '11px ' + color('font');
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'right';
    ctx.fillStyle = color('dim');
    const every = tall >= 14 ? 1 : 2 ** Math.ceil(Math.log2(18 / tall));
    let before = '';
    for (let i = 0; i < g.height; i += every) {
      const rank = g.order[i] * g.per, y = y0 + (i + 0.5) * tall;
      if (y < TOP || y > TOP + py) continue;
      const node = sort === 'node' ? nodeOf(rank) : '';
      if (node && node !== before) {
        ctx.textAlign = 'left';
        ctx.fillStyle = color('faint');
        ctx.fillText(node.slice(0, 7), 6, y);
        ctx.textAlign = 'right';
        ctx.fillStyle = color('dim');
        before = node;
      }
      ctx.fillText(g.per > 1 ? `${rank}+` : `${rank}`, LEFT - 8, y);
    }
    paintSteps(ctx);
    ctx.textAlign = 'left';
    ctx.fillStyle = color('faint');
    ctx.fillText('rank', 6, TOP - 12);
    ctx.fillText('step', 6, TOP + py + 14);
  }

  /* Round numbers of steps, and each column where another attempt begins. */
  function paintSteps(ctx: CanvasRenderingContext2D): void {
    const every = Math.max(1, niceTick(((view.x1 - view.x0) / px) * 90)), marks = new Map<number, string>();
    let attempt = -1, before = 0;
    for (let place = view.x0; place < view.x1 + every; place += every) {
      const column = Math.min(meta.columns - 1, Math.floor(place)), at = tiles.column(column);
      if (!at) continue;
      if (attempt >= 0 && at.attempt !== attempt) {
        const begin = attemptBegin(before, column, attempt), first = tiles.column(begin);
        if (first) marks.set(begin, `${count(first.step)}, attempt ${first.attempt}`);
      }
      const round = column - (at.step % every), known = tiles.column(round);
      if (known && known.attempt === at.attempt && known.step === at.step - (at.step % every)) marks.set(round, marks.get(round) ?? count(known.step));
      attempt = at.attempt;
      before = column;
    }
    ctx.textAlign = 'left';
    let taken = 0;
    // Attempts first: where there is room for one only, it is theirs.
    for (const begins of [true, false]) {
      for (const [column, text] of marks) {
        const x = toX(column), wide = ctx.measureText(text).width;
        if (text.includes('attempt') !== begins || x < LEFT - 1 || x > LEFT + px) continue;
        ctx.fillStyle = color(begins ? 'faint' : 'line');
        ctx.fillRect(x, begins ? TOP : TOP + py, 1, (begins ? py : 0) + 4);
        const left = Math.min(Math.max(LEFT, x - (begins ? 0 : wide / 2)), LEFT + px - wide), free = begins ? left >= taken : ![...marks].some(([other, long]) =>
          long.includes('attempt') && left + wide + 8 > toX(other) && left < toX(other) + ctx.measureText(long).width + 8);
        if (!free) continue;
        ctx.fillStyle = color('dim');
        ctx.fillText(text, left, TOP + py + 14);
        if (begins) taken = left + wide + 8;
      }
    }
  }
  /* The first column between two that has another attempt than the left one; columns that are not known yet come with a later picture. */
  function attemptBegin(low: number, high: number, attempt: number): number {
    while (high - low > 1) {
      const middle = (low + high) >> 1, at = tiles.column(middle);
      if (!at) return high;
      if (at.attempt === attempt) low = middle;
      else high = middle;
    }
    return high;
  }

  function paintMarks(ctx: CanvasRenderingContext2D): void {
    let taken = 0;
    const order = [...placed].sort((a, b) => a.from - b.from);
    for (const [i, { v, from, to }] of order.entries()) {
      const x = toX(from), end = toX(Math.min(to, meta.columns));
      if (end < LEFT || x > LEFT + px) continue;
      const left = Math.max(LEFT, x), right = Math.min(LEFT + px, Math.max(end, x + 3)), state = severity(v);
      ctx.fillStyle = color(state === 'bad' ? 'bad' : state === 'warn' ? 'warn' : 'over');
      ctx.fillRect(left, TOP - 9, Math.max(2, right - left), 3);
      ctx.beginPath();
      const shape = state === 'bad' ? [[0, -11], [5, -21], [10, -11]] : [[0, -16], [5, -22], [10, -16], [5, -10]]; // as everywhere on the page
      if (state === 'over') {
        ctx.arc(left + 5, TOP - 16, 4, 0, 7);
        ctx.strokeStyle = ctx.fillStyle;
        ctx.lineWidth = 1.5;
        ctx.stroke();
      } else {
        for (const [dx, dy] of shape) ctx.lineTo(left + dx, TOP + dy);
        ctx.fill();
      }
      ctx.font = '11px ' + color('font');
      ctx.textAlign = 'left';
      ctx.textBaseline = 'middle';
      const text = `${v.kind}${v.ranks.length === 1 ? ` ${v.ranks[0]}` : ''}`;
      const next = order[i + 1] ? toX(order[i + 1].from) : Infinity;
      const wide = ctx.measureText(text).width, back = left + 14 + wide > LEFT + px; // at the right edge: before its mark
      const room = left >= taken && (back ? left - 8 - wide >= taken : left + 18 + wide <= next);
      if (room) ctx.fillText(text, back ? left - 4 - wide : left + 14, TOP - 16); // else the list below has the words
      taken = Math.max(taken, left + (room && !back ? 22 + wide : 12));
    }
  }

  function cellAt(event: MouseEvent): Cell | null {
    const area = canvas.current!.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top, g = grid.current;
    if (!g || x < LEFT || x > LEFT + px || y < TOP || y > TOP + py) return null;
    const column = Math.floor(toColumn(x)), row = Math.floor(toRow(y) / g.per) - Math.floor(view.y0 / g.per);
    if (column < 0 || column >= meta.columns || row < 0 || row >= g.order.length) return null;
    return { column, rank: Math.min(meta.ranks - 1, g.order[row] * g.per) };
  }
  function codeAt(cell: Cell): number {
    const g = grid.current;
    if (!g) return 0;
    const row = g.order.indexOf(Math.floor(cell.rank / g.per));
    return row < 0 ? 0 : (g.cells[row * g.width + Math.floor(cell.column / 2 ** g.level) - g.first] ?? 0);
  }

  function zoomBy(factor: number, atX = 0.5): void {
    const wide = view.x1 - view.x0, next = Math.max(8, Math.min(Math.max(meta.columns, 24), wide * factor));
    const at = view.x0 + wide * atX, x0 = Math.max(0, Math.min(Math.max(meta.columns, 24) - next, at - next * atX));
    const tall = view.y1 - view.y0, nextTall = meta.ranks > 64 ? Math.max(16, Math.min(meta.ranks, tall * (factor > 1 ? factor : 1))) : tall;
    setZoom(next >= meta.columns && nextTall >= meta.ranks ? null : { x0, x1: x0 + next, y0: Math.max(0, Math.min(view.y0, meta.ranks - nextTall)), y1: Math.max(0, Math.min(view.y0, meta.ranks - nextTall)) + nextTall });
  }
  function zoomRows(factor: number, at: number): void {
    const tall = view.y1 - view.y0, next = Math.max(Math.min(16, meta.ranks), Math.min(meta.ranks, tall * factor));
    const y0 = Math.max(0, Math.min(meta.ranks - next, view.y0 + tall * at - next * at));
    setZoom({ ...view, y0, y1: y0 + next });
  }
  function pan(dx: number, dy: number): void {
    const wide = view.x1 - view.x0, tall = view.y1 - view.y0;
    const x0 = Math.max(0, Math.min(Math.max(meta.columns, 24) - wide, view.x0 + dx)), y0 = Math.max(0, Math.min(meta.ranks - tall, view.y0 + dy));
    setZoom({ x0, x1: x0 + wide, y0, y1: y0 + tall });
  }

  const drag = useRef<{ x: number; y: number; view: Window; moved: boolean } | null>(null);
  function onWheel(event: WheelEvent): void {
    event.preventDefault();
    const area = canvas.current!.getBoundingClientRect();
    const fx = Math.max(0, Math.min(1, (event.clientX - area.left - LEFT) / px)), fy = Math.max(0, Math.min(1, (event.clientY - area.top - TOP) / py));
    if (event.shiftKey) zoomRows(event.deltaY > 0 ? 1.25 : 0.8, fy);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX / px) * (view.x1 - view.x0), 0);
    else zoomBy(event.deltaY > 0 ? 1.25 : 0.8, fx);
  }
  useEffect(() => {
    const element = canvas.current!;
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  });
  function onMove(event: MouseEvent): void {
    if (drag.current && event.buttons) {
      const d = drag.current, wide = d.view.x1 - d.view.x0, tall = d.view.y1 - d.view.y0;
      if (Math.abs(event.clientX - d.x) + Math.abs(event.clientY - d.y) > 4) d.moved = true;
      if (!d.moved) return;
      const x0 = Math.max(0, Math.min(Math.max(meta.columns, 24) - wide, d.view.x0 - ((event.clientX - d.x) / px) * wide));
      const y0 = Math.max(0, Math.min(meta.ranks - tall, d.view.y0 - ((event.clientY - d.y) / py) * tall));
      setZoom({ x0, x1: x0 + wide, y0, y1: y0 + tall });
      return;
    }
    const cell = cellAt(event), area = canvas.current!.getBoundingClientRect();
    setHover(cell ? { x: event.clientX - area.left, y: event.clientY - area.top, cell } : null);
  }
  function select(cell: Cell): void {
    const at = tiles.column(cell.column);
    setParams({ rank: cell.rank, column: cell.column, step: at?.step, attempt: at?.attempt });
  }
  function onKey(event: KeyboardEvent): void {
    const from = selected && selected.column >= 0 ? selected : { rank: 0, column: meta.columns - 1 };
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key];
    if (move) {
      const by = event.shiftKey ? 10 : 1, g = grid.current, per = g?.per ?? 1;
      select({ column: Math.max(0, Math.min(meta.columns - 1, from.column + move[0] * by)), rank: Math.max(0, Math.min(meta.ranks - 1, from.rank + move[1] * by * per)) });
    } else if (event.key === '+' || event.key === '=') zoomBy(0.7);
    else if (event.key === '-') zoomBy(1.4);
    else if (event.key === '0' || event.key === 'Escape') setZoom(null);
    else if (event.key === 'Enter' && selected) openTimeline(selected);
    else return;
    event.preventDefault();
  }
  function openTimeline(cell: Cell): void {
    const at = tiles.column(cell.column);
    go('timeline', { rank: cell.rank, column: cell.column, step: at?.step, attempt: at?.attempt });
  }

  if (kept.current.worstOf !== grid.current) {
    kept.current.worst = worstRanks(grid.current, typical);
    kept.current.worstOf = grid.current;
  }
  const worst = kept.current.worst;
  const at = hover ? tiles.column(hover.cell.column) : null;
  void tiles.changed.value;
  return (
    <div class="heat">
      <div class="toolbar" role="toolbar" aria-label="Heatmap">
        <label>Sort <select value={sort} onChange={(e) => { setParams({ sort: e.currentTarget.value }); setZoom(headOf(e.currentTarget.value as Sort)); }}>
          <option value="rank">by rank</option><option value="node">by node</option><option value="stage">by pipeline stage</option><option value="worst">worst first</option>
        </select></label>
        <span class="group">
          <button type="button" onClick={() => zoomBy(0.6)} aria-label="Zoom in">+</button>
          <button type="button" onClick={() => zoomBy(1.7)} aria-label="Zoom out">−</button>
          <button type="button" onClick={() => setZoom(null)} aria-label="Show all ranks and steps" disabled={!zoom}>All</button>
          <button type="button" onClick={() => setZoom({ x0: Math.max(0, meta.columns - 120), x1: Math.max(120, meta.columns), y0: 0, y1: meta.ranks })}>Last 120</button>
        </span>
        <span class="dim">{view.y1 - view.y0 < meta.ranks ? `${count(Math.round(view.y1 - view.y0))} of ` : ''}{count(meta.ranks)} {meta.ranks === 1 ? 'rank' : 'ranks'} × {count(meta.columns)} steps{grid.current && grid.current.level > 0 ? `, each cell the worst of ${2 ** grid.current.level} steps${grid.current.per > 1 ? ` × ${grid.current.per} ranks` : ''}` : ''}</span>
        <Scale />
      </div>
      <div class="canvas" ref={box}>
        <canvas ref={canvas} style={{ width: `${size.width}px`, height: `${size.height}px` }} tabIndex={0} role="img"
          aria-label={`Heatmap of ${meta.ranks} ${meta.ranks === 1 ? 'rank' : 'ranks'} and ${meta.columns} steps. ${worst.length ? `Worst: ${worst.slice(0, 3).map((r) => `rank ${r.rank}, up to ${seconds(r.most)} above the median`).join('; ')}.` : 'No rank stands out.'} Arrow keys move the selected cell, Enter opens its timeline.`}
          onMouseDown={(e) => { drag.current = { x: e.clientX, y: e.clientY, view, moved: false }; }}
          onMouseMove={onMove} onMouseLeave={() => setHover(null)} onKeyDown={onKey}
          onClick={(e) => { const cell = cellAt(e); if (cell && !drag.current?.moved) select(cell); drag.current = null; }}
          onDblClick={(e) => { const cell = cellAt(e); if (cell) openTimeline(cell); }} />
        {hover && (
          <div class="tip" style={{ left: `${Math.min(hover.x + 14, size.width - 230)}px`, top: `${hover.y + 14}px` }}>
            <b>rank {hover.cell.rank}{grid.current && grid.current.per > 1 ? `–${hover.cell.rank + grid.current.per - 1}` : ''}</b> <span class="dim">{nodeOf(hover.cell.rank)}</span><br />
            step {at ? count(at.step) : '…'}{at && at.attempt > 0 ? `, attempt ${at.attempt}` : ''}<br />
            {describe(codeAt(hover.cell), at?.median ?? typical)}
          </div>
        )}
      </div>
      <Selected cell={selected} tiles={tiles} open={openTimeline} code={selected ? codeAt(selected) : 0} typical={typical} />
      <div class="columns heat-below">
        <Panel title="Worst ranks in view">
          {worst.length ? (
            <table class="rows"><thead><tr><th>Rank</th><th>Node</th><th class="num">Worst excess</th><th class="num">Slow steps</th></tr></thead>
              <tbody>{worst.map((r) => (
                <tr><td><a href={link('heatmap', run, { rank: r.rank, column: r.column, sort: sort === 'rank' ? '' : sort })}>rank {r.rank}</a></td><td>{nodeOf(r.rank) || '–'}</td><td class="num">{seconds(r.most)}</td><td class="num">{percent(r.share)}</td></tr>
              ))}</tbody></table>
          ) : <p class="dim">No rank is more than 5 % above the median in these steps.</p>}
        </Panel>
        <Panel title="Verdicts">
          {verdicts.value.length ? <ul class="plain">{verdicts.value.slice(0, 12).map((v) => <li><a href={link('now', run, { verdict: v.id })}>{v.kind}</a> {who(v)}, step {v.since_step}</li>)}</ul> : <p class="dim">none</p>}
        </Panel>
      </div>
    </div>
  );
}

function describe(code: number, median: number): string {
  if (code === 0) return 'not observed';
  if (code === 1) return 'not above the median';
  const s = codeSeconds(code);
  return `${seconds(s)} above the median${median > 0 ? `, +${percent(s / median)}` : ''}`;
}

interface Worst { rank: number; most: number; share: number; column: number }
interface Kept { key: string; worstOf: Grid | null; worst: Worst[]; sheetKey: string; sheet: OffscreenCanvas | null } // what a frame leaves to the next

function worstRanks(g: Grid | null, typical: number): Worst[] {
  if (!g) return [];
  const list: (Worst & { sum: number })[] = [];
  for (let row = 0; row < g.height; row++) {
    let most = 0, slow = 0, at = 0, sum = 0;
    for (let x = 0; x < g.width; x++) {
      const code = g.cells[row * g.width + x], s = codeSeconds(code);
      if (s > typical * 0.05) {
        slow++;
        sum += s;
      }
      if (s > most) {
        most = s;
        at = x;
      }
    }
    if (slow) list.push({ rank: g.order[row] * g.per, most, share: slow / g.width, column: (g.first + at) * 2 ** g.level, sum });
  }
  return list.sort((a, b) => b.sum - a.sum).slice(0, 8);
}

function Scale() {
  const stops = Array.from({ length: 24 }, (_, i) => `rgb(${ramp(i / 23, theme.value).join()})`);
  return (
    <span class="scale" aria-label="Colours: from one percent to one hundred percent of the step's median work">
      <span>+1 %</span><i style={{ background: `linear-gradient(90deg, ${stops.join()})` }} /><span>+100 % of the median</span>
    </span>
  );
}

/* What a click leads to: the step of that rank beside the median of its peers. */
function Selected({ cell, tiles, open, code, typical }: { cell: Cell | null; tiles: Tiles; open: (cell: Cell) => void; code: number; typical: number }) {
  const at = cell && cell.column >= 0 ? tiles.column(cell.column) : null;
  const beside = useMemo(() => (cell && cell.column >= 0 ? <Beside column={cell.column} rank={cell.rank} /> : null), [cell?.rank, cell?.column, cell === null]);
  if (!cell) return <p class="hint dim">Click a cell, or use the arrow keys: its step appears here as a timeline.</p>;
  const node = rankOf.value.get(cell.rank)?.node;
  return (
    <Panel title={`Rank ${cell.rank}${at ? `, step ${count(at.step)}` : ''}`}
      note={<>{[node, at && at.attempt > 0 ? `attempt ${at.attempt}` : '', describe(code, at?.median ?? typical), at ? `median of all ranks ${seconds(at.median)}` : ''].filter(Boolean).join(' · ')}</>}
      actions={cell.column >= 0 ? <button class="quiet" type="button" onClick={() => open(cell)}>Whole timeline</button> : undefined}>
      {beside ?? <p class="dim">Choose a step of this rank.</p>}
    </Panel>
  );
}
