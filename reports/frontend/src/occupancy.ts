// How many warps an SM holds, as registers, shared memory or block size vary: NVIDIA's own step functions.

import { h, s } from "./dom";
import { plain, si } from "./format";
import { section } from "./parts";
import type { Occupancy, Steps } from "./types";

const W = 300, H = 150, LEFT = 30, RIGHT = 10, TOP = 12, BOTTOM = 34;

export function occupancyChart(o: Occupancy): HTMLElement {
  const lowest = Math.min(...Object.values(o.limits));
  const limiting = Object.entries(o.limits).filter(([, v]) => v === lowest).map(([n]) => n);
  const achieved = o.achieved !== null && o.achieved !== undefined ? `; ${o.achieved.toFixed(1)} reached` : "";
  const list = limiting.length > 1 ? `${limiting.slice(0, -1).join(", ")} and ${limiting[limiting.length - 1]}` : limiting[0];
  const limit = o.theoretical >= o.maximum ? "the most that it holds" : `limited by ${list}`;
  const note = `${o.theoretical} of ${o.maximum} warps an SM by the launch, ${limit}${achieved}`;
  const row = h("div", { class: "small-multiples" });
  for (const steps of o.steps ?? []) if (steps.at.length > 1) row.append(chart(o, steps));
  const limits = h("p", { class: "note" }, "Blocks an SM by resource: "
    + Object.entries(o.limits).sort((a, b) => a[1] - b[1]).map(([n, v]) => `${plain(n)} ${v}`).join(", "));
  const card = section("Occupancy", note, row.childElementCount ? row : null, limits);
  card.classList.add("full");
  return card;
}

function nice(resource: string, value: number): string {
  return resource === "shared memory" ? (value >= 1024 ? `${si(value / 1024, "KiB")}` : `${value} B`) : String(value);
}

function chart(o: Occupancy, steps: Steps): HTMLElement {
  let end = steps.at[steps.at.length - 1];
  if (steps.resource === "block size") end = Math.min(end, 1024);
  const X = (v: number) => LEFT + Math.min(1, v / end) * (W - LEFT - RIGHT);
  const Y = (v: number) => H - BOTTOM - v / o.maximum * (H - TOP - BOTTOM);
  let path = "";
  const warps = (i: number) => Math.min(o.maximum, steps.warps[i]);
  steps.at.forEach((at, i) => {
    if (at > end) return;
    path += i ? `H${X(at).toFixed(1)}V${Y(warps(i)).toFixed(1)}` : `M${X(at)} ${Y(warps(0))}`;
  });
  path += `H${X(end)}`;
  let held = warps(0);
  steps.at.forEach((at, i) => { if (at <= steps.now) held = warps(i); });
  const label = `${steps.resource}: ${nice(steps.resource, steps.now)} gives ${held} warps`;
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, class: "chart steps", role: "img", "aria-label": label });
  for (const mark of [0, o.maximum / 4, o.maximum / 2, o.maximum * 0.75, o.maximum]) {
    svg.append(s("line", { x1: LEFT, x2: W - RIGHT, y1: Y(mark), y2: Y(mark), class: "grid" }));
    if (mark % (o.maximum / 2) === 0) svg.append(s("text", { x: LEFT - 5, y: Y(mark) + 4, class: "tick", "text-anchor": "end" }, String(mark)));
  }
  for (const part of [0, 0.5, 1]) {
    svg.append(s("text", { x: X(end * part), y: H - BOTTOM + 14, class: "tick", "text-anchor": part === 1 ? "end" : part ? "middle" : "start" }, nice(steps.resource, Math.round(end * part))));
  }
  svg.append(s("path", { d: `${path}V${Y(0)}H${LEFT}Z`, class: "area" }), s("path", { d: path, class: "step-line" }),
    s("line", { x1: X(steps.now), x2: X(steps.now), y1: TOP, y2: H - BOTTOM, class: "now" }),
    s("circle", { cx: X(steps.now), cy: Y(held), r: 4.5, class: "dot now" }),
    s("text", { x: (LEFT + W - RIGHT) / 2, y: H - 5, class: "axis", "text-anchor": "middle" }, steps.unit));
  return h("figure", {}, h("figcaption", {}, `${plain(steps.resource)}: `, h("b", {}, nice(steps.resource, steps.now)), `, ${held} warps`), svg as unknown as HTMLElement);
}
