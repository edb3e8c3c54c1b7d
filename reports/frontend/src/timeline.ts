// A recording of a program: verdict, suggestions, where the GPU waits, and the timeline itself to zoom and pan.

import { h, styled } from "./dom";
import { base, compact, dims, fine, short, si, time } from "./format";
import { operatorTree } from "./operators";
import { canvasTimeline } from "./tracks";
import { badge, bar, kernelLink, scrolling, section, sentence, silent, suggestions, tile } from "./parts";
import type { Page } from "./main";
import type { Data, Timeline, TimelineDetail } from "./types";

const FIRST = 12;
const MOVES: Record<string, string> = { memory: "data", compute: "math", communication: "comm" };
const LEFT_OUT = ["profiler", "one_off"];
const NOT_IDLE = ["inside_graph", "graph_not_recorded", ...LEFT_OUT];

export function timelinePage(data: Data, t: Timeline, detail: TimelineDetail | undefined): Page {
  const page = h("main", { id: "main", tabindex: -1 });
  const tracks = detail && detail.rows.length ? canvasTimeline(data, detail) : null;
  page.append(h("h1", { class: "kernel-name" }, base(t.input)), about(t), verdict(t),
    suggestions(data, t, () => null));
  if (tracks) page.append(tracks.element);
  const charts = h("div", { class: "charts" });
  const causes = idle(data, t);
  if (causes) charts.append(causes);
  charts.append(figures(t));
  const top = kernels(data, t);
  if (top) charts.append(top);
  const ranges = projected(t);
  if (ranges) charts.append(ranges);
  if (tracks && detail?.operators) charts.append(operatorTree(detail.operators, detail.names, detail.high - detail.low, (name) => tracks.show(name)));
  page.append(charts);
  if (t.coverage.notes.length) {
    const list = h("ul");
    for (const note of t.coverage.notes) list.append(h("li", {}, note));
    page.append(section("What the recording cannot tell", "", list));
  }
  page.append(silent(data, t));
  return { element: page, update: (changed) => tracks?.update(changed), key: (e) => tracks?.key(e) ?? false, close: () => tracks?.close() };
}

function about(t: Timeline): HTMLElement {
  const devices = t.devices.map((d) => `${d.name || "device"} ${d.device}`).join(", ");
  return h("p", { class: "about" }, [`window ${time(t.span_us)}, ${t.window}`, devices].filter(Boolean).join(" \u00b7 "));
}

/** Time that is the profiler's, us; 0 where it is too little to be worth a word. */
function profiled(t: Timeline): number {
  const own = t.idle.filter((i) => i.cause === "profiler").reduce((sum, i) => sum + i.us, 0);
  return own >= 0.01 * t.span_us ? own : 0;
}

/** Share of the window, less the profiler's part and what happened once as in all shares shown, in which a GPU operation runs. */
export function busy(t: Timeline): number {
  const once = t.idle.filter((i) => i.cause === "one_off").reduce((sum, i) => sum + i.us, 0);
  return t.gpu_busy_pct / 100 * t.span_us / Math.max(t.span_us - profiled(t) - once, 1e-9);
}

function plural(value: number, noun: string): string {
  const shown = Number(value.toFixed(1)).toLocaleString("en-US");
  return `${shown} ${noun}${shown === "1" ? "" : "s"}`;
}

function verdict(t: Timeline): HTMLElement {
  const regime = t.verdict?.regime ?? "none";
  const lost = t.idle.filter((i) => !NOT_IDLE.includes(i.cause)).reduce((sum, i) => sum + i.us, 0);
  const own = profiled(t);
  return h("section", { class: `verdict ${regime}`, "aria-label": "verdict" },
    h("div", { class: "say" },
      h("p", { class: "sentence" }, badge(t.verdict), " ", t.verdict ? sentence(t.verdict) : t.abstained),
      h("div", { class: "tiles" }, tile(time(t.span_us), "window", own ? `${time(own)} the profiler's` : ""), tile(fine(busy(t)), "GPU busy", own ? "without the profiler's part" : ""),
        tile(time(lost), "GPU idle"), t.steps ? tile(time(t.steps.median_us), "step", `median of ${t.steps.count}`) : null)));
}

function idle(data: Data, t: Timeline): HTMLElement | null {
  if (!t.idle.length) return null;
  const most = Math.max(...t.idle.map((i) => i.pct), 1);
  const list = h("ul", { class: "stalls causes" });
  for (const i of t.idle) {
    if (i.pct < 0.05 && !NOT_IDLE.includes(i.cause)) continue;
    list.append(h("li", {}, h("span", { class: "name" }, data.words.causes[i.cause] ?? i.cause),
      h("span", { class: "tracks" }, LEFT_OUT.includes(i.cause) ? null : h("span", { class: "track" }, styled(h("span", { class: `fill g-${i.cause}` }), { width: `${i.pct / most * 100}%` }))),
      h("span", { class: "num" }, LEFT_OUT.includes(i.cause) ? time(i.us) : `${fine(i.pct / 100)}, ${time(i.us)}`),
      i.during.length ? h("span", { class: "reason" }, `in ${i.during.join(", ")}`) : null));
  }
  return section("Why the GPU is idle", "each gap between its operations goes to one cause; share of the window less the profiler's part", list);
}

function figures(t: Timeline): HTMLElement {
  const list = h("dl", { class: "facts" });
  const fact = (name: string, value: string) => list.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
  if (t.steps) {
    fact("steps", `${t.steps.count} of ${time(t.steps.min_us)} to ${time(t.steps.max_us)} (${t.steps.name})`);
    fact("a step", `${plural(t.steps.kernels, "GPU operation")}, ${plural(t.steps.synchronizations, "synchronisation")}, GPU busy ${fine(t.steps.busy_pct / 100)}`);
  }
  if (t.launches) {
    fact("launch to start", `${time(t.launches.latency_us)} (median)`);
    fact("between launches", time(t.launches.interval_us));
    fact("queue depth", t.launches.queue_depth.toFixed(0));
    if (t.launches.queue_full_us) fact("queue full for", time(t.launches.queue_full_us));
  }
  if (t.communication) {
    const c = t.communication;
    fact("communication", `${time(c.us)}, ${time(c.overlapped_us)} beside other kernels, ${time(c.exposed_us)} exposed`
      + (c.waiting_us === null ? "" : `, ${time(c.waiting_us)} of that waiting for other ranks`));
    for (const k of c.kinds.slice(0, 6)) {
      fact(k.group ? `${k.what} on ${k.group}` : k.what, `${k.count} \u00d7${k.bytes ? ` ${si(k.bytes / Math.max(k.count, 1), "B")}` : ""}, ${time(k.us)}, ${time(k.exposed_us)} exposed`);
    }
  }
  for (const s of t.streams.slice(0, 6)) {
    const queued = s.queued_mean === null ? "" : `; ${s.queued_mean.toFixed(1)} queued on average, ${s.queued_max!.toLocaleString("en-US")} at most`;
    fact(`GPU ${s.device} stream ${s.stream}`, `${plural(s.operations, "operation")}, idle ${fine(s.idle_pct / 100)}${queued}`);
  }
  const path = t.critical;
  if (path) {
    const share = (pct: number) => fine(pct / 100), first = path.parts.find((p) => p.name);
    fact("critical path", `${time(path.us)}: ${share(path.gpu_pct)} operations, ${share(path.between_pct)} between them, ${share(path.launch_pct)} launches on their way, ${share(path.host_pct)} the host`
      + (first ? `; most in ${compact(first.name)} (${time(first.us)})` : ""));
  }
  for (const m of t.memory) {
    const held = m.holders.slice(0, 3).map((one) => `${si(one.bytes, "B")} ${one.name}`).join(", ");
    fact(`memory of GPU ${m.device}`, `${si(m.peak_bytes, "B")} at most, ${si(m.reserved_bytes, "B")} reserved, ${si(m.holes_bytes, "B")} of that in holes at the peak`
      + (held ? `; held by ${held}` : "") + (m.growth_bytes ? `; each step ends ${si(m.growth_bytes, "B")} above the one before` : ""));
  }
  for (const source of new Set(t.counters.map((c) => c.source))) {
    const mine = t.counters.filter((c) => c.source === source && c.max > 0).slice(0, 8);
    if (mine.length) fact(`sampled of ${source}`, mine.map((c) => `${c.name} ${si(c.mean, c.unit)} (to ${si(c.max, c.unit)})`).join(", "));
  }
  for (const c of t.copies) {
    fact(c.direction, `${c.count} ${c.count === 1 ? "copy" : "copies"}, ${si(c.bytes, "B")} at ${si(c.gb_per_s * 1e9, "B/s")}, ${c.pageable_pct.toFixed(0)}\u00a0% pageable, ${c.overlapped_pct.toFixed(0)}\u00a0% beside kernels`);
  }
  if (t.compiled) {
    const again = t.compiled.recompilations.length ? `, ${t.compiled.recompilations.length} of them again` : "";
    fact("torch.compile", `${plural(t.compiled.graphs_per_step, "compiled graph")} a step`
      + (t.compiled.compilations ? `; ${plural(t.compiled.compilations, "compilation")}, ${time(t.compiled.compile_us)}${again}` : ""));
  }
  return section("Figures", "", list);
}

function named(data: Data, name: string): HTMLElement | string {
  const to = counted(data, name);
  return to ? h("a", { href: to }, compact(name)) : compact(name);
}

/** What a kernel of torch.compile fuses, and the file of its source. */
function made(k: Timeline["top_kernels"][number]): HTMLElement | null {
  const fused = k.operators.length ? `fuses ${k.operators.join(", ")}` : "";
  if (!fused && !k.source) return null;
  return h("span", { class: "made" }, fused, fused && k.source ? "; " : "", k.source ? h("span", { title: k.source }, base(k.source)) : "");
}

/** The kernel of a report beside this recording, by its name. */
function counted(data: Data, name: string): string | null {
  const found = data.analysis.kernels.find((k) => k.demangled === name || k.name === name || short(k.demangled) === short(name));
  return found ? kernelLink(found.id) : null;
}

/** What the GPU did for the ranges that the user named. */
function projected(t: Timeline): HTMLElement | null {
  if (!t.ranges.length) return null;
  const body = h("tbody");
  for (const r of t.ranges) {
    const span = r.projected_us / r.count;
    body.append(h("tr", {}, h("td", { class: "num" }, r.count.toLocaleString("en-US")), h("td", { class: "num" }, time(r.host_us / r.count)),
      h("td", { class: "num" }, time(span)), h("td", { class: "num" }, time(r.gpu_us / r.count)), h("td", { class: "num" }, fine(Math.min(r.gpu_us / Math.max(r.projected_us, 1e-9), 1))),
      h("td", { class: "num" }, (r.operations / r.count).toFixed(r.operations % r.count ? 1 : 0)), h("th", { scope: "row" }, r.name)));
  }
  const head = h("thead", {}, h("tr", {}, ...["count", "host", "on the GPU", "operations\u2019 time", "busy", "operations", "range"]
    .map((text, i) => h("th", { scope: "col", class: i < 6 ? "num" : "" }, text))));
  const card = section("Ranges on the GPU", "means; on the GPU: from the first to the last operation that was issued in a range, busy: their time in that",
    scrolling(h("table", { class: "small" }, head, body), "ranges by time on the GPU"));
  card.classList.add("full", "long");
  return card;
}

/** How launches of a kernel differ, where they do. */
function spread(k: Timeline["top_kernels"][number]): HTMLElement | null {
  const s = k.spread;
  if (!s || s.max_us < 1.2 * s.min_us) return null;
  const far = s.outliers ? `, ${plural(s.outliers, "outlier")} with ${fine(s.outliers_share)} of it` : "";
  return h("span", { class: "made" }, `${time(s.min_us)} to ${time(s.max_us)}, median ${time(s.median_us)}${far}`);
}

function kernels(data: Data, t: Timeline): HTMLElement | null {
  if (!t.top_kernels.length) return null;
  const body = h("tbody");
  t.top_kernels.forEach((k, i) => {
    body.append(h("tr", { hidden: i >= FIRST }, h("td", { class: "share" }, bar(k.share, "", `${fine(k.share)} of the kernels' time`), h("span", { class: "num" }, fine(k.share))),
      h("td", { class: "num" }, time(k.total_us)), h("td", { class: "num" }, k.count.toLocaleString("en-US")), h("td", { class: "num" }, time(k.mean_us)),
      h("th", { scope: "row", title: k.name }, named(data, k.name), made(k), spread(k)), h("td", {}, MOVES[k.kind] ?? "\u2013"), h("td", {}, `${dims(k.grid)} \u00d7 ${dims(k.block)}`)));
  });
  const head = h("thead", {}, h("tr", {}, ...["share", "time", "count", "mean", "kernel", "does", "grid \u00d7 block"]
    .map((text, i) => h("th", { scope: "col", class: i > 0 && i < 4 ? "num" : "" }, text))));
  const card = section("Kernels", "by time in the window; what a kernel does is judged by its name",
    scrolling(h("table", { class: "kernels" }, head, body), "kernels by time"));
  if (t.top_kernels.length > FIRST) {
    const more = h("button", { type: "button", onclick: () => { for (const row of body.rows) row.hidden = false; more.remove(); } },
      `Show all ${t.top_kernels.length}`);
    card.append(more);
  }
  card.classList.add("full", "long");
  return card;
}
