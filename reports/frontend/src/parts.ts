// Pieces that kernel pages and timeline pages share: verdict, suggestions, what was silent.

import { changes, toldAt } from "./changes";
import { h, styled } from "./dom";
import { base, hex, number, percent, range, times, units } from "./format";
import { markdown } from "./markdown";
import type { Fix } from "./schema";
import { link } from "./state";
import type { Data, Finding, Kernel, Place, Said, Timeline, Verdict } from "./types";

export function badge(verdict: { regime: string } | null): HTMLElement {
  if (!verdict) return h("span", { class: "badge none" }, "no verdict");
  const known = verdict.regime !== "unknown";
  return h("span", { class: `badge ${verdict.regime}` }, known ? `${verdict.regime}-bound` : "limit unknown");
}

/** The sentence behind its regime, which stands before it as a badge. */
export function sentence(verdict: Verdict): string {
  return units(verdict.body || verdict.sentence);
}

export function tile(value: string, label: string, note = ""): HTMLElement {
  return h("div", { class: "tile" }, h("span", { class: "value" }, value), h("span", { class: "label" }, label),
    note ? h("span", { class: "note" }, note) : null);
}

export function bar(share: number, kind: string, label: string): HTMLElement {
  const inner = styled(h("span", { class: `fill ${kind}` }), { width: `${Math.max(0, Math.min(1, share)) * 100}%` });
  return h("span", { class: "bar", role: "img", "aria-label": label }, inner);
}

export function section(title: string, note: string, ...children: (Node | null)[]): HTMLElement {
  const id = "s-" + title.toLowerCase().replace(/[^a-z]+/g, "-");
  return h("section", { class: "card", "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), note ? h("p", { class: "note" }, note) : null), ...children);
}

/** What a suggestion shows of a finding: one of a whole program has no regime of its own. */
export type Opportunity = Omit<Finding, "regime" | "covered" | "covered_share" | "fixes">
  & Partial<Pick<Finding, "covered" | "covered_share">> & { fixes?: Fix[] };

/** Findings as Lighthouse shows opportunities. `codeLink` gives the address of a place in the code view. */
export function suggestions(
  data: Data, subject: { findings: Opportunity[]; passed?: string[]; not_applicable?: unknown[] }, codeLink: ((place: Place) => string | null), said?: Said,
): HTMLElement {
  const ranked = subject.findings.filter((f) => f.severity !== "info");
  const info = subject.findings.filter((f) => f.severity === "info");
  const most = Math.max(2, ...subject.findings.map((f) => f.estimate?.high ?? 1));
  const body = h("div", { class: "opportunities" });
  const blind = subject.not_applicable?.length && !subject.passed?.length && !subject.findings.length;
  if (!ranked.length) body.append(h("p", { class: "good" }, `No suggestion: ${said?.nothing ?? (blind ? "no rule had what it needs" : "no rule found a fault worth 3 % or more")}.`));
  const told = toldAt(ranked);
  ranked.forEach((f, i) => body.append(opportunity(data, f, i + 1, most, codeLink, told, i === 0, said)));
  if (info.length) {
    const folded = h("details", { class: "folded" }, h("summary", {}, `${info.length} minor or for information`));
    for (const f of info) folded.append(opportunity(data, f, null, most, codeLink, new Map(), false, said));
    body.append(folded);
  }
  const title = "What to try next";
  const note = ranked.length ? "Expected speed-up if only this were fixed; gains of several do not add up." + (said?.order ? ` Order: ${units(said.order)}.` : "") : "";
  const estimated = ranked.some((f) => f.estimate);
  const legend = estimated ? h("p", { class: "legend gain-legend" }, h("span", {}, h("span", { class: "swatch expected" }), "expected"),
    h("span", {}, h("span", { class: "swatch reach" }), "at most"), h("span", {}, h("span", { class: "swatch least" }), "at least")) : null;
  const card = section(title, note, estimated ? gainScale(most) : null, body, legend);
  card.classList.add("long");
  return card;
}

const position = (speedup: number, most: number) => Math.log(Math.max(1, speedup)) / Math.log(most);

function gainScale(most: number): HTMLElement {
  const marks = [1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100, 500].filter((m) => m <= most * 1.001);
  const scale = h("div", { class: "gain-scale", "aria-hidden": "true" });
  let last = -1;
  for (const mark of marks) {
    const at = position(mark, most);
    if (at - last < 0.13 && mark !== 1) continue;
    last = at;
    scale.append(styled(h("span", {}, `${mark}\u00d7`), { left: `${at * 100}%` }));
  }
  return h("div", { class: "scale-row" }, scale);
}

function opportunity(
  data: Data, f: Opportunity, rank: number | null, most: number, codeLink: (place: Place) => string | null,
  told: Map<string, string>, open: boolean, said?: Said,
): HTMLElement {
  const estimate = f.estimate;
  const gain = h("span", { class: "gain" });
  if (estimate) {
    const text = `${times(estimate.speedup)}, between ${range(estimate.low, estimate.high, estimate.speedup)}`;
    const track = h("span", { class: "track", role: "img", "aria-label": `expected ${text}` });
    const [low, point, high] = [estimate.low, estimate.speedup, estimate.high].map((v) => position(v, most) * 100);
    track.append(
      styled(h("span", { class: `bounds ${f.severity}` }), { left: `${low}%`, width: `${Math.max(0.6, high - low)}%` }),
      styled(h("span", { class: `point ${f.severity}` }), { width: `${Math.max(0.6, point)}%` }),
      low > 1 && low < point - 1 ? styled(h("span", { class: "low" }), { left: `${low}%` }) : "",
    );
    gain.append(track, h("span", { class: "figure" }, h("b", {}, times(estimate.speedup)),
      h("small", {}, range(estimate.low, estimate.high, estimate.speedup))));
  } else {
    gain.append(h("span", { class: "figure" }, h("small", {}, "gain not estimated")));
  }
  const summary = h("summary", {},
    h("span", { class: `rank ${f.severity}`, title: `severity: ${f.severity}` }, rank ? String(rank) : "\u2013"),
    h("span", { class: "what" }, h("span", { class: "title" }, units(f.title)),
      h("span", { class: "rule" }, h("code", {}, f.code), " ", f.rule, h("span", { class: "sr" }, `, severity ${f.severity}`))),
    gain);
  const item = h("details", { class: "opportunity", open, "data-code": f.code }, summary);
  const body = h("div", { class: "body" });
  if (f.why) body.append(h("p", { class: "why" }, units(f.why)));
  if (f.fix) body.append(h("p", { class: "fix" }, h("b", {}, "Fix "), f.fix));
  if (f.remedies.length) {
    body.append(h("ul", { class: "remedies", "aria-label": "other ways" }, ...f.remedies.map((r) => h("li", {},
      h("b", {}, r.applies ? "Or " : "Not "), r.step, r.applies && r.estimate ? `, ${times(r.estimate.speedup)}` : "",
      r.why ? `: ${r.why}` : ""))));
  }
  if (f.order) body.append(h("p", { class: "cap" }, h("b", {}, "Order "), f.order));
  if (f.fixes?.length) body.append(changes(f.fixes, told, `${rank} (${f.code})`));
  if (estimate) {
    const kind = estimate.kind === "measured" ? "Measured" : "Modelled";
    body.append(h("p", { class: "cap" }, `${kind}; capped by ${estimate.capped_by}. Confidence ${percent(f.confidence)}.`,
      f.overlaps.length ? ` Explains the same samples or waits as ${f.overlaps.join(", ")}: the gains do not add.` : ""));
  }
  if (f.locations.length) body.append(places(f.locations, codeLink, said?.further[f.code] ?? ""));
  if (f.evidence.length) body.append(evidence(f));
  const page = data.pages[f.code];
  if (page) body.append(rulePage(f.code, page));
  item.append(body);
  return item;
}

/** A wait for a load is sampled where its result is read: both shares, where they differ. */
function waited(share: number, sampled: number | undefined): string {
  const text = `waited for by ${percent(share)}`;
  return sampled === undefined || percent(sampled) === percent(share) ? text : `${text} (${percent(sampled)} sampled here)`;
}

function places(locations: Place[], codeLink: (place: Place) => string | null, further: string): HTMLElement {
  const list = h("ul", { class: "places", "aria-label": "places" });
  for (const place of locations) {
    const line = place.file && place.line ? `${base(place.file)}:${place.line}` : `pc ${hex(place.pc)}`;
    const own = place.own;
    const where = own === undefined ? line : `${line} (${own.near ? "near " : ""}${base(own.file)}:${own.line})`;
    const target = codeLink(place);
    list.append(h("li", {},
      target ? h("a", { href: target, class: "where", title: place.file ?? "" }, where) : h("span", { class: "where" }, where),
      h("code", { class: "sass" }, place.sass ?? place.opcode),
      place.share !== null ? h("span", { class: "share" }, waited(place.share, place.sampled)) : null,
      place.source ? h("code", { class: "source" }, place.source) : null));
  }
  if (further) list.append(h("li", { class: "further" }, further));
  return list;
}

function evidence(f: Opportunity): HTMLElement {
  const table = h("table", { class: "evidence" });
  for (const e of f.evidence) {
    const unit = e.unit ? ` ${e.unit}` : "";
    const value = e.unit === "" && typeof e.value === "number" && /share/.test(e.note + e.metric) ? percent(e.value)
      : number(e.value) + unit;
    table.append(h("tr", {}, h("th", { scope: "row" }, h("code", {}, e.metric)), h("td", { class: "num" }, value),
      h("td", { class: "note" }, e.note)));
  }
  return h("details", { class: "proof" }, h("summary", {}, `Evidence (${f.evidence.length})`), scrolling(table, "Evidence"));
}

export function scrolling(table: HTMLElement, label: string): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
}

export function rulePage(code: string, page: string): HTMLElement {
  const holder = h("details", { class: "proof page" }, h("summary", {}, `About ${code}`));
  holder.addEventListener("toggle", () => {
    if (holder.open && holder.childElementCount === 1) holder.append(markdown(page.replace(/^# .*\n+/, "")));
  });
  return holder;
}

/** What passed, what could not be judged, what failed: folded. */
export function silent(data: Data, subject: Kernel | Timeline): HTMLElement {
  const box = h("section", { class: "card quiet", "aria-label": "rules without a finding" });
  const title = (code: string) => (data.pages[code] ?? "").match(/^# \S+ (\S+)/)?.[1] ?? "";
  const rule = (code: string) => {
    const page = data.pages[code];
    return page ? rulePageInline(code, title(code), page) : h("span", {}, code);
  };
  if (subject.passed.length) {
    const list = h("ul", { class: "rules" });
    for (const code of subject.passed) list.append(h("li", {}, rule(code)));
    box.append(h("details", { class: "folded" }, h("summary", {}, `Passed: ${subject.passed.length} rules`), list));
  }
  if (subject.not_applicable.length) {
    const list = h("ul", { class: "rules wide" });
    for (const n of subject.not_applicable) list.append(h("li", {}, rule(n.code), h("p", {}, n.why)));
    box.append(h("details", { class: "folded" },
      h("summary", {}, `Not applicable: ${subject.not_applicable.length} rules`), list));
  }
  for (const error of subject.errors) {
    box.append(h("p", { class: "error" }, h("code", {}, error.code), ` failed: ${error.message}`));
  }
  return box;
}

function rulePageInline(code: string, title: string, page: string): HTMLElement {
  const holder = h("details", { class: "rule-inline" }, h("summary", {}, h("code", {}, code), ` ${title}`));
  holder.addEventListener("toggle", () => {
    if (holder.open && holder.childElementCount === 1) holder.append(markdown(page.replace(/^# .*\n+/, "")));
  });
  return holder;
}

export function kernelLink(id: string, view = ""): string {
  return link({ k: id, ...(view ? { view } : {}) });
}
