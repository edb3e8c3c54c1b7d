// Two versions side by side: what became faster, what was fixed, and whether the promises held.

import { h, styled } from "./dom";
import { base, compact, number, percent, range, si, time, times, units } from "./format";
import { badge, scrolling, section } from "./parts";
import type { Comparison, KernelPair, PairChange, TimelinePair } from "./types";

export function diffPage(c: Comparison, names: string[]): HTMLElement {
  const page = h("main", { id: "main", tabindex: -1 });
  const both = c.pairs.length;
  const whole = c.speedup ? `${faster(c.speedup)} over ${both} kernel${both === 1 ? "" : "s"} on both sides` : "";
  page.append(h("h1", { class: "kernel-name" }, "Before and after"), h("p", { class: "about" }, [whole, names.join(" \u2192 ")].filter(Boolean).join("; ")));
  const several = new Set(c.pairs.flatMap((p) => [p.before.input, p.after.input])).size > 2;
  if (both > 1) page.append(pairTable(c.pairs));
  for (const pair of c.pairs) page.append(kernelPair(pair, several));
  for (const pair of c.timelines) page.append(timelinePair(pair));
  const rest = h("ul");
  for (const [label, names] of [["only before", c.only_before], ["only after", c.only_after]] as [string, string[]][]) {
    if (names.length) rest.append(h("li", {}, `${label}: ${names.map((n) => compact(n)).join(", ")}`));
  }
  for (const note of c.notes) rest.append(h("li", {}, note));
  for (const skip of c.skipped) rest.append(h("li", {}, `not read: ${skip.input}: ${skip.what}: ${skip.message}`));
  if (rest.childElementCount) page.append(section("Left out", "", rest));
  return page;
}

/** What was measured, with the decimals that the sentence has. */
export function ratio(speedup: number): string {
  return `${speedup.toFixed(2)}\u00d7`;
}

export function faster(speedup: number): string {
  return speedup >= 1 ? `${ratio(speedup)} faster` : `${ratio(1 / speedup)} slower`;
}

function tone(speedup: number | null): string {
  return (speedup ?? 1) > 1.02 ? "good" : (speedup ?? 1) < 0.98 ? "bad" : "dim";
}

/** The two reports that a pair is from: alike or not, both are named. */
function sideOf(p: KernelPair): string {
  const [one, two] = [base(p.before.input), base(p.after.input)];
  return one === two ? p.before.input === p.after.input ? one : `${p.before.input} \u2192 ${p.after.input}` : `${one} \u2192 ${two}`;
}

function pairTable(pairs: KernelPair[]): HTMLElement {
  const sides = new Set(pairs.flatMap((p) => [p.before.input, p.after.input])).size > 2;
  const body = h("tbody");
  for (const p of pairs) {
    body.append(h("tr", {}, h("td", { class: "num" }, time(p.before.duration_us)), h("td", { class: "num" }, time(p.after.duration_us)),
      h("td", { class: `num ${tone(p.speedup)}` }, h("b", {}, p.speedup ? ratio(p.speedup) : "\u2013")),
      h("th", { scope: "row" }, compact(p.after.demangled || p.after.name)), sides ? h("td", {}, sideOf(p)) : null, h("td", {}, badge(p.before.verdict), " \u2192 ", badge(p.after.verdict)),
      h("td", {}, p.guess ? "a guess" : p.fixed.join(" "))));
  }
  const head = h("thead", {}, h("tr", {}, ...["before", "after", "speed-up", "kernel", ...(sides ? ["files"] : []), "regime", "fixed"]
    .map((t, i) => h("th", { scope: "col", class: i < 3 ? "num" : "" }, t))));
  return section(`${pairs.length} kernels`, "", scrolling(h("table", { class: "kernels" }, head, body), "kernels on both sides"));
}

function bars(before: number | null, after: number | null): HTMLElement | null {
  if (before === null || after === null) return null;
  const most = Math.max(before, after, 1e-9);
  const row = (label: string, us: number, kind: string) => h("li", {}, h("span", { class: "name" }, label),
    h("span", { class: "bar", role: "img", "aria-label": `${label} ${time(us)}` }, styled(h("span", { class: `fill ${kind}` }), { width: `${us / most * 100}%` })),
    h("span", { class: "num" }, time(us)));
  return h("ul", { class: "units pair" }, row("before", before, ""), row("after", after, after <= before ? "better" : "hot"));
}

function codes(label: string, list: string[], kind: string): HTMLElement | null {
  return list.length ? h("p", {}, h("span", { class: "dim" }, `${label} `), ...list.flatMap((code) => [h("span", { class: `chip ${kind}` }, code), " "])) : null;
}

function kernelPair(p: KernelPair, several: boolean): HTMLElement {
  const name = p.after.demangled || p.after.name, old = p.before.demangled || p.before.name;
  const card = h("section", { class: `verdict ${p.after.verdict.regime}`, "aria-label": compact(name) },
    h("div", { class: "say" }, h("h2", { class: "kernel-name" }, compact(name, 90)),
      old !== name ? h("p", { class: "dim" }, `was ${compact(old, 90)}`) : null,
      h("p", { class: `sentence ${tone(p.speedup)}` }, units(p.sentence)),
      p.against.length ? h("ul", { class: "against" }, ...p.against.map((cost) => h("li", {}, h("b", {}, "Against it "), cost))) : null,
      several ? h("p", { class: "dim" }, sideOf(p)) : null,
      paired(p) ? h("p", { class: "dim" }, `paired ${paired(p)}`) : null,
      codes("no longer", p.fixed.filter((code) => !p.promises.some((x) => x.code === code)), "fixed"), codes("new", p.new, "major"),
      codes("still there", p.remaining, "minor"), codes("cannot tell", p.unknown, "info"),
      codes("gone, but what was counted for it did not go: not credited", p.gone, "info")),
    bars(p.before.duration_us, p.after.duration_us));
  if (p.promises.length) card.append(promises(p));
  if (p.changes.length) card.append(changes(p.changes));
  if (p.next) {
    card.append(h("p", { class: "fix wide" }, h("b", {}, "Next "), `${p.next.code} ${p.next.title}`,
      p.next.estimate ? ` (${times(p.next.estimate.speedup)}, ${range(p.next.estimate.low, p.next.estimate.high, p.next.estimate.speedup)})` : ""));
  }
  return card;
}

function paired(p: KernelPair): string {
  if (p.guess) return "by a guess: --match OLD=NEW says which became which";
  return p.matched_by === "by hand" ? "by --match" : p.matched_by === "code" ? "by their code, which is alike" : "";
}

function promises(p: KernelPair | TimelinePair): HTMLElement {
  const most = Math.max(2, ...(p.promises ?? []).map((x) => Math.max(x.high, x.measured) * 1.05));
  const at = (v: number) => Math.log(Math.max(1, v)) / Math.log(most) * 100;
  const list = h("ul", { class: "promises wide" });
  for (const x of p.promises ?? []) {
    const together = x.shared_with.join(", "), range_ = `promised ${times(x.speedup)} (${range(x.low, x.high, x.speedup)})`;
    const said = x.alone ? `${range_}, measured ${ratio(x.measured)}: ${x.outcome} the bounds${together ? `, as one repair with ${together}` : ""}`
      : `${range_}; it shares the measured ${ratio(x.measured)} with ${together}`;
    list.append(h("li", {}, h("span", { class: "name" }, h("code", {}, x.code), ` ${x.rule}`),
      h("span", { class: "track", role: "img", "aria-label": said }, styled(h("span", { class: "bounds" }), { left: `${at(x.low)}%`, width: `${Math.max(0.6, at(x.high) - at(x.low))}%` }),
        styled(h("span", { class: "low" }), { left: `${at(x.speedup)}%` }), styled(h("span", { class: "measured" }), { left: `${at(x.measured)}%` })),
      h("span", {}, said)));
  }
  return list;
}

function changes(rows: PairChange[]): HTMLElement {
  const table = h("table", { class: "changes" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""),
    h("th", { scope: "col", class: "num" }, "before"), h("th", { scope: "col", class: "num" }, "after"))));
  const body = h("tbody");
  for (const row of rows) {
    body.append(h("tr", {}, h("th", { scope: "row" }, row.what), h("td", { class: "num" }, figure(row.before, row.unit)), h("td", { class: "num" }, figure(row.after, row.unit))));
  }
  table.append(body);
  return h("details", { class: "folded wide", open: rows.length <= 12 }, h("summary", {}, `Figures that moved: ${rows.length}`), scrolling(table, "figures that moved"));
}

function figure(value: number | null, unit: string): string {
  if (value === null) return "\u2013";
  if (unit === "us") return time(value);
  if (unit === "%") return percent(value / 100);
  return unit === "B" ? si(value, "B") : Math.abs(value) < 1e6 ? number(value) : si(value, "");
}

function timelinePair(p: TimelinePair): HTMLElement {
  const card = h("section", { class: `verdict ${p.after.verdict?.regime ?? ""}`, "aria-label": "recording" },
    h("div", { class: "say" }, h("h2", { class: "kernel-name" }, p.after.input), h("p", { class: `sentence ${tone(p.speedup)}` }, units(p.sentence)),
      codes("fixed", p.fixed, "fixed"), codes("new", p.new, "major"), codes("still there", p.remaining, "minor"), codes("cannot tell", p.unknown, "info")));
  if (p.promises?.length) card.append(promises(p));
  if (p.changes.length) card.append(changes(p.changes));
  for (const [what, rows] of [["operators", p.operators], ["kernels", p.kernels]] as [string, PairChange[]][]) {
    if (rows.length) card.append(moved(`GPU time a ${p.per} by ${what}, most changed first`, rows));
  }
  return card;
}

const MOVED = 15;

/** Two bars a row, of one scale: what each operator or kernel took before and takes now. */
function moved(title: string, rows: PairChange[]): HTMLElement {
  const most = Math.max(...rows.map((r) => Math.max(r.before ?? 0, r.after ?? 0)), 1e-9);
  const bar = (label: string, us: number | null, kind: string) => h("span", { class: "bar", role: "img", "aria-label": `${label} ${us === null ? "not there" : time(us)}` },
    styled(h("span", { class: `fill ${kind}` }), { width: `${(us ?? 0) / most * 100}%` }));
  const body = h("tbody");
  for (const row of rows.slice(0, MOVED)) {
    const better = (row.after ?? 0) <= (row.before ?? 0);
    body.append(h("tr", {}, h("th", { scope: "row" }, compact(row.what, 60)),
      h("td", { class: "drawn" }, bar("before", row.before, ""), bar("after", row.after, better ? "better" : "hot")),
      h("td", { class: "num" }, figure(row.before, row.unit)), h("td", { class: `num ${better ? "good" : "bad"}` }, figure(row.after, row.unit))));
  }
  const head = h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), h("th", { scope: "col" }, "before over after"),
    h("th", { scope: "col", class: "num" }, "before"), h("th", { scope: "col", class: "num" }, "after")));
  const left = rows.length > MOVED ? h("p", { class: "dim" }, `${rows.length - MOVED} that changed less are in the JSON`) : null;
  return h("details", { class: "folded wide", open: true }, h("summary", {}, title),
    scrolling(h("table", { class: "changes moved" }, head, body), title), left);
}
