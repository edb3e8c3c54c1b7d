// Roles of a warp-specialised kernel: how each spends its time.

import { h, styled } from "./dom";
import { fine, plain, time } from "./format";
import { section } from "./parts";
import type { Specialization } from "./types";

const PARTS = ["priming", "steady_issued", "covered_wait", "exposed_wait", "drain"];

export function specialization(ws: Specialization): HTMLElement {
  const list = h("ul", { class: "roles" });
  for (const role of ws.roles) {
    const stack = h("span", { class: "stack", role: "img", "aria-label": PARTS.map((p) => `${plain(p)} ${fine(role.share[p] ?? 0)}`).join(", ") });
    for (const part of PARTS) {
      const share = role.share[part] ?? 0;
      if (share > 0.002) stack.append(styled(h("span", { class: `r-${part}`, title: `${plain(part)} ${fine(share)}` },
        share > 0.07 ? fine(share) : ""), { "flex-grow": String(share) }));
    }
    list.append(h("li", {}, h("span", { class: "name" }, role.role), h("span", { class: "dim" }, `${role.warps} warps a block`), stack));
  }
  const legend = h("p", { class: "legend" });
  for (const part of PARTS) legend.append(h("span", {}, h("span", { class: `swatch r-${part}` }), plain(part)));
  const t = ws.timeline;
  const note = t ? `fill ${time(t.fill_us)}, steady ${time(t.steady_us)} at ${t.steady_utilization_pct.toFixed(0)} %, drain ${time(t.drain_us)}, `
    + `${t.bubbles} bubble${t.bubbles === 1 ? "" : "s"}; tier ${ws.tier}` : `tier ${ws.tier}`;
  return section("Warp roles", note, list, legend);
}
