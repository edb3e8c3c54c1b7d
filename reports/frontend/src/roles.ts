// Roles of a warp-specialised kernel: how each spends its time, what the unit loses, how the fixed part amortises.

import { h, styled } from "./dom";
import { fine, number, plain, si, time } from "./format";
import { scrolling, section } from "./parts";
import type { LostTime, Role, RoleShare, Specialization } from "./types";

const BLURRED = 0.03; // of a role's time: what the sampler alone may be off by before a denser one is worth a run
const SHORTEST = 32; // cycles, at interval 0
const PARTS: [keyof RoleShare, string][] = [["priming", "prologue and filling"], ["steady_issued", "issues in the steady phase"],
  ["covered_wait", "waits while the unit is busy"], ["exposed_wait", "waits while the unit is not"], ["drain", "after the last product"]];
const LOSSES: Record<string, string> = {
  fill: "filling the pipeline", drain: "draining it", uneven: "uneven work across SMs", turnover: "a new pipeline for each block",
  data: "waiting for data", epilogue: "storing results", loop: "issue and signals between products", pipe: "below the attainable rate",
};

export function specialization(ws: Specialization): HTMLElement {
  const list = h("ul", { class: "roles" });
  for (const role of ws.roles) list.append(roleRow(role));
  const legend = h("p", { class: "legend" });
  for (const [part, what] of PARTS) legend.append(h("span", { title: what }, h("span", { class: `swatch r-${part}` }), plain(part)));
  const left = h("div", {}, list, legend);
  const right = h("div", {});
  if (ws.lost) right.append(losses(ws.lost));
  if (ws.amortisation.length) right.append(amortisation(ws));
  const t = ws.timeline;
  const parts = t ? [`fill ${time(t.fill_us)}, steady ${time(t.steady_us)} at ${(t.plateau_pct ?? t.steady_utilization_pct).toFixed(0)}\u00a0%, drain ${time(t.drain_us)}`
    + (t.error_us ? ` (\u00b1 ${time(t.error_us)})` : ""), `${t.bubbles} bubble${t.bubbles === 1 ? "" : "s"}${t.bubble_us ? ` of ${time(t.bubble_us)} together` : ""}`] : [];
  if (t && !t.resolved) parts.push("too short to tell the phases apart");
  if (ws.stages) parts.push(`${ws.stages} stages${ws.stage_bytes ? ` of ${si(ws.stage_bytes / 1024, "KiB")}` : ""}`);
  parts.push(ws.tier === "C" ? "tier C: no timeline in the report, bounds are wide" : `tier ${ws.tier}: by the timeline`);
  const card = section("Warp roles", parts.join("; "), h("div", { class: "two-columns" }, left, right.childElementCount ? right : null));
  if (ws.not_advice.length) card.append(h("p", { class: "note small" }, `Not advice here, whatever the counters say: ${ws.not_advice.join(", ")}.`));
  const blur = Math.max(...ws.roles.map((r) => r.sampling_error));
  if (blur > BLURRED && (ws.sampled_every ?? 0) > SHORTEST) {
    card.append(h("p", { class: "note small" }, `One warp an SM was sampled every ${ws.sampled_every!.toLocaleString("en-US")} cycles: shares may be off by up to ${(100 * blur).toFixed(0)} points. `,
      h("code", {}, "ncu --warp-sampling-interval 0"), ` looks every ${SHORTEST} cycles.`));
  }
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
  return h("li", {}, h("span", { class: "name" }, role.role), h("span", { class: "dim" }, `${number(role.warps)} warps a block${exposed}`), stack,
    tries.length ? h("span", { class: "dim tries" }, tries.join("; ")) : null);
}

function losses(lost: LostTime): HTMLElement {
  const rows = Object.entries(lost).filter(([, v]: [string, number]) => v >= 0.001).sort((a, b) => b[1] - a[1]);
  const most = Math.max(0.02, ...rows.map(([, v]) => v));
  const list = h("ul", { class: "stalls" });
  for (const [name, share] of rows) {
    list.append(h("li", {}, h("span", { class: "name" }, LOSSES[name] ?? plain(name)), h("span", { class: "tracks", role: "img", "aria-label": `${LOSSES[name] ?? name} ${fine(share)}` },
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
