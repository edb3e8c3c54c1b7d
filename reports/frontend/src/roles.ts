// Roles of a warp-specialised kernel: how each spends its time, what the unit loses, how the fixed part amortises.

import { h, styled } from "./dom";
import { fine, number, plain, time } from "./format";
import { scrolling, section } from "./parts";
import type { LostTime, Role, RoleShare, Said, Specialization } from "./types";

const PARTS: [keyof RoleShare, string][] = [["priming", "prologue and filling"], ["steady_issued", "issues in the steady phase"],
  ["covered_wait", "waits while the unit is busy"], ["exposed_wait", "waits while the unit is not"], ["drain", "after the last product"]];
export function specialization(ws: Specialization, said: Said): HTMLElement {
  const list = h("ul", { class: "roles" });
  for (const role of ws.roles) list.append(roleRow(role));
  const legend = h("p", { class: "legend" });
  for (const [part, what] of PARTS) legend.append(h("span", { title: what }, h("span", { class: `swatch r-${part}` }), plain(part)));
  const left = h("div", {}, list, legend);
  const right = h("div", {});
  if (ws.lost) right.append(losses(ws.lost, said.losses ?? {}));
  if (ws.amortisation.length) right.append(amortisation(ws));
  const t = ws.timeline;
  const parts = t ? [`fill ${time(t.fill_us)}, steady ${time(t.steady_us)} at ${(t.plateau_pct ?? t.steady_utilization_pct).toFixed(0)}\u00a0%, drain ${time(t.drain_us)}`
    + (t.error_us ? ` (\u00b1 ${time(t.error_us)})` : ""), `${t.bubbles} bubble${t.bubbles === 1 ? "" : "s"}${t.bubble_us ? ` of ${time(t.bubble_us)} together` : ""}`] : [];
  if (t && !t.resolved) parts.push("too short to tell the phases apart");
  if (said.ring) parts.push(said.ring);
  if (said.source) parts.push(said.source);
  const card = section("Warp roles", parts.join("; "), h("div", { class: "two-columns" }, left, right.childElementCount ? right : null));
  if (ws.not_advice.length) card.append(h("p", { class: "note small" }, `Not advice here, whatever the counters say: ${ws.not_advice.join(", ")}.`));
  if (said.sampling) card.append(h("p", { class: "note small" }, said.sampling));
  card.classList.add("full");
  return card;
}

function roleRow(role: Role): HTMLElement {
  const said = PARTS.map(([p]) => `${plain(p)} ${fine(role.share[p] ?? 0)}`).join(", ");
  const stack = h("span", { class: "stack", role: "img", "aria-label": `${role.role}: ${said}` });
  for (const [part, what] of PARTS) {
    const share = role.share[part] ?? 0;
    const bounds = role.low && role.high ? ` (${fine(role.low[part] ?? 0)} to ${fine(role.high[part] ?? 0)})` : "";
    if (share > 0.002) stack.append(styled(h("span", { class: `r-${part}`, title: `${what}: ${fine(share)}${bounds}` },
      share > 0.06 ? fine(share) : ""), { "flex-grow": String(share) }));
  }
  const exposed = role.low && role.high ? `, exposed wait ${fine(role.low.exposed_wait ?? 0)} to ${fine(role.high.exposed_wait ?? 0)}` : "";
  const tries = role.retries.filter((r) => r.made > 0)
    .map((r) => `waits for ${r.waits_for === "memory" ? "data" : role.role === "producer" ? "free slots" : "others"}: ${number(r.failed)} of ${number(r.made)} not over at the first try (${fine(r.failed / r.made)})`);
  return h("li", {}, h("span", { class: "name" }, role.role), h("span", { class: "dim" }, `${number(role.warps)} warp${role.warps === 1 ? "" : "s"} a block${exposed}`), stack,
    tries.length ? h("span", { class: "dim tries" }, tries.join("; ")) : null);
}

function losses(lost: LostTime, names: Record<string, string>): HTMLElement {
  const rows = Object.entries(lost).filter(([, v]: [string, number]) => v >= 0.001).sort((a, b) => b[1] - a[1]);
  const most = 1; // like every other bar of the page
  const list = h("ul", { class: "stalls" });
  for (const [name, share] of rows) {
    list.append(h("li", {}, h("span", { class: "name" }, names[name] ?? plain(name)), h("span", { class: "tracks", role: "img", "aria-label": `${names[name] ?? name} ${fine(share)}` },
      h("span", { class: "track" }, styled(h("span", { class: "fill r-exposed_wait" }), { width: `${share / most * 100}%` }))),
      h("span", { class: "num" }, fine(share))));
  }
  return h("div", { class: "losses" }, h("h3", {}, "What the unit loses, of the kernel's time"), list);
}

function amortisation(ws: Specialization): HTMLElement {
  const body = h("tbody");
  for (const row of ws.amortisation) {
    body.append(h("tr", {}, h("th", { scope: "row" }, row.work === 1 ? "as it is" : `${row.work}\u00d7 the work`), h("td", { class: "num" }, time(row.us)), h("td", { class: "num" }, `${row.fixed_pct.toFixed(1)}\u00a0% fixed`)));
  }
  return h("div", { class: "losses" }, h("h3", {}, "How the fixed part amortises"), scrolling(h("table", { class: "small" }, body), "amortisation"));
}
