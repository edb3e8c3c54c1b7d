// The critical path over the rows: a line under the operations and host calls that the end of the recording waited for.

import { LABEL, after, type Hit, type Track } from "./trackrows";
import type { View } from "./trackpaint";
import type { PathDetail } from "./types";

const LAUNCH = 1;
/** With more pieces in view, only those that lie along rows are drawn: what leads from one to the next would be a wall. */
const MOST = 200;

export class Path {
  private readonly start: Float64Array;
  private readonly end: Float64Array;

  /** rows: the track of each row of the detail. */
  constructor(private readonly path: PathDetail, private readonly rows: Track[]) {
    let at = 0;
    this.start = Float64Array.from(path.start, (d) => at += d);
    this.end = this.start.map((s, i) => s + path.length[i]);
  }

  /** Whether something lies on the path. */
  holds({ track, index }: Hit): boolean {
    const middle = (track.start[index] + track.end[index]) / 2, at = after(this.start, middle) - 1;
    return at >= 0 && this.end[at] >= middle && this.path.kind[at] !== LAUNCH && this.rows[this.path.row[at]] === track;
  }

  /** `width` in CSS pixels; the context is that of the rows. */
  draw(v: View, c: CanvasRenderingContext2D, width: number): void {
    const x = (ns: number) => LABEL + (ns - v.from) / (v.to - v.from) * (width - LABEL - 8);
    const first = Math.max(0, after(this.end, v.from)), stop = after(this.start, v.to);
    c.save();
    c.beginPath();
    c.rect(LABEL, 0, width - LABEL - 8, v.height);
    c.clip();
    c.fillStyle = c.strokeStyle = v.palette.path;
    const edges = new Map<Track, number>();
    for (let i = first; i < stop; i++) {
      const t = this.rows[this.path.row[i]];
      if (!t || this.path.kind[i] === LAUNCH) continue;
      const x0 = Math.max(x(this.start[i]), edges.get(t) ?? LABEL), x1 = x(this.end[i]);
      if (x1 < x0) continue;  // many in one pixel
      c.fillRect(x0, t.y + t.height - 1, Math.max(x1 - x0, 1), 3);
      edges.set(t, x1);
    }
    if (stop - first <= MOST) for (let i = Math.max(first - 1, 0); i < stop; i++) this.step(c, i, x);
    c.restore();
  }

  /** What leads from a piece to the next: at once from row to row, or along a launch. */
  private step(c: CanvasRenderingContext2D, i: number, x: (ns: number) => number): void {
    const launch = this.path.kind[i + 1] === LAUNCH, next = launch ? i + 2 : i + 1;
    if (this.path.kind[i] === LAUNCH || next >= this.start.length) return;
    const from = this.rows[this.path.row[i]], to = this.rows[this.path.row[next]];
    if (!from || !to || this.start[next] - this.end[next - 1] > 1 || this.start[i + 1] - this.end[i] > 1) return;  // a shorter piece is left out
    c.lineWidth = 1.5;
    c.setLineDash(launch ? [3, 2] : []);
    c.beginPath();
    c.moveTo(x(this.end[i]), from.y + from.height);
    c.lineTo(x(this.start[next]), to.y + to.height);
    c.stroke();
  }
}
