// The timeline: a canvas with a row for each stream and host thread, gaps coloured by cause, zoom and pan.

import { debounce, h, styled } from "./dom";
import { time } from "./format";
import { section } from "./parts";
import { go, state } from "./state";
import type { Data, Row, TimelineDetail } from "./types";

interface Track { title: string; kind: string; start: Float64Array; end: Float64Array; name: ArrayLike<number>; count?: number[]; y: number; height: number; label?: string }
interface Hit { track: Track; index: number }
export interface Tracks { element: HTMLElement; update: (changed: Set<string>) => void; key: (e: KeyboardEvent) => boolean; close: () => void }

const LABEL = 168, AXIS = 24, ROWS: Record<string, number> = { ops: 26, gaps: 14, ranges: 18, operators: 16, calls: 18 };

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
function after(values: Float64Array, t: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= t) low = middle + 1; else high = middle;
  }
  return low;
}

export function hue(name: string): number {
  let hash = 7;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return hash % 360;
}

export function canvasTimeline(data: Data, detail: TimelineDetail): Tracks {
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
  const height = y + 4;
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `Timeline of ${tracks.length} rows. Plus and minus zoom, arrows pan, 0 shows all.` });
  const tip = h("div", { class: "tip", role: "status", hidden: true });
  const overviewBar = h("canvas", { class: "overview", "aria-hidden": "true" });
  const holder = h("div", { class: "timeline" }, canvas, tip);
  styled(holder, { height: `${Math.min(height, 560)}px` });
  let [from, to] = [0, Math.max(detail.end, 1)];
  let hover: Hit | null = null;
  let pinned: Hit | null = null;
  let pending = 0;
  let palette = colours();
  let scrollY = 0;

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name: string) => style.getPropertyValue(name).trim();
    return { ink: get("--ink"), dim: get("--dim"), line: get("--line"), card: get("--card"), window: get("--window"), accent: get("--accent"),
      light: get("--tone"), causes: detail.causes.map((c) => get(`--g-${c}`) || get("--dim")) };
  }

  const later = () => { if (!pending) pending = requestAnimationFrame(() => { pending = 0; draw(); }); };
  const store = debounce(200, () => go({ t0: from > 0 ? String(Math.round(from)) : "", t1: to < detail.end ? String(Math.round(to)) : "" }));

  function X(t: number, width: number): number {
    return LABEL + (t - from) / (to - from) * (width - LABEL - 8);
  }

  function set(a: number, b: number): void {
    const whole = Math.max(detail.end, 1);
    const span = Math.min(Math.max(b - a, 50), whole);
    a = Math.max(0, Math.min(a, whole - span));
    [from, to] = [a, a + span];
    later();
    store();
  }

  function zoom(factor: number, at = (from + to) / 2): void {
    set(at - (at - from) * factor, at + (to - at) * factor);
  }

  function draw(): void {
    const width = holder.clientWidth, shown = holder.clientHeight, ratio = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = shown * ratio;
    styled(canvas, { width: `${width}px`, height: `${shown}px` });
    const c = canvas.getContext("2d")!;
    c.scale(ratio, ratio);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    const w0 = Math.max(LABEL, X(detail.low, width)), w1 = Math.min(width, X(detail.high, width));
    c.fillStyle = palette.window;
    if (w1 > w0) c.fillRect(w0, AXIS, w1 - w0, shown - AXIS);
    c.save();
    c.beginPath();
    c.rect(0, AXIS, width, shown - AXIS);
    c.clip();
    c.translate(0, -scrollY);
    for (const step of detail.steps ?? []) {
      const x = X(step, width);
      if (x < LABEL || x > width) continue;
      c.fillStyle = palette.line;
      c.fillRect(x, AXIS, 1, height);
    }
    for (const t of tracks) if (t.y + t.height - scrollY > AXIS && t.y - scrollY < shown) drawTrack(c, t, width);
    c.restore();
    drawAxis(c, width);
    drawOverview(width);
  }

  function drawTrack(c: CanvasRenderingContext2D, t: Track, width: number): void {
    const first = Math.max(0, after(t.end, from) - 1), stop = after(t.start, to);
    let edge = -1;
    for (let i = first; i < stop; i++) {
      const x0 = Math.max(LABEL, X(t.start[i], width)), x1 = Math.min(width - 8, X(t.end[i], width));
      if (x1 < LABEL) continue;
      const w = Math.max(x1 - x0, 0.6);
      if (x1 < edge + 0.5 && w < 1) continue;  // many in one pixel: the first stands for them
      edge = x1;
      const name = detail.names[t.name[i]] ?? "";
      const on = (hover?.track === t && hover.index === i) || (pinned?.track === t && pinned.index === i);
      if (t.kind === "gaps") {
        c.fillStyle = palette.causes[t.name[i]] ?? palette.dim;
      } else {
        const merged = t.count && t.count[i] > 1;
        c.fillStyle = merged ? palette.dim : `hsl(${hue(name.replace(/\d+/g, ""))} ${t.kind === "ops" ? 55 : 32}% ${palette.light})`;
      }
      c.fillRect(x0, t.y, w, t.height);
      if (on) { c.strokeStyle = palette.ink; c.lineWidth = 1.5; c.strokeRect(x0, t.y + 0.75, w, t.height - 1.5); }
      if (w > 34 && t.kind !== "gaps") {
        c.fillStyle = palette.ink;
        const text = t.count && t.count[i] > 1 ? `${t.count[i]} operations` : name.replace(/^void /, "");
        const room = Math.floor((w - 8) / 5.9);
        if (room > 3) c.fillText(text.length > room ? text.slice(0, room - 1) + "\u2026" : text, x0 + 4, t.y + t.height / 2 + 0.5);
      }
    }
    c.fillStyle = palette.card;
    c.fillRect(0, t.y - 2, LABEL - 6, t.height + 4);
    c.fillStyle = palette.dim;
    const label = t.label ?? t.title;
    c.fillText(label.length > 27 ? label.slice(0, 26) + "\u2026" : label, 4, t.y + t.height / 2 + 0.5);
  }

  function drawAxis(c: CanvasRenderingContext2D, width: number): void {
    c.fillStyle = palette.card;
    c.fillRect(0, 0, width, AXIS - 2);
    const span = to - from, raw = span / Math.max(2, (width - LABEL) / 110), unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * unit).find((m) => m >= raw)!;
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = X(at, width);
      c.fillStyle = palette.line;
      c.fillRect(x, AXIS - 6, 1, 6);
      c.fillStyle = palette.dim;
      const text = at === 0 ? "0" : tick(at, step);
      if (x + c.measureText(text).width < width) c.fillText(text, x + 3, AXIS / 2 - 2);
    }
    c.fillStyle = palette.dim;
    c.fillText(`${time(span / 1e3)} shown`, 4, AXIS / 2 - 2);
  }

  function tick(ns: number, step: number): string {
    const [scale, unit] = to >= 1e9 ? [1e9, "s"] : to >= 1e6 ? [1e6, "ms"] : to >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / scale) - 1e-9)));
    return `${(ns / scale).toFixed(digits)} ${unit}`;
  }

  function drawOverview(width: number): void {
    const ratio = devicePixelRatio || 1, tall = 22;
    overviewBar.width = width * ratio;
    overviewBar.height = tall * ratio;
    styled(overviewBar, { width: `${width}px`, height: `${tall}px` });
    const c = overviewBar.getContext("2d")!;
    c.scale(ratio, ratio);
    const x = (t: number) => LABEL + t / Math.max(detail.end, 1) * (width - LABEL - 8);
    c.fillStyle = palette.line;
    c.fillRect(LABEL, 0, width - LABEL - 8, tall);
    for (const t of tracks) {
      if (t.kind !== "gaps") continue;
      for (let i = 0, edge = -1; i < t.start.length; i++) {
        const x0 = x(t.start[i]), x1 = x(t.end[i]);
        if (x1 - x0 < 0.4 && x1 < edge + 0.5) continue;
        edge = x1;
        c.fillStyle = palette.causes[t.name[i]] ?? palette.dim;
        c.fillRect(x0, 4, Math.max(0.5, x1 - x0), tall - 8);
      }
    }
    c.strokeStyle = palette.accent;
    c.lineWidth = 2;
    c.strokeRect(Math.max(LABEL, x(from)) + 1, 1, Math.max(3, x(to) - x(from) - 2), tall - 2);
  }

  function hitAt(event: PointerEvent): Hit | null {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top + scrollY;
    if (px < LABEL || py < AXIS) return null;
    const t = tracks.find((one) => py >= one.y && py < one.y + one.height);
    if (!t) return null;
    const width = holder.clientWidth;
    const ns = from + (px - LABEL) / (width - LABEL - 8) * (to - from);
    const slack = (to - from) / width * 1.5;
    for (let i = Math.min(t.start.length, after(t.start, ns + slack)) - 1, n = 0; i >= 0 && n < 4; i--, n++) {
      if (t.end[i] >= ns - slack) return { track: t, index: i };
    }
    return null;
  }

  function describe({ track: t, index: i }: Hit): string[] {
    const length = time((t.end[i] - t.start[i]) / 1e3), at = time(t.start[i] / 1e3);
    if (t.kind === "gaps") return [data.words.causes[detail.causes[t.name[i]]] ?? detail.causes[t.name[i]], `idle for ${length}, from ${at}`];
    const many = t.count && t.count[i] > 1 ? `${t.count[i]} operations merged` : detail.names[t.name[i]];
    return [many, `${length}, from ${at}, ${t.title}`];
  }

  function showTip(hit: Hit | null, event?: PointerEvent): void {
    tip.hidden = !hit;
    if (!hit) return;
    tip.replaceChildren(...describe(hit).map((text, i) => h(i ? "span" : "b", {}, text)));
    const box = holder.getBoundingClientRect();
    const px = event ? event.clientX - box.left : box.width / 2, py = event ? event.clientY - box.top : 40;
    styled(tip, { left: `${Math.max(4, Math.min(px + 14, box.width - tip.offsetWidth - 8))}px`,
      top: `${py + 18 + tip.offsetHeight > box.height ? Math.max(0, py - tip.offsetHeight - 10) : py + 18}px` });
  }

  const canScroll = () => Math.max(0, height - holder.clientHeight);
  let drag: { x: number; y: number; from: number; to: number; scroll: number; moved: boolean } | null = null;
  canvas.addEventListener("pointerdown", (e) => {
    drag = { x: e.clientX, y: e.clientY, from, to, scroll: scrollY, moved: false };
    canvas.setPointerCapture(e.pointerId);
    canvas.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (e) => {
    if (drag) {
      const moved = e.clientX - drag.x;
      if (Math.abs(moved) + Math.abs(e.clientY - drag.y) > 3) drag.moved = true;
      if (!drag.moved) return;
      const ns = moved / (holder.clientWidth - LABEL - 8) * (drag.to - drag.from);
      scrollY = Math.max(0, Math.min(canScroll(), drag.scroll - (e.clientY - drag.y)));
      set(drag.from - ns, drag.to - ns);
      showTip(null);
      return;
    }
    const hit = hitAt(e);
    if (hit?.track !== hover?.track || hit?.index !== hover?.index) { hover = hit; later(); }
    showTip(hit, e);
  });
  canvas.addEventListener("pointerup", (e) => {
    if (drag && !drag.moved) { pinned = hitAt(e); later(); }
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { hover = null; showTip(null); later(); });
  canvas.addEventListener("dblclick", (e) => {
    const hit = hitAt(e as PointerEvent);
    if (hit) { const pad = (hit.track.end[hit.index] - hit.track.start[hit.index]) * 0.15 + 20; set(hit.track.start[hit.index] - pad, hit.track.end[hit.index] + pad); }
  });
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey && document.activeElement !== canvas) return;  // the page scrolls until the timeline is clicked
    e.preventDefault();
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      const shift = (e.deltaX || e.deltaY) / holder.clientWidth * (to - from);
      set(from + shift, to + shift);
      return;
    }
    const box = canvas.getBoundingClientRect();
    const at = from + Math.max(0, (e.clientX - box.left - LABEL) / (holder.clientWidth - LABEL - 8)) * (to - from);
    zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.004), at);
  }, { passive: false });

  function seek(e: PointerEvent): void {
    const box = overviewBar.getBoundingClientRect();
    const at = (e.clientX - box.left - LABEL) / (box.width - LABEL - 8) * detail.end;
    const half = (to - from) / 2;
    set(at - half, at + half);
  }
  overviewBar.addEventListener("pointerdown", (e) => { overviewBar.setPointerCapture(e.pointerId); seek(e); });
  overviewBar.addEventListener("pointermove", (e) => { if (e.buttons) seek(e); });

  const longest = () => {
    const all = tracks.filter((t) => t.kind === "gaps").flatMap((t) => [...t.start].map((_, index) => ({ track: t, index })));
    return all.sort((a, b) => (b.track.end[b.index] - b.track.start[b.index]) - (a.track.end[a.index] - a.track.start[a.index]));
  };
  let gapAt = -1;
  let ranked: Hit[] | null = null;
  function nextGap(step: number): void {
    ranked ??= longest().slice(0, 200);
    if (!ranked.length) return;
    gapAt = (gapAt + step + ranked.length) % ranked.length;
    pinned = ranked[gapAt];
    const [a, b] = [pinned.track.start[pinned.index], pinned.track.end[pinned.index]];
    const pad = (b - a) * 2 + 2000;
    set(a - pad, b + pad);
    readout.textContent = describe(pinned).join(": ");
  }

  const readout = h("span", { class: "hits", "aria-live": "polite" });
  const button = (text: string, run: () => void, title = "") => h("button", { type: "button", onclick: run, title }, text);
  const bar = h("div", { class: "toolbar" }, button("\u2212", () => zoom(1.6), "zoom out (-)"), button("+", () => zoom(0.6), "zoom in (+)"),
    button("All", () => set(0, detail.end), "0"), button("Window", () => set(detail.low, detail.high), "what the verdict is about"),
    button("Next longest gap", () => nextGap(1), "n"), readout);
  const used = new Set(detail.gaps.flatMap((g) => g.cause));
  const legend = h("p", { class: "legend" });
  for (const i of used) legend.append(h("span", {}, h("span", { class: `swatch g-${detail.causes[i]}` }), data.words.causes[detail.causes[i]] ?? detail.causes[i]));
  const merged = detail.merged_ns ? ` Neighbours shorter than ${time(detail.merged_ns / 1e3)} are drawn as one.` : "";
  const card = section("Timeline", `drag to pan; click, then scroll to zoom (or Ctrl and scroll); double click to fill.${merged}`, bar, overviewBar, holder, legend);
  card.classList.add("timeline-card");
  const watch = new ResizeObserver(later);
  watch.observe(holder);
  return {
    element: card,
    update(changed) {
      if (changed.has("theme")) { palette = colours(); later(); }
      if (changed.has("t0") || changed.has("t1")) {
        const { t0, t1 } = state();
        const wanted: [number, number] = [t0 ? Number(t0) : 0, t1 ? Number(t1) : detail.end];
        if (Number.isFinite(wanted[0]) && Number.isFinite(wanted[1]) && wanted[1] > wanted[0]
          && (Math.abs(wanted[0] - from) > 1 || Math.abs(wanted[1] - to) > 1)) set(...wanted);
      }
      palette = colours();
      later();
    },
    key(e) {
      const span = to - from;
      if (e.key === "+" || e.key === "=") zoom(0.6);
      else if (e.key === "-") zoom(1.6);
      else if (e.key === "0") set(0, detail.end);
      else if (e.key === "n") nextGap(1);
      else if (e.key === "N") nextGap(-1);
      else if (e.key === "ArrowLeft") set(from - span * 0.15, to - span * 0.15);
      else if (e.key === "ArrowRight") set(from + span * 0.15, to + span * 0.15);
      else if (document.activeElement === canvas && e.key === "ArrowDown") { scrollY = Math.min(canScroll(), scrollY + 40); later(); }
      else if (document.activeElement === canvas && e.key === "ArrowUp") { scrollY = Math.max(0, scrollY - 40); later(); }
      else return false;
      return true;
    },
    close: () => watch.disconnect(),
  };
}
