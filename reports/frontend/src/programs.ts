// Machine code that nobody profiled: the functions of a binary, each with its findings and its listing.

import { CodeView } from "./code";
import { h } from "./dom";
import { base, compact, hex, units } from "./format";
import type { Page } from "./main";
import { rulePage } from "./parts";
import { go, link, state } from "./state";
import type { Data, Finding, Program } from "./types";

const GRAVE = ["info", "minor", "major", "critical"];

export function programPage(data: Data, programs: Program[]): Page {
  const every = programs.flatMap((p) => p.functions.map((f) => ({ program: p, f })));
  if (!every.length) return { element: h("main", { id: "main" }, h("p", {}, "The input holds no device code.")) };
  const worst = every.map((e) => Math.max(-1, ...e.f.findings.map((x) => GRAVE.indexOf(x.severity))));
  const asked = Number(state().fn ?? worst.indexOf(Math.max(...worst))) || 0;
  const at = Math.min(every.length - 1, Math.max(0, asked));
  const { program, f } = every[at];
  const view = new CodeView(f.findings, f.code);
  const choice = h("select", { "aria-label": "function", onchange: () => { location.hash = link({ fn: choice.value }); } });
  every.forEach((e, i) => {
    const codes = e.f.findings.map((x) => x.code).join(" ");
    choice.append(h("option", { value: i, selected: i === at }, `${compact(e.f.demangled || e.f.name, 80)}  ${e.program.arch}${codes ? `  (${codes})` : ""}`));
  });
  const facts = h("p", { class: "about" }, [base(program.input), program.arch, ...f.facts.map(([name, value]) => `${name} ${value}`)].join(" \u00b7 "));
  const element = h("main", { id: "main", tabindex: -1, class: "code-page" },
    h("div", { class: "code-head" }, h("h1", { class: "kernel-name" }, f.demangled || f.name), facts,
      every.length > 1 ? h("p", { class: "toolbar" }, choice) : null, summary(f.summary ?? []), findings(data, f.findings)),
    view.element);
  return { element, wide: true, update: (changed) => view.update(changed), key: (event) => view.key(event), close: () => view.close() };
}

/** Loops with their bounds, instruction mix and occupancy, as the text of `kscope sass --annotate` has them. */
function summary(parts: [string, string[]][]): HTMLElement | null {
  if (!parts.length) return null;
  const box = h("div", { class: "code-summary" });
  for (const [title, lines] of parts) {
    box.append(h("details", { class: "folded" }, h("summary", {}, `${title}${title === "Loops" ? ` (${lines.length})` : ""}`), h("ul", {}, ...lines.map((line) => h("li", {}, line)))));
  }
  return box;
}

function findings(data: Data, found: Finding[]): HTMLElement {
  if (!found.length) return h("p", { class: "dim" }, "No finding: no rule proves a fault from this code alone.");
  const box = h("div", { class: "code-findings" });
  for (const one of found) {
    const places = h("p", {}, "at ");
    one.locations.forEach((place) => places.append(
      h("button", { type: "button", class: "link mono", title: place.sass ?? place.opcode, onclick: () => go({ pc: place.pc.toString(16) }) }, hex(place.pc)), " "));
    box.append(h("details", { class: "folded" },
      h("summary", {}, h("span", { class: `chip ${one.severity}` }, one.code), ` ${units(one.title)}`),
      h("p", {}, units(one.why)), h("p", { class: "fix" }, h("b", {}, "Fix "), one.fix), one.locations.length ? places : null,
      data.pages[one.code] ? rulePage(one.code, data.pages[one.code]) : null));
  }
  return box;
}
