// The table of kernels: sorted by any column, searched, filtered by regime, with totals of what is shown.

import { clear, h } from "./dom";
import { base, compact, fine, headroom, time, times } from "./format";
import { badge, bar, kernelLink, scrolling, section } from "./parts";
import { go, state } from "./state";
import type { Data, Kernel } from "./types";

export const total = (k: Kernel) => k.repeats?.total_us ?? k.duration_us ?? 0;

interface Column { id: string; title: string; number?: boolean; key: (k: Kernel) => number | string; cell: (k: Kernel, whole: number) => HTMLElement }
const SEARCHED = 5; // kernels from which searching pays

function columns(data: Data, files: boolean): Column[] {
  const first = (k: Kernel) => k.findings.find((f) => f.severity !== "info");
  const td = (text: string, number = false) => h("td", { class: number ? "num" : "" }, text);
  const all: (Column | null)[] = [
    { id: "share", title: "share", key: total, cell: (k, whole) => h("td", { class: "share" }, bar(total(k) / whole, k.verdict.regime, `${fine(total(k) / whole)} of the time`), h("span", { class: "num" }, fine(total(k) / whole))) },
    { id: "time", title: "time", number: true, key: total, cell: (k) => td(time(total(k)), true) },
    { id: "each", title: "each", number: true, key: (k) => k.duration_us ?? 0, cell: (k) => td(time(k.duration_us), true) },
    { id: "count", title: "launches", number: true, key: (k) => k.repeats?.count ?? 1, cell: (k) => td((k.repeats?.count ?? 1).toLocaleString("en-US"), true) },
    { id: "kernel", title: "kernel", key: (k) => (k.demangled || k.name).toLowerCase(), cell: (k) => h("th", { scope: "row" }, h("a", { href: kernelLink(k.id), title: k.demangled }, compact(k.demangled || k.name))) },
    files ? { id: "file", title: "file", key: (k) => base(k.input), cell: (k) => h("td", { title: k.input }, base(k.input)) } : null,
    { id: "regime", title: "regime", key: (k) => k.verdict.regime, cell: (k) => h("td", {}, badge(k.verdict)) },
    { id: "limiter", title: "limiter", key: (k) => data.words.limiters[k.verdict.limiter] ?? k.verdict.limiter, cell: (k) => td(data.words.limiters[k.verdict.limiter] ?? k.verdict.limiter) },
    { id: "headroom", title: "headroom", number: true, key: (k) => k.headroom?.speedup_bound ?? 0, cell: (k) => td(k.headroom ? headroom(k.headroom.speedup_bound) : "\u2013", true) },
    { id: "first", title: "first suggestion", key: (k) => first(k)?.estimate?.speedup ?? 1, cell: (k) => { const f = first(k); return h("td", {}, f ? h("span", {}, h("code", {}, f.code), " ", f.rule, f.estimate ? h("b", {}, ` ${times(f.estimate.speedup)}`) : null) : h("span", { class: "dim" }, "none")); } },
  ];
  const repeated = data.analysis.kernels.some((k) => (k.repeats?.count ?? 1) > 1);
  return all.filter((c): c is Column => c !== null && (repeated || !["each", "count"].includes(c.id)));
}

export function kernelTable(data: Data, kernels: Kernel[], beside: boolean): HTMLElement {
  const whole = kernels.reduce((sum, k) => sum + total(k), 0) || 1;
  const files = new Set(kernels.map((k) => k.input)).size > 1;
  const shown = columns(data, files), body = h("tbody"), foot = h("tfoot"), head = h("tr");
  let sort = state().ks ?? "share", needle = state().kq ?? "", regime = state().kr ?? "";
  const matches = (k: Kernel) => (!regime || k.verdict.regime === regime)
    && `${k.demangled} ${k.name} ${k.input} ${k.findings.map((f) => `${f.code} ${f.rule}`).join(" ")}`.toLowerCase().includes(needle.toLowerCase());
  const draw = () => {
    const [id, up] = sort.startsWith("-") ? [sort.slice(1), true] : [sort, false];
    const column = shown.find((c) => c.id === id) ?? shown[0];
    const order = (a: Kernel, b: Kernel) => { const [x, y] = [column.key(a), column.key(b)]; return typeof x === "string" ? x.localeCompare(String(y)) : Number(y) - Number(x); };
    const rows = kernels.filter(matches).sort((a, b) => (up ? -1 : 1) * order(a, b) || total(b) - total(a));
    clear(body); clear(foot); clear(head);
    for (const c of shown) {
      const direction = c.id !== column.id ? "none" : (typeof c.key(kernels[0]) === "string") !== up ? "ascending" : "descending";
      head.append(h("th", { scope: "col", class: `c-${c.id}${c.number ? " num" : ""}`, "aria-sort": direction }, h("button", { type: "button", class: "sort", onclick: () => { sort = c.id === id && !up ? `-${c.id}` : c.id; keep(); } }, c.title)));
    }
    for (const k of rows) body.append(h("tr", {}, ...shown.map((c) => { const cell = c.cell(k, whole); cell.classList.add(`c-${c.id}`); return cell; })));
    const sum = rows.reduce((all, k) => all + total(k), 0), launches = rows.reduce((all, k) => all + (k.repeats?.count ?? 1), 0);
    const says = `${rows.length === kernels.length ? "all" : `${rows.length} of`} ${kernels.length} kernels, ${launches.toLocaleString("en-US")} launches`;
    foot.append(h("tr", { class: "totals" }, h("td", { class: "share" }, h("span", { class: "num" }, fine(sum / whole))), h("td", { class: "num" }, time(sum)), h("td", { colspan: shown.length - 2 }, says)));
  };
  const keep = () => { draw(); go({ ks: sort === "share" ? "" : sort, kq: needle, kr: regime }); };
  const search = h("input", { type: "search", placeholder: "name, file or rule", "aria-label": "search the kernels", value: needle, oninput: () => { needle = search.value; keep(); } });
  const choice = h("select", { "aria-label": "regime", onchange: () => { regime = choice.value; keep(); } });
  for (const one of ["", ...new Set(kernels.map((k) => k.verdict.regime))]) choice.append(h("option", { value: one, selected: one === regime }, one ? `${one}-bound` : "all regimes"));
  draw();
  const devices = [...new Set(kernels.map((k) => `${k.device.name} (sm_${k.device.cc.replace(".", "")})`))].join(" and ");
  const title = beside ? "Kernels" : `${kernels.length} kernels, ${time(whole)}`;
  const tools = kernels.length >= SEARCHED || needle || regime ? h("p", { class: "toolbar" }, search, choice) : null;
  const card = section(title, `on ${devices}`, tools, scrolling(h("table", { class: "kernels" }, h("thead", {}, head), body, foot), "kernels by time"));
  card.classList.add("long");
  return card;
}
