// The timeline: a canvas with a row for each stream and host thread, gaps coloured by cause, zoom and pan.

import { debounce, h, styled } from "./dom";
import { time } from "./format";
import { section } from "./parts";
import { go, state } from "./state";
import { draw, drawOverview, palette, type View } from "./trackpaint";
import { describeCourse } from "./trackcourse";
import { Links } from "./tracklinks";
import { Path } from "./trackpath";
import { AXIS, LABEL, hitAt, laidOut, Found, longestGaps, type Hit } from "./trackrows";
import { sumTables } from "./tracksums";
import type { Data, TimelineDetail } from "./types";

export interface Tracks { element: HTMLElement; update: (changed: Set<string>) => void; key: (e: KeyboardEvent) => boolean; close: () => void; show: (name: string) => void }

const GAPS = 200;
const PAPER = 760;  // about what A4 and Letter have between their margins, in CSS pixels; the picture fills the width

export function canvasTimeline(data: Data, detail: TimelineDetail): Tracks {
  const made = new CanvasTimeline(data, detail);
  return { element: made.element, update: (changed) => made.update(changed), key: (e) => made.key(e), close: () => made.close(), show: (name) => made.show(name) };
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
  private found: Found | null = null;
  private readonly path: Path | null;
  private readonly onPath = h("input", { type: "checkbox", onchange: () => this.showPath(this.onPath.checked) });
  private readonly gaps = { key: "", picture: h("canvas") };
  private foundAt = -1;
  private pending = 0;
  private gapAt = -1;
  private ranked: Hit[] | null = null;
  private drag: { x: number; y: number; from: number; to: number; scroll: number; moved: boolean; marking: number | null } | null = null;

  constructor(private readonly data: Data, private readonly detail: TimelineDetail) {
    const { tracks, height, rows } = laidOut(detail);
    this.path = detail.critical ? new Path(detail.critical, rows) : null;
    this.v = { detail, tracks, height, from: 0, to: Math.max(detail.end, 1), scrollY: 0, hover: null, pinned: null, links: new Links(tracks), path: this.path, hues: [], marked: null,
      palette: palette(detail.causes) };
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `Timeline of ${tracks.length} rows. Plus and minus zoom, arrows pan, 0 shows all, m selects what is in view.` });
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
    if (changed.has("s0") || changed.has("s1")) {
      const { s0, s1 } = state(), [a, b] = [Number(s0 ?? NaN), Number(s1 ?? NaN)];
      const wanted = a < b ? [a, b] as [number, number] : null;
      if (wanted?.join() !== this.v.marked?.join()) { this.v.marked = wanted; this.sumUp(); }
    }
    if (changed.has("cp")) this.showPath(state().cp !== "0");
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
    else if (e.key === "m") this.mark(this.v.marked ? null : [from, to]);
    else if (e.key === "c" && this.path) this.showPath(!this.v.path);
    else if (e.key === "Escape" && this.v.marked) this.mark(null);
    else if (e.key === "/") this.search.focus();
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
    this.v.palette = palette(this.detail.causes);
    this.v.hover = this.v.pinned = null;
    draw(this.v, this.canvas, PAPER, this.v.height);
    styled(this.canvas, { width: "100%", height: "auto" });
    styled(this.holder, { height: "auto" });
  };
  private readonly screen = () => {
    if (this.shown) Object.assign(this.v, { from: this.shown[0], to: this.shown[1] });
    this.shown = null;
    this.store();
    this.v.palette = palette(this.detail.causes);
    styled(this.holder, { height: `${Math.min(this.v.height, 560)}px` });
    this.later();
  };

  /** Names that hold a word: the first is shown, Enter goes on. */
  private find(): void {
    const needle = this.search.value.trim();
    this.found = needle ? new Found(this.v.tracks, this.detail.names, needle) : null;
    this.foundAt = -1;
    this.readout.textContent = this.found ? `${this.found.at.length.toLocaleString("en-US")} found, ${time(this.found.ns / 1e3)} together` : "";
  }

  private nextFound(step: number): void {
    const count = this.found?.at.length ?? 0;
    if (!this.found || !count) return;
    this.foundAt = this.foundAt < 0 && step < 0 ? count - 1 : (this.foundAt + step + count) % count;
    const hit = this.v.pinned = this.found.hit(this.foundAt);
    const [a, b] = [hit.track.start[hit.index], hit.track.end[hit.index]], pad = (b - a) * 2 + 2000;
    this.set(a - pad, b + pad);
    this.scroll(Math.max(0, hit.track.y - this.holder.clientHeight / 2));
    this.readout.textContent = `${this.foundAt + 1} of ${count.toLocaleString("en-US")}: ${this.describe(hit).join(", ")}`;
  }

  /** Search for a name, and go to where it is first. */
  show(name: string): void {
    this.search.value = name;
    this.find();
    this.nextFound(1);
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** Draw the critical path, or leave it out. */
  private showPath(on: boolean): void {
    this.v.path = on ? this.path : null;
    this.onPath.checked = on;
    go({ cp: on ? "" : "0" });
    this.later();
  }

  /** Select a part, whose sums are shown instead of those in view. */
  private mark(part: [number, number] | null): void {
    this.v.marked = part;
    go({ s0: part ? String(Math.round(part[0])) : "", s1: part ? String(Math.round(part[1])) : "" });
    this.later();
    this.sumUp();
  }

  /** What devices did in the part that is selected, else in view. */
  private readonly sumUp = debounce(150, () => {
    const { marked, tracks } = this.v, [from, to] = marked ?? [this.v.from, this.v.to];
    this.summary.replaceChildren(...sumTables(tracks, this.detail.names, from, to, marked !== null, (i) => this.cause(i)));
  });

  private readonly later = (): void => {
    if (!this.pending) this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  };

  private readonly store = debounce(200, () => {
    if (this.shown) return;  // what is on paper is not what the reader looks at
    go({ t0: this.v.from > 0 ? String(Math.round(this.v.from)) : "", t1: this.v.to < this.detail.end ? String(Math.round(this.v.to)) : "" });
  });

  private draw(): void {
    const width = this.holder.clientWidth;
    if (!width || this.shown) return;  // paper has its own picture
    draw(this.v, this.canvas, width, this.holder.clientHeight);
    drawOverview(this.v, this.overview, width, this.gaps);
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

  /** The time under the pointer. */
  private at(event: MouseEvent): number {
    const px = event.clientX - this.canvas.getBoundingClientRect().left;
    return Math.max(this.v.from, Math.min(this.v.to, this.v.from + (px - LABEL) * this.scale()));
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
    if (t.course) return [...describeCourse({ track: t, index: i }), `at most from ${at} on for ${length}, ${t.title}`];
    const many = t.count && t.count[i] > 1 ? `${t.count[i]} operations merged` : this.detail.names[t.name[i]];
    return [many, `${length}, from ${at}, ${t.title}`, ...(this.v.path?.holds({ track: t, index: i }) ? ["on the critical path"] : []), ...this.tied({ track: t, index: i })];
  }

  /** What launched an operation, or what a call launched. */
  private tied(hit: Hit): string[] {
    const call = this.v.links.callOf(hit), name = (one: Hit) => this.detail.names[one.track.name[one.index]];
    if (call) return [`launched ${time((hit.track.start[hit.index] - call.track.start[call.index]) / 1e3)} before by ${name(call)}, ${call.track.title}`];
    const ops = this.v.links.opsOf(hit);
    if (!ops.length) return [];
    const after = time((ops[0].track.start[ops[0].index] - hit.track.start[hit.index]) / 1e3);
    return [ops.length === 1 ? `launches ${name(ops[0])}, which starts ${after} later` : `launches ${ops.length} operations, the first ${after} later`];
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
      this.drag = { x: e.clientX, y: e.clientY, from: v.from, to: v.to, scroll: v.scrollY, moved: false, marking: e.shiftKey ? this.at(e) : null };
      canvas.setPointerCapture(e.pointerId);
      canvas.focus({ preventScroll: true });
    });
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerup", (e) => {
      if (this.drag?.marking != null && v.marked) this.mark(v.marked);
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
      if (drag.marking !== null) {
        const now = this.at(e);
        v.marked = [Math.min(drag.marking, now), Math.max(drag.marking, now)];
        this.later();
        this.sumUp();
        return;
      }
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
      button("Next longest gap", () => this.nextGap(1), "n"),
      button("Select view", () => this.mark(this.v.marked ? null : [this.v.from, this.v.to]), "m: the sums below are of what is selected"),
      this.search, this.path ? h("label", { class: "check", title: "c" }, this.onPath, "Critical path") : null, this.readout);
    this.onPath.checked = true;
    const legend = h("p", { class: "legend" });
    for (const i of new Set(detail.gaps.flatMap((g) => g.cause))) {
      legend.append(h("span", {}, h("span", { class: `swatch g-${detail.causes[i]}` }), this.cause(i)));
    }
    if (this.path) legend.append(h("span", {}, h("span", { class: "swatch path" }), "critical path: what the end waited for"));
    if (detail.memory?.length) {
      legend.append(h("span", {}, h("span", { class: "swatch held" }), "memory allocated"));
      if (this.v.tracks.some((t) => t.course?.over)) legend.append(h("span", {}, h("span", { class: "swatch reserved" }), "reserved"));
    }
    const merged = detail.merged_ns ? ` Neighbours shorter than ${time(detail.merged_ns / 1e3)} are drawn as one.` : "";
    const card = section("Timeline", `drag to pan; click, then scroll to zoom (or Ctrl and scroll); double click to fill; Shift and drag to select. Arrows lead from a launch to what it launched.${merged}`,
      bar, this.overview, this.holder, legend, this.summary);
    card.classList.add("timeline-card");
    return card;
  }
}
