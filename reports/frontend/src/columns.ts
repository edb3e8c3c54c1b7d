// Columns of the SASS pane that the reader chooses: what was counted at each instruction.

import { h } from "./dom";
import { fine, si, trim } from "./format";
import type { CodeModel } from "./model";

export interface Column { id: string; title: string; about: string; there: (m: CodeModel) => boolean; value: (m: CodeModel, i: number) => number; text: (m: CodeModel, i: number) => string }

const ratio = (m: CodeModel, what: string, i: number) => {
  const [moved, ideal] = [m.traffic(what, i), m.traffic(`${what}_ideal`, i)];
  return moved && ideal ? moved / ideal : 0;
};
const share = (m: CodeModel, n: number) => m.total && n >= 0.0005 * m.total ? fine(n / m.total) : "";

export const COLUMNS: Column[] = [
  { id: "blamed", title: "waited for", about: "samples that others spend waiting for this instruction", there: (m) => m.total > 0,
    value: (m, i) => m.blamed[i], text: (m, i) => share(m, m.blamed[i]) },
  { id: "executed", title: "executed", about: "warp instructions", there: (m) => m.total > 0, value: (m, i) => m.code.executed[i], text: (m, i) => m.code.executed[i] ? si(m.code.executed[i], "") : "" },
  { id: "lanes", title: "threads", about: "active lanes of 32, on average", there: (m) => m.total > 0, value: (m, i) => m.code.lanes[i], text: (m, i) => m.code.lanes[i] ? trim(m.code.lanes[i]) : "" },
  { id: "wavefronts", title: "wavefr.", about: "wavefronts at shared memory, times those of no conflict", there: (m) => m.has("wavefronts"),
    value: (m, i) => ratio(m, "wavefronts", i), text: (m, i) => ratio(m, "wavefronts", i) ? `${trim(ratio(m, "wavefronts", i), 3)}\u00d7` : "" },
  { id: "sectors", title: "sectors", about: "sectors at L2, times those of a perfect pattern", there: (m) => m.has("sectors"),
    value: (m, i) => ratio(m, "sectors", i), text: (m, i) => ratio(m, "sectors", i) ? `${trim(ratio(m, "sectors", i), 3)}\u00d7` : "" },
  { id: "live", title: "live", about: "general registers live at the instruction", there: (m) => Boolean(m.code.live?.length), value: (m, i) => m.code.live?.[i] ?? 0, text: (m, i) => String(m.code.live?.[i] ?? "") },
];

/** Columns named in the address, those that are there; the live registers where it names none. */
export function chosen(model: CodeModel, asked: string | undefined): Column[] {
  const there = COLUMNS.filter((c) => c.there(model));
  const ids = asked === undefined ? ["live"] : asked.split(".");
  return there.filter((c) => ids.includes(c.id));
}

/** The menu of columns: one check box each. */
export function menu(model: CodeModel, shown: () => string[], change: (ids: string[]) => void): HTMLElement {
  const list = h("div", { class: "column-menu" });
  for (const c of COLUMNS.filter((one) => one.there(model))) {
    const box = h("input", { type: "checkbox", checked: shown().includes(c.id), onchange: () => {
      const ids = shown().filter((id) => id !== c.id);
      change(box.checked ? [...ids, c.id] : ids);
    } });
    list.append(h("label", { title: c.about }, box, ` ${c.title}`, h("small", {}, c.about)));
  }
  const box = h("details", { class: "columns" }, h("summary", {}, "Columns"), list);
  const away = (event: Event) => { // gone with the page, as its listeners are
    if (!box.isConnected) { document.removeEventListener("pointerdown", away); return; }
    if (event.target instanceof Node && !box.contains(event.target)) box.open = false;
  };
  document.addEventListener("pointerdown", away);
  box.addEventListener("keydown", (event) => { if (event.key === "Escape") { box.open = false; box.querySelector("summary")?.focus(); } });
  return box;
}
