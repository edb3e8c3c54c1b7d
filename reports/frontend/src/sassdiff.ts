// The machine code of two binaries side by side: what moved in figures and findings, then the lines that differ.

import { h } from "./dom";
import { compact, hex, number, units } from "./format";
import { rulePage, scrolling, section } from "./parts";
import type { Data, FunctionDiff, PairChange, SassComparison, SassLine } from "./types";

const MARKS: Record<string, string> = { same: "\u00a0", changed: "~", removed: "\u2212", added: "+" };
const WORDS: Record<string, string> = { same: "unchanged", changed: "changed", removed: "removed", added: "added" };

export function sassDiffPage(data: Data, c: SassComparison, names: string[]): HTMLElement {
  const page = h("main", { id: "main", tabindex: -1 });
  const different = c.functions.filter((f) => !f.identical), same = c.functions.filter((f) => f.identical);
  const count = (n: number, what: string) => `${n.toLocaleString("en-US")} function${n === 1 ? "" : "s"} ${what}`;
  page.append(h("h1", { class: "kernel-name" }, "Machine code, before and after"),
    h("p", { class: "about" }, [names.join(" \u2192 "), count(different.length, different.length === 1 ? "differs" : "differ"),
      same.length ? count(same.length, "the same, registers and addresses renamed") : ""].filter(Boolean).join(" \u00b7 ")));
  if (different.length > 1) page.append(table(different));
  different.forEach((f, i) => page.append(card(data, f, i)));
  if (!c.functions.length) page.append(section("Nothing to compare", "", h("p", {}, "No function of one side has a partner on the other.")));
  const rest = h("ul");
  const lists: [string, string[]][] = [["the same", same.map((f) => f.demangled)], ["only before", c.only_before], ["only after", c.only_after]];
  for (const [label, list] of lists) if (list.length) rest.append(h("li", {}, `${label}: ${list.map((n) => compact(n)).join(", ")}`));
  for (const one of c.added) if (one.findings.length) rest.append(h("li", {}, `new in ${compact(one.demangled)}: ${one.findings.map((x) => x.code).join(", ")}`));
  for (const note of c.notes) rest.append(h("li", {}, note));
  if (rest.childElementCount) page.append(section("Not shown", "", rest));
  return page;
}

function table(functions: FunctionDiff[]): HTMLElement {
  const body = h("tbody");
  const told = functions.some((f) => f.fixed.length || f.new.length);
  functions.forEach((f, i) => {
    const open = () => { const one = document.getElementById(`f${i}`); one?.scrollIntoView(); };
    body.append(h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: open }, compact(f.demangled))),
      ...[f.removed, f.added, f.changed, f.same].map((n) => h("td", { class: "num" }, n.toLocaleString("en-US"))),
      told ? h("td", {}, ...chips(f.fixed, "fixed")) : null, told ? h("td", {}, ...chips(f.new.map((x) => x.code), "major")) : null));
  });
  const head = h("thead", {}, h("tr", {}, ...["function", "removed", "added", "changed", "same", ...told ? ["fixed", "new"] : []]
    .map((t, i) => h("th", { scope: "col", class: i > 0 && i < 5 ? "num" : "" }, t))));
  return section("Functions that differ", "instructions, registers and addresses renamed",
    scrolling(h("table", { class: "kernels" }, head, body), "functions that differ"));
}

function chips(codes: string[], kind: string): (Node | string)[] {
  return codes.flatMap((code) => [h("span", { class: `chip ${kind}` }, code), " "]);
}

function card(data: Data, f: FunctionDiff, index: number): HTMLElement {
  const counts = `${f.removed} removed, ${f.added} added, ${f.changed} changed, ${f.same} the same`;
  const arches = f.arch_before === f.arch_after ? f.arch_after : `${f.arch_before} \u2192 ${f.arch_after}`;
  const box = section(compact(f.demangled, 100), `${arches} \u00b7 ${counts}`);
  box.classList.add("long", "sass-diff");
  box.id = `f${index}`;
  if (f.before !== f.after) box.append(h("p", { class: "dim" }, `was ${f.before}`));
  if (f.matched_by === "elimination") box.append(h("p", { class: "dim" }, "These two alone were left: that they are one function is a guess; --match OLD=NEW says it."));
  const list = h("dl", { class: "facts" });
  const groups: [string, PairChange[]][] = [["figures", f.figures], ["mix by pipe", f.mix], ["memory accesses", f.accesses]];
  for (const [label, changes] of groups) {
    if (changes.length) list.append(h("div", {}, h("dt", {}, label), h("dd", {}, changes.map(moved).join(", "))));
  }
  if (f.fixed.length) list.append(h("div", {}, h("dt", {}, "fixed"), h("dd", {}, ...chips(f.fixed, "fixed"))));
  if (f.remaining.length) list.append(h("div", {}, h("dt", {}, "still there"), h("dd", {}, ...chips(f.remaining, "minor"))));
  box.append(list);
  for (const one of f.new) {
    box.append(h("div", { class: "new-finding" }, h("p", {}, ...chips([one.code], one.severity), h("b", {}, `new: ${units(one.title)}`)),
      h("p", {}, units(one.why)), h("p", { class: "fix" }, h("b", {}, "Fix "), one.fix), data.pages[one.code] ? rulePage(one.code, data.pages[one.code]) : null));
  }
  const lines = f.hunks.reduce((sum, hunk) => sum + hunk.length, 0);
  if (lines) box.append(listing(f, lines, index === 0));
  return box;
}

function moved(c: PairChange): string {
  return `${c.what} ${number(c.before)} \u2192 ${number(c.after)}`;
}

/** The lines are made when they are looked at: a library has more of them than a page should hold at once. */
function listing(f: FunctionDiff, lines: number, open: boolean): HTMLElement {
  const box = h("details", { class: "folded lines", open }, h("summary", {}, `Lines: ${lines.toLocaleString("en-US")}`));
  const fill = () => {
    if (!box.open || box.childElementCount > 1) return;
    const pre = h("div", { class: "diff-lines", role: "region", tabindex: 0, "aria-label": `lines of ${compact(f.demangled, 60)}` });
    f.hunks.forEach((hunk, i) => {
      if (i) pre.append(h("div", { class: "gap", "aria-hidden": "true" }, "\u22ef"));
      for (const line of hunk) pre.append(...row(line));
    });
    box.append(pre);
  };
  box.addEventListener("toggle", fill);
  fill();
  return box;
}

function row(line: SassLine): HTMLElement[] {
  const at = (pc: number | null) => h("span", { class: "pc" }, pc === null ? "" : hex(pc));
  const make = (kind: string, before: number | null, after: number | null, text: string) => h("div", { class: `line ${kind}` },
    at(before), at(after), h("span", { class: "mark", "aria-hidden": "true" }, MARKS[kind]), h("span", { class: "sr" }, `${WORDS[kind]}: `), h("code", {}, text));
  if (line.kind === "changed" && line.before !== line.after) {
    return [make("removed", line.before_pc, null, line.before ?? ""), make("added", null, line.after_pc, line.after ?? "")];
  }
  return [make(line.kind, line.before_pc, line.after_pc, line.after ?? line.before ?? "")];
}
