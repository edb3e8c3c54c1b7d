// The rows of a timeline as columns: where they lie, and what is at a time.

import type { Row, TimelineDetail } from "./types";

export interface Track { title: string; kind: string; start: Float64Array; end: Float64Array; name: ArrayLike<number>; count?: number[]; y: number; height: number; label?: string }
export interface Hit { track: Track; index: number }

export const LABEL = 168, AXIS = 24;
const ROWS: Record<string, number> = { ops: 26, gaps: 14, ranges: 18, operators: 16, calls: 18 };

function absolute(delta: number[]): Float64Array {
  const out = new Float64Array(delta.length);
  let at = 0;
  delta.forEach((d, i) => { at += d; out[i] = at; });
  return out;
}

function track(row: Row): Track {
  const start = absolute(row.start);
  const end = start.map((s, i) => s + row.length[i]);
  return { title: row.title, kind: row.kind, start, end, name: row.name, count: row.count?.length ? row.count : undefined, y: 0, height: ROWS[row.kind] ?? 18 };
}

/** First index whose value is above t. */
export function after(values: Float64Array, t: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= t) low = middle + 1; else high = middle;
  }
  return low;
}

/** The rows of a timeline from top to bottom, a device's gaps above its streams, and how tall they are together. */
export function laidOut(detail: TimelineDetail): { tracks: Track[]; height: number } {
  const tracks: Track[] = [];
  const gapTracks = new Map(detail.gaps.map((g) => {
    const start = absolute(g.start);
    return [g.device, { title: `GPU ${g.device} idle`, kind: "gaps", start, end: start.map((s, i) => s + g.length[i]), name: g.cause, y: 0, height: ROWS.gaps } as Track];
  }));
  const seen = new Set<number>();
  for (const row of detail.rows) {
    const device = row.device ?? -1;
    if (device >= 0 && !seen.has(device)) {
      seen.add(device);
      const gaps = gapTracks.get(device);
      if (gaps) tracks.push(gaps);
    }
    tracks.push(track(row));
  }
  let y = AXIS;
  let above = "";
  for (const t of tracks) {
    t.y = y;
    y += t.height + 3;
    t.label = t.title === above ? "" : t.title;  // levels of one stack are named once
    above = t.title;
  }
  return { tracks, height: y + 4 };
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

/** What carries a word in its name, in the order of time: operations of devices and what hosts did. */
export function named(tracks: Track[], names: string[], needle: string): Hit[] {
  const wanted = needle.toLowerCase(), ids = new Set<number>();
  names.forEach((name, i) => { if (name.toLowerCase().includes(wanted)) ids.add(i); });
  const out: Hit[] = [];
  for (const t of tracks) {
    if (t.kind === "gaps") continue;
    for (let index = 0; index < t.start.length; index++) if (ids.has(t.name[index])) out.push({ track: t, index });
  }
  return out.sort((a, b) => a.track.start[a.index] - b.track.start[b.index]);
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
