// The rows of a timeline as columns: where they lie, and what is at a time.

import type { Course } from "./trackcourse";
import type { CounterCourse, MemoryCourse, Row, TimelineDetail } from "./types";

export interface Track { title: string; kind: string; device: number; start: Float64Array; end: Float64Array; name: ArrayLike<number>; count?: number[]; call?: Float64Array; y: number; height: number; label?: string; course?: Course }
export interface Hit { track: Track; index: number }

export const AXIS = 24;
const WIDE = 168, NARROW = 104;
/** Pixels at the left that names of rows have. */
export let LABEL = WIDE;

/** Give names of rows the room that a width allows. */
export function fitLabels(width: number): void {
  LABEL = width < 520 ? NARROW : WIDE;
}

/** A row's name in the room that it has. */
export function fitted(label: string): string {
  if (LABEL === WIDE) return label.length > 27 ? label.slice(0, 26) + "\u2026" : label;
  const text = label.replace("host thread", "thread").replace(" operators", " ops").replace("CUDA API", "API").replace(/ (kernels|copies)$/, "");
  return text.length > 17 ? text.slice(0, 16) + "\u2026" : text;
}

const ROWS: Record<string, number> = { ops: 26, gaps: 14, ranges: 18, operators: 16, calls: 18, memory: 46, counter: 30 };

function absolute(delta: number[]): Float64Array {
  const out = new Float64Array(delta.length);
  let at = 0;
  delta.forEach((d, i) => { at += d; out[i] = at; });
  return out;
}

function track(row: Row): Track {
  const start = absolute(row.start);
  const end = start.map((s, i) => s + row.length[i]);
  return { title: row.title, kind: row.kind, device: row.device ?? -1, start, end, name: row.name, count: row.count?.length ? row.count : undefined,
    call: row.call?.length ? absolute(row.call) : undefined, y: 0, height: ROWS[row.kind] ?? 18 };
}

/** First index, from `low` on, whose value is above t. */
export function after(values: Float64Array, t: number, low = 0): number {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= t) low = middle + 1; else high = middle;
  }
  return low;
}

/** What the memory of a device held, as a row. */
function memoryTrack(m: MemoryCourse): Track {
  const start = absolute(m.start), end = start.map((_, i) => i + 1 < start.length ? start[i + 1] : Math.max(m.end, start[i]));
  const most = Math.max(...m.allocated, ...m.reserved, 1);
  return { title: `GPU ${m.device} memory`, kind: "memory", device: m.device, start, end, name: [], y: 0, height: ROWS.memory,
    course: { values: m.allocated, over: m.reserved.some((r) => r > 0) ? m.reserved : undefined, most, peak: m.peak, unit: "B", says: ["allocated", "reserved"] } };
}

/** A sampled counter as a row: percent have a scale of a hundred, others that of their highest part. */
function counterTrack(one: CounterCourse): Track {
  const start = absolute(one.start), end = start.map((s) => s + one.length), most = one.unit === "%" ? 100 : Math.max(...one.value, 1e-9);
  return { title: one.title, kind: "counter", device: one.device, start, end, name: [], y: 0, height: ROWS.counter,
    course: { values: one.value, most, peak: one.peak, unit: one.unit, says: ["on average", ""] } };
}

/** The rows of a timeline from top to bottom, a device's gaps and memory above its streams, how tall they are together,
 * and the track of each row of the detail. */
export function laidOut(detail: TimelineDetail): { tracks: Track[]; height: number; rows: Track[] } {
  const tracks: Track[] = [], rows: Track[] = [];
  const gapTracks = new Map(detail.gaps.map((g) => {
    const start = absolute(g.start);
    return [g.device, { title: `GPU ${g.device} idle`, kind: "gaps", device: g.device, start, end: start.map((s, i) => s + g.length[i]), name: g.cause, y: 0, height: ROWS.gaps } as Track];
  }));
  const seen = new Set<number>();
  for (const row of detail.rows) {
    const device = row.device ?? -1;
    if (device >= 0 && !seen.has(device)) {
      seen.add(device);
      const gaps = gapTracks.get(device);
      if (gaps) tracks.push(gaps);
      for (const m of detail.memory ?? []) if (m.device === device) tracks.push(memoryTrack(m));
    }
    const made = track(row);
    rows.push(made);
    tracks.push(made);
  }
  for (const one of detail.counters ?? []) tracks.push(counterTrack(one));
  let y = AXIS;
  let above = "";
  for (const t of tracks) {
    t.y = y;
    y += t.height + 3;
    t.label = t.title === above ? "" : t.title;  // levels of one stack are named once
    above = t.title;
  }
  return { tracks, height: y + 4, rows };
}

/** What lies at a height and a time, or at most `slack` beside it. */
export function hitAt(tracks: Track[], y: number, ns: number, slack: number): Hit | null {
  const t = tracks.find((one) => y >= one.y && y < one.y + one.height);
  if (!t) return null;
  for (let i = Math.min(t.start.length, after(t.start, ns + slack)) - 1, n = 0; i >= 0 && n < 4; i--, n++) {
    if (t.end[i] >= ns - slack) return { track: t, index: i };
  }
  return null;
}

const length = ({ track, index }: Hit) => track.end[index] - track.start[index];

/** The longest gaps of all devices, longest first. */
export function longestGaps(tracks: Track[], most: number): Hit[] {
  const all = tracks.filter((t) => t.kind === "gaps").flatMap((t) => [...t.start].map((_, index) => ({ track: t, index })));
  return all.sort((a, b) => length(b) - length(a)).slice(0, most);
}

/** What carries a word in its name, in the order of time: operations of devices and what hosts did. Rows are in order
 * already, so they are merged; of a hit there is a row and a place, no object, since there can be 100,000. */
export class Found {
  readonly rows: Uint16Array;
  readonly at: Uint32Array;
  readonly ns: number;

  constructor(private readonly tracks: Track[], names: string[], needle: string) {
    const wanted = needle.toLowerCase(), ids = Uint8Array.from(names, (name) => needle && name.toLowerCase().includes(wanted) ? 1 : 0);
    const lists: { row: number; track: Track; found: Uint32Array; next: number }[] = [];
    let total = 0, ns = 0;
    tracks.forEach((track, row) => {
      if (track.kind === "gaps" || track.course) return;
      const found = new Uint32Array(track.start.length);
      let n = 0;
      for (let i = 0; i < found.length; i++) {
        if (!ids[track.name[i]]) continue;
        found[n++] = i;
        ns += track.end[i] - track.start[i];
      }
      if (n) lists.push({ row, track, found: found.subarray(0, n), next: 0 });
      total += n;
    });
    this.ns = ns;
    this.rows = new Uint16Array(total);
    this.at = new Uint32Array(total);
    for (let k = 0; k < total; k++) {
      let first = null, start = Infinity;
      for (const list of lists) {
        if (list.next < list.found.length && list.track.start[list.found[list.next]] < start) {
          first = list;
          start = list.track.start[list.found[list.next]];
        }
      }
      this.rows[k] = first!.row;
      this.at[k] = first!.found[first!.next++];
    }
  }

  hit(k: number): Hit {
    return { track: this.tracks[this.rows[k]], index: this.at[k] };
  }
}

export interface Sum { name: string; count: number; ns: number }

/** What devices did between two times, by name, longest first; what only lies in part counts by its part. */
export function sums(tracks: Track[], names: string[], from: number, to: number): { rows: Sum[]; count: number; ns: number } {
  const by = new Map<number, Sum>();
  let count = 0, ns = 0;
  for (const t of tracks) {
    if (t.kind !== "ops") continue;
    for (let i = Math.max(0, after(t.end, from)); i < t.start.length && t.start[i] < to; i++) {
      const part = Math.min(t.end[i], to) - Math.max(t.start[i], from), many = t.count?.[i] ?? 1;
      if (part <= 0) continue;
      const row = by.get(t.name[i]) ?? { name: names[t.name[i]], count: 0, ns: 0 };
      row.count += many; row.ns += part; count += many; ns += part;
      by.set(t.name[i], row);
    }
  }
  return { rows: [...by.values()].sort((a, b) => b.ns - a.ns), count, ns };
}

export interface StreamSum extends Sum { idle: number; whole: number; beside: { title: string; name: string; ns: number } | null }

/** How busy each stream was between two times: its operations follow one another, so their times add. idle: of the rest;
 * whole: of that, with all of the device idle; beside: what another stream of the device ran longest meanwhile. */
export function rowSums(tracks: Track[], names: string[], from: number, to: number): StreamSum[] {
  const streams = tracks.filter((t) => t.kind === "ops");
  return streams.map((t) => {
    const { count, ns } = sums([t], names, from, to), free = freeOf(t, from, to);
    const gaps = tracks.find((g) => g.kind === "gaps" && g.device === t.device);
    let beside: StreamSum["beside"] = null;
    for (const other of streams) {
      if (other === t || other.device !== t.device) continue;
      for (const [name, longest] of shared(free, other)) {
        if (longest > (beside?.ns ?? 0)) beside = { title: other.title, name: names[name], ns: longest };
      }
    }
    const whole = gaps ? [...shared(free, gaps).values()].reduce((sum, one) => sum + one, 0) : 0;
    return { name: t.title, count, ns, idle: free.reduce((sum, [a, b]) => sum + b - a, 0), whole, beside };
  });
}

/** When a row has nothing between two times. */
function freeOf(t: Track, from: number, to: number): [number, number][] {
  const out: [number, number][] = [];
  let at = from;
  for (let i = Math.max(0, after(t.end, from)); i < t.start.length && t.start[i] < to; i++) {
    if (t.start[i] > at) out.push([at, t.start[i]]);
    at = Math.max(at, t.end[i]);
  }
  if (at < to) out.push([at, to]);
  return out;
}

/** How long another row was busy in these times, by name. Both are in order. */
function shared(times: [number, number][], other: Track): Map<number, number> {
  const by = new Map<number, number>();
  let i = times.length ? Math.max(0, after(other.end, times[0][0])) : 0;
  for (const [a, b] of times) {
    while (i < other.start.length && other.end[i] <= a) i++;
    for (let k = i; k < other.start.length && other.start[k] < b; k++) {
      const part = Math.min(other.end[k], b) - Math.max(other.start[k], a);
      if (part > 0) by.set(other.name[k], (by.get(other.name[k]) ?? 0) + part);
    }
  }
  return by;
}

/** How long devices idled between two times, by device and cause, longest first. */
export function idleSums(tracks: Track[], from: number, to: number): { device: string; cause: number; count: number; ns: number }[] {
  const out: { device: string; cause: number; count: number; ns: number }[] = [];
  for (const t of tracks) {
    if (t.kind !== "gaps") continue;
    const by = new Map<number, { device: string; cause: number; count: number; ns: number }>();
    for (let i = Math.max(0, after(t.end, from)); i < t.start.length && t.start[i] < to; i++) {
      const part = Math.min(t.end[i], to) - Math.max(t.start[i], from);
      if (part <= 0) continue;
      const row = by.get(t.name[i]) ?? { device: t.title.replace(/ idle$/, ""), cause: t.name[i], count: 0, ns: 0 };
      row.count += 1; row.ns += part;
      by.set(t.name[i], row);
    }
    out.push(...by.values());
  }
  return out.sort((a, b) => b.ns - a.ns);
}
