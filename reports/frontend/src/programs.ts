// Machine code that nobody profiled: the functions of a binary, each with its listing.

import { CodeView } from "./code";
import { h } from "./dom";
import { base, compact } from "./format";
import type { Page } from "./main";
import { link, state } from "./state";
import type { Program } from "./types";

export function programPage(programs: Program[]): Page {
  const every = programs.flatMap((p) => p.functions.map((f) => ({ program: p, f })));
  const at = Math.min(every.length - 1, Math.max(0, Number(state().fn ?? 0) || 0));
  if (!every.length) return { element: h("main", { id: "main" }, h("p", {}, "The input holds no device code.")) };
  const { program, f } = every[at];
  const view = new CodeView(f.findings, f.code);
  const choice = h("select", { "aria-label": "function", onchange: () => { location.hash = link({ fn: choice.value }); } });
  every.forEach((e, i) => choice.append(h("option", { value: i, selected: i === at }, `${compact(e.f.demangled || e.f.name, 80)}  ${e.program.arch}`)));
  const facts = h("p", { class: "about" }, [base(program.input), program.arch, ...f.facts.map(([name, value]) => `${name} ${value}`)].join(" \u00b7 "));
  const element = h("main", { id: "main", tabindex: -1, class: "code-page" },
    h("div", { class: "code-head" }, h("h1", { class: "kernel-name" }, f.demangled || f.name), facts, every.length > 1 ? h("p", { class: "toolbar" }, choice) : null),
    view.element);
  return { element, wide: true, update: (changed) => view.update(changed), key: (event) => view.key(event), close: () => view.close() };
}
