// PM-sampled series over the kernel: how full each unit is, what warps wait for, and the phases.

import { stallClass } from "./code";
import { h, s, styled } from "./dom";
import { time } from "./format";
import { section } from "./parts";
import type { Pm, Series } from "./types";

const W = 1000, ROW = 40;

export function pmChart(pm: Pm): HTMLElement {
  const units = pm.series.filter((x) => x.group === "unit" && Math.max(...x.values) >= 3);
  const waits = pm.series.filter((x) => x.group === "wait");
  const count = Math.max(...pm.series.map((x) => x.values.length));
  const whole = count * pm.bin_ns;
  const rows = h("div", { class: "pm-rows" });
  for (const series of units) rows.append(unitRow(pm, series, whole));
  if (waits.length) rows.append(waitRow(waits, count));
  rows.append(axis(whole / 1e3));
  const cursor = h("span", { class: "cursor", hidden: true });
  const read = h("p", { class: "readout", "aria-live": "off" }, "\u00a0");
  rows.append(cursor);
  rows.addEventListener("pointermove", (event) => {
    const box = rows.querySelector(".plot")!.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    if (at < 0 || at > 1) { cursor.hidden = true; return; }
    cursor.hidden = false;
    styled(cursor, { left: `${event.clientX - rows.getBoundingClientRect().left}px` });
    const i = Math.min(count - 1, Math.floor(at * count));
    const parts = units.filter((u) => u.partial === undefined || u.partial === null).map((u) => `${u.title} ${u.values[i]?.toFixed(0) ?? "-"} %`);
    read.textContent = `${time((i + 0.5) * pm.bin_ns / 1e3)}: ${parts.join(" \u00b7 ")}`;
  });
  rows.addEventListener("pointerleave", () => { cursor.hidden = true; read.textContent = "\u00a0"; });
  const shaded = pm.fill_ns || pm.drain_ns || pm.bubbles?.length ? " Shaded: filling, bubbles and draining." : "";
  const card = section("Timelines", `sampled every ${time(pm.sampled_ns / 1e3)}, mean over the SMs, percent of peak.${shaded}`, rows, read);
  const parts = units.filter((u) => u.partial !== undefined && u.partial !== null);
  if (parts.length) {
    const list = parts.map((u) => `${u.title} (${u.partial!.toFixed(0)} % by the counters)`).join(", ");
    card.append(h("p", { class: "note small" }, `In part: the sampler has no counter for all that ${list} does; its row shows when, not how much.`));
  }
  if (waits.length) {
    const legend = h("p", { class: "legend" });
    for (const w of waits.slice(0, 9)) legend.append(h("span", {}, h("span", { class: `swatch w-${stallClass(w.name)}` }), w.title));
    card.append(legend);
  }
  card.classList.add("full");
  return card;
}

function unitRow(pm: Pm, series: Series, whole: number): HTMLElement {
  const n = series.values.length;
  const mean = series.values.reduce((a, b) => a + b, 0) / n;
  const X = (i: number) => i / n * W, Y = (v: number) => ROW - Math.min(100, v) / 100 * (ROW - 2);
  let line = "";
  series.values.forEach((v, i) => { line += `${i ? "L" : "M"}${X(i).toFixed(1)} ${Y(v).toFixed(1)}L${X(i + 1).toFixed(1)} ${Y(v).toFixed(1)}`; });
  const svg = s("svg", { viewBox: `0 0 ${W} ${ROW}`, preserveAspectRatio: "none", class: "plot", role: "img", "aria-label": `${series.title}, mean ${mean.toFixed(0)} %` });
  const shade = (from: number, to: number, kind: string) => svg.append(s("rect", { x: from / whole * W, y: 0, width: Math.max(1, (to - from) / whole * W), height: ROW, class: kind }));
  if (pm.fill_ns) shade(0, pm.fill_ns, "phase");
  if (pm.drain_ns) shade(whole - pm.drain_ns, whole, "phase");
  for (const [from, to] of pm.bubbles ?? []) shade(from, to, "bubble");
  svg.append(s("path", { d: `${line}L${W} ${ROW}L0 ${ROW}Z`, class: "area" }), s("path", { d: line, class: "line" }));
  const part = series.partial ?? null;
  const hint = part === null ? "" : `the counters say ${part.toFixed(0)} % of the whole kernel, the sampler sees part of it: read the shape`;
  return h("div", { class: "pm-row", title: hint }, h("span", { class: "name" }, series.title, part === null ? null : h("small", {}, "in part")), svg as unknown as HTMLElement,
    h("span", { class: "num" }, part === null ? `${mean.toFixed(0)} %` : "shape"));
}

function waitRow(waits: Series[], count: number): HTMLElement {
  const svg = s("svg", { viewBox: `0 0 ${W} 100`, preserveAspectRatio: "none", class: "plot waits", role: "img", "aria-label": "what stalled warps wait for, by time" });
  const base = new Array<number>(count).fill(0);
  for (const series of waits) {
    let top = "", bottom = "";
    for (let i = 0; i < count; i++) {
      const low = base[i], high = low + (series.values[i] ?? 0);
      top += `${i ? "L" : "M"}${(i / count * W).toFixed(1)} ${(100 - high).toFixed(1)}L${((i + 1) / count * W).toFixed(1)} ${(100 - high).toFixed(1)}`;
      bottom = `L${((i + 1) / count * W).toFixed(1)} ${(100 - low).toFixed(1)}L${(i / count * W).toFixed(1)} ${(100 - low).toFixed(1)}` + bottom;
      base[i] = high;
    }
    svg.append(s("path", { d: `${top}${bottom}Z`, class: `wait w-${stallClass(series.name)}` }, s("title", {}, series.title)));
  }
  return h("div", { class: "pm-row tall" }, h("span", { class: "name" }, "stalled warps"), svg as unknown as HTMLElement, h("span", { class: "num" }));
}

function axis(us: number): HTMLElement {
  const track = h("span", { class: "axis-track" });
  const raw = us / 6;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((m) => m >= raw) ?? unit;
  for (let at = 0; at <= us * 0.97; at += step) track.append(styled(h("span", {}, time(at || 0).replace(/^0\sns$/, "0").replace(/\.0+(?=\s)/, "")), { left: `${at / us * 100}%` }));
  return h("div", { class: "pm-row axis-row", "aria-hidden": "true" }, h("span", { class: "name" }), track, h("span", { class: "num" }));
}
