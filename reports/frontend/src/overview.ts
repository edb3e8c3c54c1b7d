// The first page of a report with several kernels or timelines: where the time goes.

import { h } from "./dom";
import { base, compact, fine, time, times } from "./format";
import { place } from "./kernel";
import { kernelTable, total } from "./kerneltable";
import { badge, kernelLink, scrolling, section, sentence, suggestions, type Opportunity } from "./parts";
import { link } from "./state";
import { busy } from "./timeline";
import type { Data, Job, Joined, Kernel, Place } from "./types";

export function overview(data: Data): HTMLElement {
  const { kernels, timelines, skipped } = data.analysis;
  const page = h("main", { id: "main", tabindex: -1 });
  for (const one of data.analysis.joined ?? []) page.append(...program(data, one));
  for (const one of data.analysis.jobs ?? []) page.append(...job(data, one));
  timelines.forEach((t, i) => {
    page.append(h("section", { class: `verdict ${t.verdict?.regime ?? ""}`, "aria-label": "timeline" },
      h("div", { class: "say" },
        h("p", { class: "kicker" }, `${base(t.input)}, ${time(t.span_us)}, GPU busy ${fine(busy(t))}`),
        h("p", { class: "sentence" }, badge(t.verdict), " ", t.verdict ? sentence(t.verdict) : t.abstained),
        h("p", {}, h("a", { class: "button", href: link({ t: String(i) }) }, "Open the timeline")))));
  });
  if (kernels.length) page.append(kernelTable(data, kernels, timelines.length > 0), leaders(kernels));
  if (skipped.length) {
    const list = h("ul");
    for (const skip of skipped) list.append(h("li", {}, `${skip.input}: ${skip.what}: ${skip.message}`));
    page.append(section("Not read", "", list));
  }
  if (!kernels.length && !timelines.length) page.append(section("Nothing to show", "", h("p", {}, "The input holds no kernel.")));
  return page;
}

/** The joined verdict of a recording and the kernel reports of the same program. */
function program(data: Data, joined: Joined): HTMLElement[] {
  const about = `${base(joined.input)} with ${joined.reports.map(base).join(", ")}: window ${time(joined.span_us)}, kernels run `
    + `${joined.kernels_pct.toFixed(1)} % of it less the profiler's part, ${joined.matched_pct.toFixed(0)} % of their time has counters`;
  const verdict = h("section", { class: `verdict ${joined.verdict?.regime ?? ""}`, "aria-label": "the program" },
    h("div", { class: "say" }, h("p", { class: "kicker" }, about),
      h("p", { class: "sentence" }, badge(joined.verdict), " ", joined.verdict ? sentence(joined.verdict) : joined.abstained)));
  // A suggestion of the program has the places of the kernel's own finding.
  const from = new Map<Place, Kernel>();
  const placed = (name: string | null, code: string): Place[] => {
    const kernel = name ? data.analysis.kernels.find((k) => k.demangled === name || k.name === name) : undefined;
    const places = kernel?.findings.find((f) => f.code === code)?.locations ?? [];
    return kernel ? places.map((at) => { const own = { ...at }; from.set(own, kernel); return own; }) : [];
  };
  const findings: Opportunity[] = joined.suggestions.map((s) => ({
    ...s, title: s.kernel ? `${s.title}, in ${compact(s.kernel, 48)}` : s.title, evidence: [], locations: placed(s.kernel, s.code), overlaps: [],
    remedies: [], pulls: [], first: [], order: "", roof: "", fixes: [],
    why: [s.why, s.kernel_speedup && s.share !== null ? `The kernel alone ${times(s.kernel_speedup)}; it takes ${fine(s.share)} of the window.` : ""]
      .filter(Boolean).join(" "),
  }));
  const address = (at: Place) => {
    const kernel = from.get(at);
    return kernel ? place(kernel, data.detail.kernels?.find((d) => d.id === kernel.id)?.code ?? undefined, at) : null;
  };
  return [verdict, suggestions(data, { findings }, address)];
}

/** A job of several ranks: its sentence, its suggestions, what each rank spends its time on. */
function job(data: Data, one: Job): HTMLElement[] {
  const of = one.world > one.ranks.length ? ` of ${one.world}` : "";
  const step = one.step_us === null ? "" : `, ${one.steps} steps of ${time(one.step_us)}`;
  const about = `${one.name}, ${one.ranks.length}${of} ranks, ${time(one.span_us)}${step}, ${one.matched} collectives matched`;
  const verdict = h("section", { class: `verdict ${one.verdict?.regime ?? ""}`, "aria-label": "the job" },
    h("div", { class: "say" }, h("p", { class: "kicker" }, about),
      h("p", { class: "sentence" }, badge(one.verdict), " ", one.verdict ? sentence(one.verdict) : one.abstained)));
  const body = h("tbody");
  for (const r of one.ranks) {
    const cells = [r.computing_pct, r.sending_pct, r.waiting_pct, r.copying_pct, r.idle_pct].map((pct) => fine(pct / 100));
    body.append(h("tr", {}, h("th", { scope: "row" }, `rank ${r.rank}`),
      ...[...cells, time(r.awaited_us)].map((text) => h("td", { class: "num" }, text))));
  }
  const head = h("thead", {}, h("tr", {}, ...["rank", "kernels", "sends", "waits", "copies", "idle", "others wait for it"]
    .map((text, i) => h("th", { scope: "col", class: i > 0 ? "num" : "" }, text))));
  const card = section("Ranks", "share of each rank's window; sends and waits: with no other kernel beside it",
    scrolling(h("table", { class: "kernels" }, head, body), "ranks of the job"));
  const list = h("ul");
  for (const l of one.late.slice(0, 3)) list.append(h("li", {}, `at ${l.what} in step ${l.step} the others wait ${time(l.waiting_us)} for rank ${l.late}`));
  for (const note of one.notes) list.append(h("li", {}, note));
  if (list.childElementCount) card.append(list);
  return [verdict, suggestions(data, { findings: one.findings }, () => null), card];
}

const LEADERS = 3;

/** The sentences of the kernels that take most time. */
function leaders(kernels: Kernel[]): HTMLElement {
  const list = h("div", { class: "leaders" });
  for (const k of [...kernels].sort((a, b) => total(b) - total(a)).slice(0, LEADERS)) {
    list.append(h("article", {}, h("h3", {}, h("a", { href: kernelLink(k.id) }, compact(k.demangled || k.name))),
      h("p", {}, badge(k.verdict), " ", sentence(k.verdict))));
  }
  return section("Where to begin", kernels.length > LEADERS ? `the ${LEADERS} that take the most time` : "", list);
}
