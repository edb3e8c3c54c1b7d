// The memory chart as Nsight Compute's users know it: kernel, spaces, L1 and shared memory, L2, device memory. Every way
// has its share of its own peak as colour and width; boxes how busy they are; findings stand at the box that they are about.

import { h, s } from "./dom";
import { counted, fine, si } from "./format";
import { scrolling, section } from "./parts";
import type { Finding, Link, Node } from "./types";

interface Box { x: number; y: number; w: number; h: number; title: string }
const W = 1124, TOP = 26, ROW = 92, HALF = 46;
const KERNEL = { x: 8, w: 90 }, SPACE = { x: 226, w: 104 }, NEAR = { x: 478, w: 138 }, L2 = { x: 762, w: 90 }, FAR = { x: 992, w: 124 };
const UPPER: [string, string][] = [["global", "Global"], ["local", "Local"], ["texture", "Texture"]];
const LOWER: [string, string][] = [["copy", "cp.async"], ["tma", "TMA"]];
const STEPS = [20, 40, 60, 80];

/** Five colours for shares of a peak, in percent; the sixth for a peak that is not known. */
export function level(pct: number | null | undefined): string {
  return pct === null || pct === undefined ? "unknown" : `p${STEPS.filter((step) => pct >= step).length}`;
}

export function memoryChart(memory: { nodes: Node[]; links: Link[] }, findings: Finding[], us: number | null): HTMLElement {
  const { links } = memory;
  const [boxes, height] = layout(links);
  const label = "Memory chart: " + links.map((l) => `${l.source} to ${l.target} ${said(l, us).join(", ")}`).join("; ");
  const svg = s("svg", { viewBox: `0 0 ${W} ${height}`, class: "chart memory", role: "group", "aria-label": label });
  const heads = s("defs", {});
  for (const kind of ["unknown", "p0", "p1", "p2", "p3", "p4"]) {
    heads.append(s("marker", { id: `flow-${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
      s("path", { d: "M0 0 L8 4 L0 8 z", class: `flow-head ${kind}` })));
  }
  svg.append(heads);
  const drawn = new Set<string>(), labels: SVGElement[] = [];
  for (const l of links) {
    const key = [l.source, l.target].sort().join();
    if (drawn.has(key)) continue;
    drawn.add(key);
    pair(svg, labels, boxes, l, links.find((o) => o.source === l.target && o.target === l.source), us);
  }
  for (const [id] of LOWER) if (boxes[id] && boxes.shared) svg.append(starts(boxes[id], boxes.shared));
  for (const [id, box] of Object.entries(boxes)) drawBox(svg, id, box, memory.nodes.find((n) => n.id === id), findings);
  svg.append(...labels);
  const card = section("Memory chart", "colour and width: share of the peak of that way or box, over the whole kernel", scrolling(svg as unknown as HTMLElement, "memory chart"), legend(memory));
  card.classList.add("full");
  return card;
}

function layout(links: Link[]): [Record<string, Box>, number] {
  const used = new Set(links.flatMap((l) => [l.source, l.target]));
  const upper = UPPER.filter(([id]) => used.has(id)), lower = LOWER.filter(([id]) => used.has(id));
  const shared = used.has("shared"), rows = Math.max(upper.length + lower.length + (shared ? 1 : 0), 2);
  const bottom = TOP + rows * ROW;
  const boxes: Record<string, Box> = { kernel: { ...KERNEL, y: TOP, h: rows * ROW, title: "Kernel" } };
  const row = (at: number) => TOP + at * ROW + HALF - 24;
  upper.forEach(([id, title], i) => { boxes[id] = { ...SPACE, y: row(i), h: 48, title }; });
  lower.forEach(([id, title], i) => { boxes[id] = { ...SPACE, y: row(upper.length + i), h: 48, title }; });
  if (upper.length || used.has("l1")) {
    const end = shared ? Math.max(upper.length, 1) * ROW - 12 : rows * ROW;
    boxes.l1 = { ...NEAR, y: TOP, h: end, title: "L1 / TEX" };
  }
  if (shared) {
    const from = upper.length || used.has("l1") ? Math.max(upper.length, 1) * ROW : 0;
    boxes.shared = { ...NEAR, y: TOP + from, h: rows * ROW - from, title: "Shared memory" };
  }
  boxes.l2 = { ...L2, y: TOP, h: rows * ROW, title: "L2" };
  const far = [["sysmem", "System memory"], ["peer", "Peer memory"], ["dram", "Device memory"]].filter(([id]) => used.has(id) || id === "dram");
  const gap = rows * ROW / far.length;
  far.forEach(([id, title], i) => { boxes[id] = { ...FAR, y: TOP + i * gap + gap / 2 - 34, h: 68, title }; });
  return [boxes, bottom + 14];
}

function drawBox(svg: SVGElement, id: string, box: Box, node: Node | undefined, findings: Finding[]): void {
  const busy = node?.busy_pct;
  const group = s("g", { class: "memory-box", "data-box": id });
  group.append(s("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 8, class: `box ${busy !== undefined && busy !== null ? level(busy) : ""} ${node?.limit ? "limit" : ""}` }));
  const lines = [box.title];
  if (node?.limit) lines.push("the limit");
  if (node?.hit_pct !== undefined && node.hit_pct !== null) lines.push(`hit rate ${fine(node.hit_pct / 100)}`);
  if (busy !== undefined && busy !== null) lines.push(`busy ${fine(busy / 100)}`);
  if (node?.note) lines.push(...folded(node.note, 19));
  const start = box.y + box.h / 2 - (lines.length - 1) * 7 + (node?.marks?.length ? 4 : 1);
  lines.forEach((text, i) => group.append(s("text", { x: box.x + box.w / 2, y: start + i * 15, "text-anchor": "middle", class: i ? "box-note" : "box-title" }, text)));
  if (busy) group.append(s("rect", { x: box.x + 8, y: box.y + box.h - 9, width: box.w - 16, height: 4, rx: 2, class: "box-scale" }),
    s("rect", { x: box.x + 8, y: box.y + box.h - 9, width: (box.w - 16) * Math.min(100, busy) / 100, height: 4, rx: 2, class: `box-fill ${level(busy)}` }));
  (node?.marks ?? []).slice(0, 2).forEach((code, i) => group.append(mark(code, box.x + 4 + i * 62, box.y - 9, findings.find((f) => f.code === code))));
  svg.append(group);
}

/** A finding at the box that it is about: goes to the suggestion. */
function mark(code: string, x: number, y: number, finding: Finding | undefined): SVGElement {
  const to = (event: Event) => {
    if (event instanceof KeyboardEvent && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    const at = document.querySelector<HTMLDetailsElement>(`details.opportunity[data-code="${CSS.escape(code)}"]`);
    if (at) { at.open = true; at.scrollIntoView({ block: "center" }); at.querySelector("summary")?.focus(); }
  };
  return s("g", { class: `mark-chip ${finding?.severity ?? "info"}`, role: "button", tabindex: 0, "aria-label": `${code}: ${finding?.title ?? ""}`, onclick: to, onkeydown: to },
    s("title", {}, finding?.title ?? code),
    s("rect", { x, y, width: 58, height: 18, rx: 4 }), s("text", { x: x + 29, y: y + 13, "text-anchor": "middle" }, code));
}

/** What a way carries: amount, rate and share of its peak. */
function said(l: Link, us: number | null): string[] {
  const out = [l.unit === "B" ? si(l.value, "B") : counted(l.value, l.unit ?? "")];
  if ((l.unit ?? "B") === "B") {
    out[0] = si(l.value, "B");
    if (us) out.push(si(l.value / us * 1e6, "B/s"));
  }
  if (l.pct !== undefined && l.pct !== null) out.push(`${fine(l.pct / 100)} of peak`);
  return out;
}

function pair(svg: SVGElement, labels: SVGElement[], boxes: Record<string, Box>, l: Link, back: Link | undefined, us: number | null): void {
  const [one, two] = [boxes[l.source], boxes[l.target]];
  if (!one || !two) return;
  if (one.x === two.x) { vertical(svg, labels, one, two, l, us); return; }
  const forward = one.x < two.x;
  const [a, b] = forward ? [one, two] : [two, one];
  const right = forward ? l : back, left = forward ? back : l;
  const x1 = a.x + a.w, x2 = b.x;
  const low = Math.max(a.y, b.y), high = Math.min(a.y + a.h, b.y + b.h);
  // Shared memory has no box of its own beside the kernel: its way is the lowest row, which is free.
  const at_row = l.source === "kernel" && l.target === "shared" ? b.y + b.h - HALF : (low + high) / 2;
  const [from, to] = high - low >= 30 ? [at_row, at_row] : [middle(a, b), middle(b, a)];
  const both = right && left;
  for (const [link, shift, onward] of [[right, both ? -7 : 0, true], [left, both ? 7 : 0, false]] as [Link | undefined, number, boolean][]) {
    if (!link) continue;
    const kind = level(link.pct), width = 1.5 + 5.5 * Math.min(100, link.pct ?? 0) / 100, centre = (x1 + x2) / 2;
    const path = `M${x1 + 2} ${from + shift} C${centre} ${from + shift} ${centre} ${to + shift} ${x2 - 2} ${to + shift}`;
    svg.append(s("path", { d: path, class: `flow ${kind}`, "stroke-width": width.toFixed(2), "marker-start": onward ? null : `url(#flow-${kind})`, "marker-end": onward ? `url(#flow-${kind})` : null,
      "data-flow": `${link.source}-${link.target}` }, s("title", {}, full(link, us))));
    const rows = rowsOf(link, us), y = (from + to) / 2 + shift, below = shift > 0;
    rows.forEach((text, i) => labels.push(s("text", { x: centre, y: below ? y + 14 + i * 13 : y - 6 - (rows.length - 1 - i) * 13, "text-anchor": "middle", class: `flow-label ${kind}` }, text)));
  }
}

function vertical(svg: SVGElement, labels: SVGElement[], one: Box, two: Box, l: Link, us: number | null): void {
  const kind = level(l.pct), x = one.x + one.w - 18, down = one.y < two.y;
  const [y1, y2] = down ? [one.y + one.h, two.y] : [one.y, two.y + two.h];
  svg.append(s("path", { d: `M${x} ${y1} L${x} ${y2}`, class: `flow ${kind}`, "stroke-width": 2, "marker-end": `url(#flow-${kind})` }, s("title", {}, full(l, us))));
  labels.push(s("text", { x: x + 22, y: (y1 + y2) / 2 + 4, class: `flow-label ${kind}` }, said(l, us)[0]));
}

/** What is asked of an engine whose bytes go past L1. */
function starts(engine: Box, shared: Box): SVGElement {
  const y1 = engine.y + engine.h / 2, y2 = Math.max(shared.y + 14, Math.min(shared.y + shared.h - 14, y1));
  return s("path", { d: `M${engine.x + engine.w + 2} ${y1} L${shared.x - 2} ${y2}`, class: "flow starts", "marker-end": "url(#flow-unknown)" }, s("title", {}, `${engine.title} fills shared memory`));
}

function middle(box: Box, other: Box): number {
  return Math.max(box.y + 24, Math.min(box.y + box.h - 24, other.y + other.h / 2));
}

function rowsOf(l: Link, us: number | null): string[] {
  const parts = said(l, us);
  if (l.source === "kernel" && l.target === "shared" && l.requests) parts.splice(1, 0, counted(l.requests, "wavefronts"));
  const share = parts.length > 1 && parts[parts.length - 1].includes("of peak") ? parts.pop()! : null;
  return [parts.join(", "), [share, (l.unit ?? "B") === "B" ? l.note : null].filter(Boolean).join(", ")].filter(Boolean) as string[];
}

function full(l: Link, us: number | null): string {
  const requests = l.requests ? `, ${counted(l.requests, l.source === "kernel" ? "wavefronts" : "requests")}` : "";
  return `${l.source} to ${l.target}: ${said(l, us).join(", ")}${requests}${l.note ? ` (${l.note})` : ""}`;
}

function folded(text: string, limit: number): string[] {
  const out = [""];
  for (const word of text.split(" ")) {
    if ((out[out.length - 1] + word).length > limit) out.push("");
    out[out.length - 1] += (out[out.length - 1] ? " " : "") + word;
  }
  return out.filter(Boolean);
}

function legend(memory: { nodes: Node[]; links: Link[] }): HTMLElement {
  const list = h("p", { class: "legend memory-legend" });
  const entry = (kind: string, text: string) => list.append(h("span", {}, h("span", { class: `swatch ${kind}` }), text));
  ["p0", "p1", "p2", "p3", "p4"].forEach((kind, i) => entry(kind, `${i ? STEPS[i - 1] : 0} to ${i < 4 ? STEPS[i] : 100} % of peak`));
  if (memory.links.some((l) => l.pct === undefined || l.pct === null)) entry("unknown", "peak not in the report");
  if (memory.nodes.some((n) => n.limit)) entry("limit", "what the verdict names");
  if (memory.nodes.some((n) => n.marks?.length)) list.append(h("span", {}, "labels: the findings whose accesses go there"));
  return list;
}
