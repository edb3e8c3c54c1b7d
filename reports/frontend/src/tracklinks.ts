// Which call launched which operation, and the arrows between them.

import { LABEL, after, type Hit, type Track } from "./trackrows";
import type { View } from "./trackpaint";

/** At most so many arrows are drawn at once; with more, only those of what the pointer or the search is at. */
const MOST = 120;

export class Links {
  private readonly calls: { track: Track; before: number }[] = [];
  private ops: Map<number, Hit[]> | null = null;

  constructor(private readonly tracks: Track[]) {
    let before = 1;
    for (const track of tracks) {
      if (track.kind !== "calls") continue;
      this.calls.push({ track, before });
      before += track.start.length;
    }
  }

  /** The call that launched an operation. */
  callOf({ track, index }: Hit): Hit | null {
    const number = track.call?.[index] ?? 0;
    if (!number) return null;
    const row = this.calls.find((one) => number < one.before + one.track.start.length);
    return row ? { track: row.track, index: number - row.before } : null;
  }

  /** What a call launched. */
  opsOf({ track, index }: Hit): Hit[] {
    const row = this.calls.find((one) => one.track === track);
    if (!row) return [];
    if (!this.ops) {
      this.ops = new Map();
      for (const t of this.tracks) t.call?.forEach((number, i) => {
        if (!number) return;
        const found = this.ops!.get(number);
        if (found) found.push({ track: t, index: i });
        else this.ops!.set(number, [{ track: t, index: i }]);
      });
    }
    return this.ops.get(row.before + index) ?? [];
  }

  /** (call, operation) of what something is tied to. */
  of(hit: Hit): [Hit, Hit][] {
    const call = this.callOf(hit);
    return call ? [[call, hit]] : this.opsOf(hit).map((op) => [hit, op]);
  }

  /** The links of the operations in view, where they are few enough to be told apart. */
  inView(from: number, to: number): [Hit, Hit][] {
    const out: [Hit, Hit][] = [];
    for (const track of this.tracks) {
      if (!track.call) continue;
      const first = Math.max(0, after(track.end, from)), stop = after(track.start, to);
      if (stop - first > MOST) return [];
      for (let index = first; index < stop; index++) {
        const call = this.callOf({ track, index });
        if (call) out.push([call, { track, index }]);
        if (out.length > MOST) return [];
      }
    }
    return out;
  }
}

/** Arrows from calls to operations, over the rows. `width` in CSS pixels; the context is that of the rows. */
export function drawLinks(v: View, c: CanvasRenderingContext2D, width: number): void {
  const at = (ns: number) => LABEL + (ns - v.from) / (v.to - v.from) * (width - LABEL - 8);
  const arrow = ([call, op]: [Hit, Hit], strong: boolean) => {
    const x0 = at(call.track.start[call.index]), x1 = at(op.track.start[op.index]);
    if (Math.max(x0, x1) < LABEL || Math.min(x0, x1) > width) return;
    const up = op.track.y < call.track.y;
    const y0 = up ? call.track.y : call.track.y + call.track.height, y1 = up ? op.track.y + op.track.height : op.track.y;
    c.strokeStyle = c.fillStyle = strong ? v.palette.accent : v.palette.dim;
    c.lineWidth = strong ? 1.75 : 0.75;
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    c.stroke();
    const tall = up ? 5 : -5;
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x1 - 3, y1 + tall);
    c.lineTo(x1 + 3, y1 + tall);
    c.fill();
  };
  c.save();
  c.beginPath();
  c.rect(LABEL, 0, width - LABEL, v.height);
  c.clip();
  for (const link of v.links.inView(v.from, v.to)) arrow(link, false);
  for (const hit of [v.pinned, v.hover]) if (hit) for (const link of v.links.of(hit).slice(0, MOST)) arrow(link, true);
  c.restore();
}
