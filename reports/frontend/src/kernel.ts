// The page of one kernel: the sentence, the suggestions, then the charts that prove them.

import { h } from "./dom";
import { base, dims, fine, headroom, hex, plain, readable, short, time, times, units } from "./format";
import { memoryChart } from "./memory";
import { occupancyChart } from "./occupancy";
import { badge, bar, kernelLink, scrolling, section, sentence, silent, suggestions, tile } from "./parts";
import { pmChart } from "./pm";
import { rooflineChart } from "./roofline";
import { stallChart } from "./stalls";
import { specialization } from "./roles";
import { link } from "./state";
import type { Code, Data, Kernel, KernelDetail, Place, Said } from "./types";

export function title(k: Kernel): HTMLElement {
  const name = k.demangled || k.name;
  const bare = short(name);
  return h("h1", { class: "kernel-name" }, bare, h("span", { class: "parameters" }, readable(name).slice(bare.length)));
}

export function tabs(k: Kernel, detail: KernelDetail | undefined, active: string): HTMLElement {
  const entry = (view: string, text: string) => h("a", {
    href: kernelLink(k.id, view), class: view === active ? "on" : "", "aria-current": view === active ? "page" : null,
  }, text);
  return h("nav", { class: "tabs", "aria-label": "views of the kernel" }, entry("", "Diagnosis"),
    detail?.code ? entry("code", "Source and SASS") : null);
}

/** Address of an instruction in the code view; null where the report has no code. */
export function place(k: Kernel, code: Code | undefined, at: Place): string | null {
  return code ? link({ k: k.id, view: "code", pc: at.pc.toString(16) }) : null;
}

export function kernelPage(data: Data, k: Kernel, detail: KernelDetail | undefined): HTMLElement {
  const page = h("main", { id: "main", tabindex: -1 });
  const said = data.said?.[k.id];
  page.append(title(k), about(k, said), tabs(k, detail, ""), verdict(k, said), suggestions(data, k, (p) => place(k, detail?.code, p), said));
  const charts = h("div", { class: "charts" });
  const add = (element: HTMLElement | null) => { if (element) charts.append(element); };
  if (k.warp_specialization) {
    add(specialization(k.warp_specialization, said ?? { } as Said));
    if (detail?.pm) add(pmChart(detail.pm));
  }
  add(rooflineChart(k, detail?.roofs));
  add(stallChart(data, k));
  add(hottest(k, detail?.code, said));
  if (detail?.memory) add(memoryChart(detail.memory, k.findings, k.duration_us));
  if (!k.warp_specialization && detail?.pm) add(pmChart(detail.pm));
  if (detail?.occupancy) add(occupancyChart(detail.occupancy));
  page.append(charts);
  const theirs = nvidia(k);
  if (theirs) page.append(theirs);
  page.append(silent(data, k));
  return page;
}

function about(k: Kernel, said: Said | undefined): HTMLElement {
  const l = k.launch;
  const shared = l.shared_static + l.shared_dynamic;
  const parts = [
    `${k.device.name} (sm_${k.device.cc.replace(".", "")})`, `grid ${dims(l.grid)}`, `block ${dims(l.block)}`,
    Math.max(...l.cluster) > 1 ? `cluster ${dims(l.cluster)}` : "", `${l.registers} registers`,
    shared ? `${(shared / 1024).toPrecision(3).replace(/\.?0+$/, "")} KiB shared` : "",
    l.waves !== null ? `${l.waves.toPrecision(3)} waves` : "",
    k.nvtx.length ? `in ${k.nvtx.join(" / ")}` : "",
  ].filter(Boolean);
  const list = h("p", { class: "about" }, parts.join(" \u00b7 "));
  if (k.repeats && k.repeats.count > 1) {
    list.append(h("br"), `${units(said?.repeats ?? "")}; the one of median time is shown`);
  }
  for (const note of k.notes) list.append(h("br"), note);
  return list;
}

function verdict(k: Kernel, said: Said | undefined): HTMLElement {
  const first = k.findings.find((f) => f.severity !== "info" && f.estimate);
  const list = h("ul", { class: "units", "aria-label": "how busy the units are" });
  for (const u of k.utilization.filter((u, i) => i < 6 && u.pct >= 0.5)) {
    list.append(h("li", { title: u.metric }, h("span", { class: "name" }, u.unit),
      bar(u.pct / 100, u.pct >= 80 ? "hot" : "", `${u.unit} ${fine(u.pct / 100)} busy`), h("span", { class: "num" }, fine(u.pct / 100))));
  }
  return h("section", { class: `verdict ${k.verdict.regime}`, "aria-label": "verdict" },
    h("div", { class: "say" },
      h("p", { class: "sentence" }, badge(k.verdict), " ", sentence(k.verdict)),
      said?.next ? h("p", { class: "next" }, h("b", {}, "Next "), units(said.next)) : null,
      k.verdict.confidence < 0.6 ? h("p", { class: "dim" }, `Confidence ${(k.verdict.confidence * 100).toFixed(0)} %`) : null,
      h("div", { class: "tiles" },
        tile(time(k.duration_us), "duration"),
        k.headroom ? tile(units(said?.headroom || headroom(k.headroom.speedup_bound)), "headroom", `bounded by ${k.headroom.bounded_by}`) : null,
        first?.estimate ? tile(times(first.estimate.speedup), "first suggestion", first.code) : null)),
    list);
}

const HOTTEST = 6;

/** Where the samples fall, whose fault that is, and which finding it belongs to. */
function hottest(k: Kernel, code: Code | undefined, said: Said | undefined): HTMLElement | null {
  const shown = k.hot.slice(0, HOTTEST).filter((x) => x.share >= 0.01);
  if (!shown.length) return null;
  const list = h("ol", { class: "hottest" });
  const address = (pc: number) => code ? link({ k: k.id, view: "code", pc: pc.toString(16) }) : null;
  shown.forEach((x, i) => {
    const told = said?.hot[i];
    const at = x.line ? `${hex(x.pc)}, ${base(x.file ?? "")}:${x.line}` : hex(x.pc), to = address(x.pc);
    list.append(h("li", {}, bar(x.share, "hot", `${fine(x.share)} of samples`), h("span", { class: "num" }, fine(x.share)),
      h("span", {}, h("code", { class: "sass" }, x.sass), " ", to ? h("a", { href: to }, at) : at),
      h("span", { class: "cause" }, ...linked(told?.why ?? plain(x.stall), x.cause_pcs ?? [], address), " ",
        ...(told?.codes ?? []).map((c) => h("span", { class: `chip ${k.findings.find((f) => f.code === c)?.severity ?? "info"}` }, c)))));
  });
  const card = section("Hottest instructions", "share of all samples, and what causes the wait", list);
  card.classList.add("full");
  return card;
}

/** A sentence with the addresses that it names as links. */
function linked(text: string, pcs: number[], address: (pc: number) => string | null): (HTMLElement | string)[] {
  const out: (HTMLElement | string)[] = [];
  let rest = text;
  for (const pc of pcs) {
    const at = rest.indexOf(hex(pc)), to = address(pc);
    if (at < 0 || !to) continue;
    out.push(rest.slice(0, at), h("a", { href: to }, hex(pc)));
    rest = rest.slice(at + hex(pc).length);
  }
  return [...out, rest];
}

function nvidia(k: Kernel): HTMLElement | null {
  if (!k.nvidia.length) return null;
  const table = h("table", { class: "nvidia" });
  for (const n of [...k.nvidia].sort((a, b) => (b.speedup_pct ?? -1) - (a.speedup_pct ?? -1))) {
    table.append(h("tr", {}, h("td", { class: "num" }, n.speedup_pct !== null ? `${n.speedup_pct.toFixed(1)} %` : ""),
      h("th", { scope: "row" }, n.title || n.rule), h("td", {}, n.message)));
  }
  return h("section", { class: "card quiet", "aria-label": "rules of the profiler" },
    h("details", { class: "folded" }, h("summary", {}, `What the profiler's own rules say: ${k.nvidia.length}`),
      scrolling(table, "rules of the profiler")));
}
