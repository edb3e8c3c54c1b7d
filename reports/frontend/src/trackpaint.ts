// How a timeline is drawn: rows, axis, the overview above them. What is shown is a View; nothing here changes it.

import { styled } from "./dom";
import { time } from "./format";
import { drawCourse } from "./trackcourse";
import { drawLinks, type Links } from "./tracklinks";
import type { Path } from "./trackpath";
import { AXIS, LABEL, after, fitLabels, fitted, type Hit, type Track } from "./trackrows";
import type { TimelineDetail } from "./types";

export interface Palette { ink: string; dim: string; line: string; card: string; window: string; accent: string; path: string; held: string; light: string; causes: string[] }
export interface View {
  detail: TimelineDetail; tracks: Track[]; height: number; from: number; to: number; scrollY: number;
  hover: Hit | null; pinned: Hit | null; links: Links; path: Path | null; hues: number[]; marked: [number, number] | null; palette: Palette;
}

/** The colours of the page's theme. */
export function palette(causes: string[]): Palette {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(name).trim();
  return { ink: get("--ink"), dim: get("--dim"), line: get("--line"), card: get("--card"), window: get("--window"), accent: get("--accent"), path: get("--path"), held: get("--held"),
    light: get("--tone"), causes: causes.map((c) => get(`--g-${c}`) || get("--dim")) };
}

export function hue(name: string): number {
  let hash = 7;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return hash % 360;
}

/** The hue of a name, numbers left out, worked out once. */
function hueOf(v: View, index: number, name: string): number {
  return v.hues[index] ??= hue(name.replace(/\d+/g, ""));
}

function X(v: View, t: number, width: number): number {
  return LABEL + (t - v.from) / (v.to - v.from) * (width - LABEL - 8);
}

/** Everything: `width` and `shown` are the canvas in CSS pixels. */
export function draw(v: View, canvas: HTMLCanvasElement, width: number, shown: number): void {
  const ratio = devicePixelRatio || 1;
  fitLabels(width);
  canvas.width = width * ratio;
  canvas.height = shown * ratio;
  styled(canvas, { width: `${width}px`, height: `${shown}px` });
  const c = canvas.getContext("2d")!;
  c.scale(ratio, ratio);
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  const w0 = Math.max(LABEL, X(v, v.detail.low, width)), w1 = Math.min(width, X(v, v.detail.high, width));
  c.fillStyle = v.palette.window;
  if (w1 > w0) c.fillRect(w0, AXIS, w1 - w0, shown - AXIS);
  c.save();
  c.beginPath();
  c.rect(0, AXIS, width, shown - AXIS);
  c.clip();
  c.translate(0, -v.scrollY);
  for (const step of v.detail.steps ?? []) {
    const x = X(v, step, width);
    if (x < LABEL || x > width) continue;
    c.fillStyle = v.palette.line;
    c.fillRect(x, AXIS, 1, v.height);
  }
  for (const t of v.tracks) if (t.y + t.height - v.scrollY > AXIS && t.y - v.scrollY < shown) (t.course ? drawCourse : drawTrack)(v, c, t, width);
  v.path?.draw(v, c, width);
  drawLinks(v, c, width);
  c.restore();
  drawAxis(v, c, width);
  if (v.marked) drawMarked(v, c, width, shown);
}

/** The part that is selected, between two lines. */
function drawMarked(v: View, c: CanvasRenderingContext2D, width: number, shown: number): void {
  const [x0, x1] = v.marked!.map((t) => Math.max(LABEL, Math.min(width, X(v, t, width))));
  c.save();
  c.globalAlpha = 0.14;
  c.fillStyle = v.palette.accent;
  c.fillRect(x0, AXIS - 8, x1 - x0, shown);
  c.restore();
  c.fillStyle = v.palette.accent;
  for (const x of [x0, x1]) c.fillRect(x - 0.5, AXIS - 8, 1, shown);
}

function drawTrack(v: View, c: CanvasRenderingContext2D, t: Track, width: number): void {
  const scale = (v.to - v.from) / (width - LABEL - 8), first = Math.max(0, after(t.end, v.from) - 1), stop = after(t.start, v.to);
  let edge = -1;
  for (let i = first; i < stop; i++) {
    if (edge >= LABEL) i = Math.max(i, after(t.end, v.from + (edge + 0.5 - LABEL) * scale, i));  // many in one pixel: the first stands for them
    if (i >= stop) break;
    const x0 = Math.max(LABEL, X(v, t.start[i], width)), x1 = Math.min(width - 8, X(v, t.end[i], width));
    if (x1 < LABEL) continue;
    const w = Math.max(x1 - x0, 0.6);
    edge = x1;
    const name = v.detail.names[t.name[i]] ?? "";
    const on = (v.hover?.track === t && v.hover.index === i) || (v.pinned?.track === t && v.pinned.index === i);
    if (t.kind === "gaps") {
      c.fillStyle = v.palette.causes[t.name[i]] ?? v.palette.dim;
    } else {
      const merged = t.count && t.count[i] > 1;
      c.fillStyle = merged ? v.palette.dim : `hsl(${hueOf(v, t.name[i], name)} ${t.kind === "ops" ? 55 : 32}% ${v.palette.light})`;
    }
    c.fillRect(x0, t.y, w, t.height);
    if (on) { c.strokeStyle = v.palette.ink; c.lineWidth = 1.5; c.strokeRect(x0, t.y + 0.75, w, t.height - 1.5); }
    if (w > 34 && t.kind !== "gaps") {
      c.fillStyle = v.palette.ink;
      const text = t.count && t.count[i] > 1 ? `${t.count[i]} operations` : name.replace(/^void /, "");
      const room = Math.floor((w - 8) / 5.9);
      if (room > 3) c.fillText(text.length > room ? text.slice(0, room - 1) + "\u2026" : text, x0 + 4, t.y + t.height / 2 + 0.5);
    }
  }
  c.fillStyle = v.palette.card;
  c.fillRect(0, t.y - 2, LABEL - 6, t.height + 4);
  c.fillStyle = v.palette.dim;
  c.fillText(fitted(t.label ?? t.title), 4, t.y + t.height / 2 + 0.5);
}

function drawAxis(v: View, c: CanvasRenderingContext2D, width: number): void {
  c.fillStyle = v.palette.card;
  c.fillRect(0, 0, width, AXIS - 2);
  const span = v.to - v.from, raw = span / Math.max(2, (width - LABEL) / 110), unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((m) => m >= raw)!;
  for (let at = Math.ceil(v.from / step) * step; at <= v.to; at += step) {
    const x = X(v, at, width);
    c.fillStyle = v.palette.line;
    c.fillRect(x, AXIS - 6, 1, 6);
    c.fillStyle = v.palette.dim;
    const text = at === 0 ? "0" : tick(v, at, step);
    if (x + c.measureText(text).width < width) c.fillText(text, x + 3, AXIS / 2 - 2);
  }
  c.fillStyle = v.palette.dim;
  c.fillText(`${time(span / 1e3)} shown`, 4, AXIS / 2 - 2);
}

function tick(v: View, ns: number, step: number): string {
  const [scale, unit] = v.to >= 1e9 ? [1e9, "s"] : v.to >= 1e6 ? [1e6, "ms"] : v.to >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / scale) - 1e-9)));
  return `${(ns / scale).toFixed(digits)} ${unit}`;
}

/** The whole recording in one line, its gaps, and a frame around what is shown. `gaps` keeps the line as it was drawn. */
export function drawOverview(v: View, overviewBar: HTMLCanvasElement, width: number, gaps: { key: string; picture: HTMLCanvasElement }): void {
  const ratio = devicePixelRatio || 1, tall = 22, key = `${width} ${ratio} ${v.palette.ink}`;
  overviewBar.width = width * ratio;
  overviewBar.height = tall * ratio;
  styled(overviewBar, { width: `${width}px`, height: `${tall}px` });
  if (gaps.key !== key) {
    gaps.key = key;
    drawGaps(v, gaps.picture, width, tall, ratio);
  }
  const c = overviewBar.getContext("2d")!;
  c.drawImage(gaps.picture, 0, 0);
  c.scale(ratio, ratio);
  const x = (t: number) => LABEL + t / Math.max(v.detail.end, 1) * (width - LABEL - 8);
  c.strokeStyle = v.palette.accent;
  c.lineWidth = 2;
  c.strokeRect(Math.max(LABEL, x(v.from)) + 1, 1, Math.max(3, x(v.to) - x(v.from) - 2), tall - 2);
}

function drawGaps(v: View, picture: HTMLCanvasElement, width: number, tall: number, ratio: number): void {
  picture.width = width * ratio;
  picture.height = tall * ratio;
  const c = picture.getContext("2d")!;
  c.scale(ratio, ratio);
  const scale = Math.max(v.detail.end, 1) / (width - LABEL - 8), x = (t: number) => LABEL + t / scale;
  c.fillStyle = v.palette.line;
  c.fillRect(LABEL, 0, width - LABEL - 8, tall);
  for (const t of v.tracks) {
    if (t.kind !== "gaps") continue;
    for (let i = 0, edge = -1; i < t.start.length; i++) {
      if (edge >= LABEL) i = Math.max(i, after(t.end, (edge + 0.5 - LABEL) * scale, i));
      if (i >= t.start.length) break;
      const x0 = x(t.start[i]), x1 = x(t.end[i]);
      edge = x1;
      c.fillStyle = v.palette.causes[t.name[i]] ?? v.palette.dim;
      c.fillRect(x0, 4, Math.max(0.5, x1 - x0), tall - 8);
    }
  }
}
