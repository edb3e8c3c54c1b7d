// Log-log roofline: a roof for each memory level and precision in use, the kernel's dot at each level, and where each
// suggestion would move it. A level's bar is how busy its unit is, the figure of the whole page; its roof is the peak
// where bytes are what fills the unit, and else (dashed) what such accesses could move at most.

import { h, s } from "./dom";
import { fine, precision, si, times } from "./format";
import { bar, section } from "./parts";
import type { Kernel, Roofs } from "./types";

const W = 560, H = 340, LEFT = 62, RIGHT = 16, TOP = 18, BOTTOM = 42;
const CLASSES: Record<string, string> = { DRAM: "dram", L2: "l2", L1: "l1" };

export function rooflineChart(k: Kernel, roofs: Roofs | undefined): HTMLElement | null {
  const r = k.roofline;
  if (!r) return null;
  const levels = (roofs?.levels ?? [{ name: "DRAM", bytes_per_s: r.bytes_per_s, peak: r.peak_bytes_per_s ?? undefined, roof: r.peak_bytes_per_s ?? undefined }])
    .filter((l) => l.bytes_per_s > 0);
  const ceilings = roofs?.ceilings ?? (r.flops_per_s && r.peak_flops_per_s
    ? [{ precision: r.precision, flops: r.flops_per_s, peak: r.peak_flops_per_s }] : []);
  const main = ceilings[0];
  const drawn = main && main.flops > 0 && levels.length ? chart(k, levels, ceilings) : null;
  const note = main ? `${precision(main.precision)}: ${si(main.flops, "FLOP/s")} of ${si(main.peak, "FLOP/s")} (${fine(main.flops / main.peak)})`
    : "no floating-point work: bandwidth is the only roof";
  const moves = drawn?.querySelector(".move") ? h("p", { class: "note small" },
    "Arrows: where each suggestion would bring the kernel. Up: the same work over the same bytes; also to the right where "
    + "the roof above it forbids that, so that bytes must go, too.") : null;
  const bent = levels.some((l) => asAccessed(l)) ? h("p", { class: "note small" },
    `${drawn ? "Dashed roof" : "At most"}: bytes are not what fills the unit (replays, small requests), so this is what these accesses would move if it did nothing else.`) : null;
  return section("Roofline", note, drawn, moves, bent, table(levels, Boolean(drawn)));
}

/** Whether a level's roof is that of the accesses as they are, below the peak of its bytes. */
function asAccessed(l: Roofs["levels"][number]): boolean {
  return Boolean(l.peak && l.roof && l.roof < l.peak * 0.999);
}

function table(levels: Roofs["levels"], drawn: boolean): HTMLElement {
  const list = h("ul", { class: "levels" });
  for (const l of [...levels].reverse()) {
    const share = l.busy ?? (l.peak ? l.bytes_per_s / l.peak : 0);
    const rate = asAccessed(l) ? `${si(l.bytes_per_s, "B/s")}; accessed like this ${si(l.roof!, "B/s")} at most, of ${si(l.peak!, "B/s")}`
      : l.peak ? `${si(l.bytes_per_s, "B/s")} of ${si(l.peak, "B/s")}` : si(l.bytes_per_s, "B/s");
    list.append(h("li", { title: l.metric ?? "" }, h("span", { class: `swatch ${drawn ? CLASSES[l.name] ?? "" : "none"}` }), h("span", { class: "name" }, l.unit || l.name),
      bar(share, CLASSES[l.name] ?? "", `${l.unit || l.name} ${fine(share)} busy`), h("span", { class: "num share" }, `${fine(share)} busy`),
      h("span", { class: "rate" }, rate)));
  }
  return list;
}

/** The plane that the chart is drawn on: logarithmic on both axes, from 10^x0 to 10^x1 and from 10^y0 to 10^y1. */
interface Plane { x0: number; x1: number; y0: number; y1: number; X: (v: number) => number; Y: (v: number) => number }

function plane(levels: Roofs["levels"], ceilings: Roofs["ceilings"]): Plane {
  const main = ceilings[0];
  const intensities = levels.map((l) => main.flops / l.bytes_per_s);
  const ridges = levels.filter((l) => l.roof).map((l) => main.peak / l.roof!);
  const most = Math.max(...ceilings.map((c) => c.peak));
  const x0 = Math.floor(Math.log10(Math.min(...intensities, ...ridges) / 3)), x1 = Math.ceil(Math.log10(Math.max(...intensities, ...ridges) * 4));
  const y1 = Math.ceil(Math.log10(most * 1.3) * 2) / 2;
  const lowest = Math.min(main.flops, ...ceilings.map((c) => c.flops).filter((f) => f > main.flops / 1e3));
  const y0 = Math.floor(Math.min(Math.log10(lowest) - 0.5, y1 - 2) * 2) / 2;
  const X = (v: number) => LEFT + (Math.log10(v) - x0) / (x1 - x0) * (W - LEFT - RIGHT);
  const Y = (v: number) => H - BOTTOM - (Math.log10(v) - y0) / (y1 - y0) * (H - TOP - BOTTOM);
  return { x0, x1, y0, y1, X, Y };
}

function chart(k: Kernel, levels: Roofs["levels"], ceilings: Roofs["ceilings"]): SVGElement {
  const main = ceilings[0], on = plane(levels, ceilings);
  const label = `Roofline: ${si(main.flops, "FLOP/s")} at ${levels.map((l) => `${si(main.flops / l.bytes_per_s, "FLOP/B")} of ${l.name}`).join(", ")}`;
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, class: "chart roofline", role: "img", "aria-label": label });
  axes(svg, on);
  const plot = s("g", { "clip-path": "url(#plot)" });
  roofs(svg, plot, on, levels, ceilings);
  moves(svg, plot, on, k, levels, main);
  const dram = levels.find((l) => l.name === "DRAM") ?? levels[levels.length - 1];
  for (const l of levels) {
    plot.append(s("circle", { cx: on.X(main.flops / l.bytes_per_s), cy: on.Y(main.flops), r: l === dram ? 6 : 4.5, class: `dot ${CLASSES[l.name] ?? ""}` },
      s("title", {}, `${l.name}: ${si(main.flops / l.bytes_per_s, "FLOP/B")}, ${si(main.flops, "FLOP/s")}`)));
  }
  svg.append(plot);
  return svg;
}

function axes(svg: SVGElement, { x0, x1, y0, y1, X, Y }: Plane): void {
  svg.append(s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    s("path", { d: "M0 0 L8 4 L0 8 z", class: "arrow-head" })),
    s("clipPath", { id: "plot" }, s("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM }))));
  const prefix = ["", "", "", "k", "k", "k", "M", "M", "M", "G", "G", "G", "T", "T", "T", "P", "P", "P", "E", "E", "E"];
  for (let e = x0; e <= x1; e++) {
    svg.append(s("line", { x1: X(10 ** e), x2: X(10 ** e), y1: TOP, y2: H - BOTTOM, class: "grid" }),
      s("text", { x: X(10 ** e), y: H - BOTTOM + 15, class: "tick", "text-anchor": "middle" }, e < 3 ? String(+(10 ** e).toPrecision(1)) : `${10 ** (e % 3)}${prefix[e]}`));
  }
  for (let e = Math.ceil(y0); e <= y1; e++) {
    svg.append(s("line", { x1: LEFT, x2: W - RIGHT, y1: Y(10 ** e), y2: Y(10 ** e), class: "grid" }),
      s("text", { x: LEFT - 7, y: Y(10 ** e) + 4, class: "tick", "text-anchor": "end" }, `${10 ** (e % 3)} ${prefix[e] ?? ""}`));
  }
  svg.append(s("text", { x: (LEFT + W - RIGHT) / 2, y: H - 6, class: "axis", "text-anchor": "middle" }, "arithmetic intensity, FLOP/byte"),
    s("text", { x: 14, y: (TOP + H - BOTTOM) / 2, class: "axis", "text-anchor": "middle", transform: `rotate(-90 14 ${(TOP + H - BOTTOM) / 2})` }, "FLOP/s"));
}

/** The roofs of the memory levels and of the precisions; what the lesser precisions do, as dots. */
function roofs(svg: SVGElement, plot: SVGElement, { x0, y0, X, Y }: Plane, levels: Roofs["levels"], ceilings: Roofs["ceilings"]): void {
  const main = ceilings[0], most = Math.max(...ceilings.map((c) => c.peak));
  for (const l of levels) {
    if (!l.roof) continue;
    const ridge = most / l.roof;
    plot.append(s("path", { class: `roof ${CLASSES[l.name] ?? ""} ${asAccessed(l) ? "accessed" : ""}`,
      d: `M${X(10 ** x0)} ${Y(10 ** x0 * l.roof)} L${X(ridge)} ${Y(most)}` },
      s("title", {}, `${l.name}: ${si(l.roof, "B/s")}${asAccessed(l) ? " at most with these accesses" : ""}`)));
  }
  const least = Math.min(...levels.filter((l) => l.roof).map((l) => 1 / l.roof!), Infinity);
  const taken: number[] = [];
  for (const c of ceilings.filter((c, i) => i === 0 || c.flops > 0).sort((a, b) => b.peak - a.peak)) {
    const from = Number.isFinite(least) ? c.peak * least : 10 ** x0;
    plot.append(s("line", { class: c === main ? "roof ceiling" : "roof ceiling other", x1: X(from), x2: W - RIGHT, y1: Y(c.peak), y2: Y(c.peak) }));
    let at = Y(c.peak) - 5;
    for (const other of taken) if (Math.abs(other - at) < 13) at = Y(c.peak) + 14;
    taken.push(at);
    svg.append(s("text", { x: W - RIGHT - 4, y: at, class: "mark", "text-anchor": "end" }, `${precision(c.precision)} ${si(c.peak, "FLOP/s")}`));
  }
  for (const c of ceilings.slice(1)) {
    const dram = levels.find((l) => l.name === "DRAM") ?? levels[0];
    if (Math.log10(c.flops) > y0) plot.append(s("circle", { cx: X(c.flops / dram.bytes_per_s), cy: Y(c.flops), r: 3.5, class: "dot other" },
      s("title", {}, `${precision(c.precision)}: ${si(c.flops, "FLOP/s")}`)));
  }
}

/** An arrow to where each of the first suggestions would move the kernel. */
function moves(svg: SVGElement, plot: SVGElement, { x0, X, Y }: Plane, k: Kernel, levels: Roofs["levels"], main: Roofs["ceilings"][number]): void {
  const ranked = k.findings.filter((f) => f.severity !== "info");
  const first = ranked.filter((f) => f.estimate && f.estimate.speedup > 1.02).slice(0, 4);
  const dram = levels.find((l) => l.name === "DRAM") ?? levels[levels.length - 1];
  const home = X(main.flops / dram.bytes_per_s), level = Y(main.flops);
  const taken: { x: number; y: number }[] = [];
  for (const f of first) {
    const speedup = f.estimate!.speedup;
    const target = main.flops * speedup;
    // The work stays; where the roof at this intensity forbids the gain, the fix must move bytes out of the way too.
    const needed = dram.roof ? target / dram.roof : 0;
    const x = Math.max(home, X(Math.max(needed, 10 ** x0))), y = Y(target);
    plot.append(s("path", { class: "move", d: x > home + 0.5 ? `M${home} ${level} Q${x} ${level} ${x} ${Math.min(y, level - 4)}` : `M${home} ${level} L${x} ${y}`, "marker-end": "url(#arrow)" },
      s("title", {}, `${f.code}: ${times(speedup)}, ${si(target, "FLOP/s")}`)));
    // Ends that fall together keep their arrows; only their numbers stand side by side.
    const mark = { x: x + 13, y };
    while (taken.some((t) => Math.abs(t.x - mark.x) < 17 && Math.abs(t.y - mark.y) < 17)) mark.x += 17;
    taken.push(mark);
    svg.append(s("circle", { cx: mark.x, cy: mark.y, r: 7.5, class: "move-mark" }), s("text", { x: mark.x, y: mark.y + 3.5, class: "move-rank", "text-anchor": "middle" },
      String(ranked.indexOf(f) + 1)));
  }
}
