// The timeline: a canvas with a row for each stream and host thread, gaps coloured by cause, zoom and pan.

import { debounce, h, styled } from "./dom";
import { compact, fine, time } from "./format";
import { scrolling, section } from "./parts";
import { go, state } from "./state";
import { draw, drawOverview, palette, type View } from "./trackpaint";
import { AXIS, LABEL, hitAt, laidOut, longestGaps, named, sums, type Hit } from "./trackrows";
import type { Data, TimelineDetail } from "./types";

export interface Tracks { element: HTMLElement; update: (changed: Set<string>) => void; key: (e: KeyboardEvent) => boolean; close: () => void }

const GAPS = 200;

export function canvasTimeline(data: Data, detail: TimelineDetail): Tracks {
  const made = new CanvasTimeline(data, detail);
  return { element: made.element, update: (changed) => made.update(changed), key: (e) => made.key(e), close: () => made.close() };
}

class CanvasTimeline {
  readonly element: HTMLElement;
  private readonly v: View;
  private readonly canvas: HTMLCanvasElement;
  private readonly tip = h("div", { class: "tip", role: "status", hidden: true });
  private readonly overview = h("canvas", { class: "overview", "aria-hidden": "true" });
  private readonly readout = h("span", { class: "hits", "aria-live": "polite" });
  private readonly holder: HTMLElement;
  private readonly watch: ResizeObserver;
  private readonly summary = h("div", { class: "sums" });
  private readonly search = h("input", { type: "search", placeholder: "Search operations", "aria-label": "search the timeline" });
  private found: Hit[] = [];
  private foundAt = -1;
  private pending = 0;
  private gapAt = -1;
  private ranked: Hit[] | null = null;
  private drag: { x: number; y: number; from: number; to: number; scroll: number; moved: boolean } | null = null;

  constructor(private readonly data: Data, private readonly detail: TimelineDetail) {
    const { tracks, height } = laidOut(detail);
    this.v = { detail, tracks, height, from: 0, to: Math.max(detail.end, 1), scrollY: 0, hover: null, pinned: null, palette: palette(detail.causes) };
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `Timeline of ${tracks.length} rows. Plus and minus zoom, arrows pan, 0 shows all.` });
    this.holder = styled(h("div", { class: "timeline" }, this.canvas, this.tip), { height: `${Math.min(height, 560)}px` });
    this.listen();
    this.listenOverview();
    this.element = this.card();
    addEventListener("beforeprint", this.paper);
    addEventListener("afterprint", this.screen);
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") { this.nextFound(event.shiftKey ? -1 : 1); event.preventDefault(); } });
    this.sumUp();
    this.watch = new ResizeObserver(this.later);
    this.watch.observe(this.holder);
  }

  update(changed: Set<string>): void {
    if (changed.has("t0") || changed.has("t1")) {
      const { t0, t1 } = state();
      const wanted: [number, number] = [t0 ? Number(t0) : 0, t1 ? Number(t1) : this.detail.end];
      if (Number.isFinite(wanted[0]) && Number.isFinite(wanted[1]) && wanted[1] > wanted[0]
        && (Math.abs(wanted[0] - this.v.from) > 1 || Math.abs(wanted[1] - this.v.to) > 1)) this.set(...wanted);
    }
    this.v.palette = palette(this.detail.causes);
    this.later();
  }

  key(e: KeyboardEvent): boolean {
    const { from, to } = this.v, span = to - from;
    if (e.key === "+" || e.key === "=") this.zoom(0.6);
    else if (e.key === "-") this.zoom(1.6);
    else if (e.key === "0") this.set(0, this.detail.end);
    else if (e.key === "n") this.nextGap(1);
    else if (e.key === "N") this.nextGap(-1);
    else if (e.key === "ArrowLeft") this.set(from - span * 0.15, to - span * 0.15);
    else if (e.key === "ArrowRight") this.set(from + span * 0.15, to + span * 0.15);
    else if (document.activeElement === this.canvas && e.key === "ArrowDown") this.scroll(this.v.scrollY + 40);
    else if (document.activeElement === this.canvas && e.key === "ArrowUp") this.scroll(this.v.scrollY - 40);
    else return false;
    return true;
  }

  close(): void {
    this.watch.disconnect();
    removeEventListener("beforeprint", this.paper);
    removeEventListener("afterprint", this.screen);
  }

  private shown: [number, number] | null = null;
  /** On paper all of it, every row. */
  private readonly paper = () => {
    this.shown = [this.v.from, this.v.to];
    Object.assign(this.v, { from: 0, to: Math.max(this.detail.end, 1), scrollY: 0 });
    styled(this.holder, { height: `${this.v.height}px` });
    this.draw();
  };
  private readonly screen = () => {
    if (this.shown) Object.assign(this.v, { from: this.shown[0], to: this.shown[1] });
    styled(this.holder, { height: `${Math.min(this.v.height, 560)}px` });
    this.later();
  };

  /** Names that hold a word: the first is shown, Enter goes on. */
  private find(): void {
    const needle = this.search.value.trim();
    this.found = needle ? named(this.v.tracks, this.detail.names, needle) : [];
    this.foundAt = -1;
    const ns = this.found.reduce((sum, { track: t, index: i }) => sum + t.end[i] - t.start[i], 0);
    this.readout.textContent = needle ? `${this.found.length.toLocaleString("en-US")} found, ${time(ns / 1e3)} together` : "";
  }

  private nextFound(step: number): void {
    if (!this.found.length) return;
    this.foundAt = (this.foundAt + step + this.found.length) % this.found.length;
    const hit = this.v.pinned = this.found[this.foundAt];
    const [a, b] = [hit.track.start[hit.index], hit.track.end[hit.index]], pad = (b - a) * 2 + 2000;
    this.set(a - pad, b + pad);
    this.scroll(Math.max(0, hit.track.y - this.holder.clientHeight / 2));
    this.readout.textContent = `${this.foundAt + 1} of ${this.found.length.toLocaleString("en-US")}: ${this.describe(hit).join(", ")}`;
  }

  /** What devices did in the part that is in view. */
  private readonly sumUp = debounce(150, () => {
    const { from, to } = this.v, all = sums(this.v.tracks, this.detail.names, from, to);
    const body = h("tbody");
    for (const row of all.rows.slice(0, 8)) {
      body.append(h("tr", {}, h("td", { class: "num" }, fine(row.ns / Math.max(all.ns, 1))), h("td", { class: "num" }, time(row.ns / 1e3)),
        h("td", { class: "num" }, row.count.toLocaleString("en-US")), h("th", { scope: "row", title: row.name }, compact(row.name))));
    }
    const says = `In view, ${time((to - from) / 1e3)}: ${all.count.toLocaleString("en-US")} operations of ${all.rows.length} names, ${time(all.ns / 1e3)} together`;
    this.summary.replaceChildren(h("p", { class: "note" }, says), scrolling(h("table", { class: "small" }, body), "what is in view, by name"));
  });

  private readonly later = (): void => {
    if (!this.pending) this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  };

  private readonly store = debounce(200, () => go({ t0: this.v.from > 0 ? String(Math.round(this.v.from)) : "",
    t1: this.v.to < this.detail.end ? String(Math.round(this.v.to)) : "" }));

  private draw(): void {
    const width = this.holder.clientWidth;
    if (!width) return;
    draw(this.v, this.canvas, width, this.holder.clientHeight);
    drawOverview(this.v, this.overview, width);
  }

  private set(a: number, b: number): void {
    const whole = Math.max(this.detail.end, 1);
    const span = Math.min(Math.max(b - a, 50), whole);
    a = Math.max(0, Math.min(a, whole - span));
    this.v.from = a;
    this.v.to = a + span;
    this.later();
    this.store();
    this.sumUp();
  }

  private zoom(factor: number, at = (this.v.from + this.v.to) / 2): void {
    this.set(at - (at - this.v.from) * factor, at + (this.v.to - at) * factor);
  }

  private scroll(y: number): void {
    this.v.scrollY = Math.max(0, Math.min(Math.max(0, this.v.height - this.holder.clientHeight), y));
    this.later();
  }

  /** Nanoseconds in a pixel. */
  private scale(): number {
    return (this.v.to - this.v.from) / (this.holder.clientWidth - LABEL - 8);
  }

  private hit(event: MouseEvent): Hit | null {
    const box = this.canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top + this.v.scrollY;
    if (px < LABEL || py < AXIS) return null;
    const slack = (this.v.to - this.v.from) / this.holder.clientWidth * 1.5;
    return hitAt(this.v.tracks, py, this.v.from + (px - LABEL) * this.scale(), slack);
  }

  private describe({ track: t, index: i }: Hit): string[] {
    const length = time((t.end[i] - t.start[i]) / 1e3), at = time(t.start[i] / 1e3);
    if (t.kind === "gaps") return [this.cause(t.name[i]), `idle for ${length}, from ${at}`];
    const many = t.count && t.count[i] > 1 ? `${t.count[i]} operations merged` : this.detail.names[t.name[i]];
    return [many, `${length}, from ${at}, ${t.title}`];
  }

  private cause(index: number): string {
    return this.data.words.causes[this.detail.causes[index]] ?? this.detail.causes[index];
  }

  private showTip(hit: Hit | null, event?: PointerEvent): void {
    const { tip } = this;
    tip.hidden = !hit;
    if (!hit) return;
    tip.replaceChildren(...this.describe(hit).map((text, i) => h(i ? "span" : "b", {}, text)));
    const box = this.holder.getBoundingClientRect();
    const px = event ? event.clientX - box.left : box.width / 2, py = event ? event.clientY - box.top : 40;
    styled(tip, { left: `${Math.max(4, Math.min(px + 14, box.width - tip.offsetWidth - 8))}px`,
      top: `${py + 18 + tip.offsetHeight > box.height ? Math.max(0, py - tip.offsetHeight - 10) : py + 18}px` });
  }

  private nextGap(step: number): void {
    this.ranked ??= longestGaps(this.v.tracks, GAPS);
    if (!this.ranked.length) return;
    this.gapAt = (this.gapAt + step + this.ranked.length) % this.ranked.length;
    const hit = this.v.pinned = this.ranked[this.gapAt];
    const [a, b] = [hit.track.start[hit.index], hit.track.end[hit.index]];
    const pad = (b - a) * 2 + 2000;
    this.set(a - pad, b + pad);
    this.readout.textContent = this.describe(hit).join(": ");
  }

  private listen(): void {
    const { canvas, v } = this;
    canvas.addEventListener("pointerdown", (e) => {
      this.drag = { x: e.clientX, y: e.clientY, from: v.from, to: v.to, scroll: v.scrollY, moved: false };
      canvas.setPointerCapture(e.pointerId);
      canvas.focus({ preventScroll: true });
    });
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerup", (e) => {
      if (this.drag && !this.drag.moved) { v.pinned = this.hit(e); this.later(); }
      this.drag = null;
    });
    canvas.addEventListener("pointerleave", () => { v.hover = null; this.showTip(null); this.later(); });
    canvas.addEventListener("dblclick", (e) => {
      const hit = this.hit(e);
      if (!hit) return;
      const [a, b] = [hit.track.start[hit.index], hit.track.end[hit.index]], pad = (b - a) * 0.15 + 20;
      this.set(a - pad, b + pad);
    });
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
  }

  private move(e: PointerEvent): void {
    const { drag, v } = this;
    if (drag) {
      const moved = e.clientX - drag.x;
      if (Math.abs(moved) + Math.abs(e.clientY - drag.y) > 3) drag.moved = true;
      if (!drag.moved) return;
      const ns = moved / (this.holder.clientWidth - LABEL - 8) * (drag.to - drag.from);
      this.scroll(drag.scroll - (e.clientY - drag.y));
      this.set(drag.from - ns, drag.to - ns);
      this.showTip(null);
      return;
    }
    const hit = this.hit(e);
    if (hit?.track !== v.hover?.track || hit?.index !== v.hover?.index) { v.hover = hit; this.later(); }
    this.showTip(hit, e);
  }

  private wheel(e: WheelEvent): void {
    if (!e.ctrlKey && !e.metaKey && document.activeElement !== this.canvas) return;  // the page scrolls until the timeline is clicked
    e.preventDefault();
    const { from, to } = this.v;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      const shift = (e.deltaX || e.deltaY) / this.holder.clientWidth * (to - from);
      this.set(from + shift, to + shift);
      return;
    }
    const box = this.canvas.getBoundingClientRect();
    const at = from + Math.max(0, (e.clientX - box.left - LABEL) * this.scale());
    this.zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.004), at);
  }

  private listenOverview(): void {
    const { overview } = this;
    const seek = (e: PointerEvent) => {
      const box = overview.getBoundingClientRect();
      const at = (e.clientX - box.left - LABEL) / (box.width - LABEL - 8) * this.detail.end;
      const half = (this.v.to - this.v.from) / 2;
      this.set(at - half, at + half);
    };
    overview.addEventListener("pointerdown", (e) => { overview.setPointerCapture(e.pointerId); seek(e); });
    overview.addEventListener("pointermove", (e) => { if (e.buttons) seek(e); });
  }

  private card(): HTMLElement {
    const { detail } = this;
    const button = (text: string, run: () => void, title = "") => h("button", { type: "button", onclick: run, title }, text);
    const bar = h("div", { class: "toolbar" }, button("\u2212", () => this.zoom(1.6), "zoom out (-)"), button("+", () => this.zoom(0.6), "zoom in (+)"),
      button("All", () => this.set(0, detail.end), "0"), button("Window", () => this.set(detail.low, detail.high), "what the verdict is about"),
      button("Next longest gap", () => this.nextGap(1), "n"), this.search, this.readout);
    const legend = h("p", { class: "legend" });
    for (const i of new Set(detail.gaps.flatMap((g) => g.cause))) {
      legend.append(h("span", {}, h("span", { class: `swatch g-${detail.causes[i]}` }), this.cause(i)));
    }
    const merged = detail.merged_ns ? ` Neighbours shorter than ${time(detail.merged_ns / 1e3)} are drawn as one.` : "";
    const card = section("Timeline", `drag to pan; click, then scroll to zoom (or Ctrl and scroll); double click to fill.${merged}`,
      bar, this.overview, this.holder, legend, this.summary);
    card.classList.add("timeline-card");
    return card;
  }
}
