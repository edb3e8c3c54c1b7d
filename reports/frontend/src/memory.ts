// The memory chart as Nsight Compute's users know it: kernel, spaces, L1 and shared memory, L2, device memory.

import { s } from "./dom";
import { counted, si } from "./format";
import { scrolling, section } from "./parts";
import type { Link, Node } from "./types";

interface Box { x: number; y: number; w: number; h: number; title: string }
const W = 1000, H = 240;
const SPACES: [string, string][] = [["global", "Global"], ["local", "Local"], ["shared", "Shared"], ["tma", "TMA"]];

export function memoryChart(memory: { nodes: Node[]; links: Link[] }): HTMLElement {
  const { nodes, links } = memory;
  const used = new Set(links.flatMap((l) => [l.source, l.target]));
  const spaces = SPACES.filter(([id]) => links.some((l) => l.source === "kernel" && l.target === id));
  const far = [["sysmem", "System memory"], ["peer", "Peer memory"], ["dram", "Device memory"]].filter(([id]) => used.has(id) || id === "dram");
  const boxes: Record<string, Box> = { kernel: { x: 8, y: 20, w: 104, h: 200, title: "Kernel" } };
  const step = (H - 40) / Math.max(spaces.length, 1);
  spaces.forEach(([id, title], i) => { boxes[id] = { x: 232, y: 20 + i * step + step / 2 - 22, w: 104, h: 44, title }; });
  const hasShared = spaces.some(([id]) => id === "shared");
  const upper = ["global", "local"].filter((id) => boxes[id]);
  const centre = upper.length ? upper.reduce((sum, id) => sum + boxes[id].y + 22, 0) / upper.length : 120;
  boxes.l1 = { x: 466, y: Math.min(centre - 65, hasShared ? 20 : 70), w: 128, h: 130, title: "L1 / TEX" };
  if (boxes.l1.y < 20) boxes.l1.y = 20;
  boxes.l2 = { x: 672, y: 20, w: 112, h: 200, title: "L2" };
  if (boxes.tma) { // its flows pass below, with their labels
    const room = boxes.tma.y - 18;
    if (room - boxes.l1.y < 60) boxes.l1.y = 20;
    boxes.l1.h = Math.min(130, Math.max(56, room - boxes.l1.y));
  }
  const gap = (H - 40) / far.length;
  far.forEach(([id, title], i) => { boxes[id] = { x: 868, y: 20 + i * gap + gap / 2 - 32, w: 124, h: 64, title }; });
  const bottom = Math.max(...Object.values(boxes).map((b) => b.y + b.h)) + 14;
  const label = "Memory chart: " + links.map((l) => `${l.source} to ${l.target} ${amount(l)}`).join("; ");
  const svg = s("svg", { viewBox: `0 0 ${W} ${bottom}`, class: "chart memory", role: "img", "aria-label": label });
  svg.append(s("defs", {}, s("marker", { id: "flow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
    s("path", { d: "M0 0 L8 4 L0 8 z", class: "flow-head" }))));
  const most = Math.max(...links.filter((l) => !l.unit).map((l) => l.value), 1);
  const drawn = new Set<string>(), labels: SVGElement[] = [];
  for (const l of links) {
    const key = [l.source, l.target].sort().join();
    if (drawn.has(key) || l.unit === "wavefronts") continue;
    drawn.add(key);
    const back = links.find((o) => o.source === l.target && o.target === l.source);
    pair(svg, labels, boxes, l, back, most);
  }
  const wavefronts = links.find((l) => l.unit === "wavefronts");
  for (const [id, box] of Object.entries(boxes)) {
    const node = nodes.find((n) => n.id === id);
    const busy = node?.busy_pct ?? 0;
    svg.append(s("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 8, class: `box ${busy >= 80 ? "hot" : busy >= 60 ? "warm" : ""}` }));
    const lines = [box.title];
    if (node?.hit_pct !== undefined) lines.push(`hit ${node.hit_pct.toFixed(1)} %`);
    if (node?.busy_pct !== undefined) lines.push(`busy ${node.busy_pct.toFixed(0)} %`);
    if (id === "shared" && wavefronts) lines.push(`${si(wavefronts.value, "")} wavefr.`);
    const start = box.y + box.h / 2 - (lines.length - 1) * 8 + 4;
    lines.forEach((text, i) => svg.append(s("text", { x: box.x + box.w / 2, y: start + i * 16, "text-anchor": "middle", class: i ? "box-note" : "box-title" }, text)));
  }
  svg.append(...labels);
  const excess = nodes.find((n) => n.id === "shared")?.note;
  const note = "bytes moved between the levels over the whole kernel; the busiest are darker" + (excess ? `; shared memory takes ${excess}` : "");
  const card = section("Memory chart", note, scrolling(svg as unknown as HTMLElement, "memory chart"));
  card.classList.add("full");
  return card;
}

function amount(l: Link): string {
  return l.unit ? counted(l.value, l.unit) : si(l.value, "B");
}

function pair(svg: SVGElement, labels: SVGElement[], boxes: Record<string, Box>, l: Link, back: Link | undefined, most: number): void {
  const [one, two] = [boxes[l.source], boxes[l.target]];
  if (!one || !two) return;
  const forward = one.x < two.x;
  const [a, b] = forward ? [one, two] : [two, one];
  const right = forward ? l : back, left = forward ? back : l;
  const x1 = a.x + a.w, x2 = b.x;
  const yMid = (box: Box, other: Box) => Math.max(box.y + 18, Math.min(box.y + box.h - 18, other.y + other.h / 2));
  const ya = yMid(a, b), yb = yMid(b, a);
  const both = right && left;
  [[right, both ? -9 : 0, true], [left, both ? 9 : 0, false]].forEach(([link, shift, onward]) => {
    if (!link) return;
    const l = link as Link, d = shift as number;
    const share = l.unit ? 0 : Math.log10(1 + 999 * l.value / most) / 3;
    const width = 1.25 + 3.5 * share;
    const mid = (x1 + x2) / 2;
    const [from, to] = onward ? ["none", "url(#flow)"] : ["url(#flow)", "none"];
    const path = `M${x1 + 2} ${ya + d} C${mid} ${ya + d} ${mid} ${yb + d} ${x2 - 2} ${yb + d}`;
    svg.append(s("path", { d: path, class: `flow ${share > 0.93 ? "most" : ""}`, "stroke-width": width.toFixed(2), "marker-start": from, "marker-end": to },
      s("title", {}, `${l.source} to ${l.target}: ${amount(l)}${l.note ? `, ${l.note}` : ""}`)));
    const y = (ya + yb) / 2 + d + (d > 0 ? 15 : -7);
    labels.push(s("text", { x: mid, y, "text-anchor": "middle", class: "flow-label" }, amount(l)));
  });
}
