// What warps wait for: raw shares beside those adjusted for waits that asynchronous work covers.

import { stallClass } from "./code";
import { h, styled } from "./dom";
import { fine, plain } from "./format";
import { section } from "./parts";
import type { Data, Kernel } from "./types";

export function stallChart(data: Data, k: Kernel): HTMLElement | null {
  const shown = k.stalls.filter((x) => Math.max(x.share_raw, x.share_adjusted) >= 0.004);
  if (!shown.length) return null;
  const adjusted = shown.some((x) => Math.abs(x.share_raw - x.share_adjusted) > 0.0005);
  const most = 1; // like every other bar of the page
  const list = h("ul", { class: "stalls" });
  for (const x of [...shown].sort((a, b) => (adjusted ? b.share_adjusted - a.share_adjusted : 0) || b.share_raw - a.share_raw)) {
    const track = (share: number, kind: string, low?: number, high?: number) => {
      const t = h("span", { class: `track ${kind}` }, styled(h("span", { class: `fill w-${stallClass(x.reason)}` }), { width: `${share / most * 100}%` }));
      if (low !== undefined && high !== undefined && high - low > 0.004) {
        t.append(styled(h("span", { class: "whisker" }), { left: `${low / most * 100}%`, width: `${(Math.min(high, most) - low) / most * 100}%` }));
      }
      return t;
    };
    const reason = data.words.reasons[x.reason] ?? "";
    list.append(h("li", { class: adjusted ? "two" : "", title: reason },
      h("span", { class: "name" }, plain(x.reason)),
      h("span", { class: "tracks", role: "img", "aria-label": `${plain(x.reason)}: raw ${fine(x.share_raw)}, adjusted ${fine(x.share_adjusted)}` },
        track(x.share_raw, adjusted ? "raw" : "", adjusted ? undefined : x.low, adjusted ? undefined : x.high),
        adjusted ? track(x.share_adjusted, "", x.low, x.high) : null),
      h("span", { class: "num" }, adjusted ? h("s", {}, fine(x.share_raw)) : null, adjusted ? " " : null, fine(adjusted ? x.share_adjusted : x.share_raw)),
      reason ? h("span", { class: "reason" }, reason) : null));
  }
  const bounds = shown.some((x) => x.high - x.low > 0.004) ? "; line: bounds of the sampling" : "";
  const note = adjusted ? `share of the time of all warps, bars to 100 %; pale: raw; full: adjusted for waits that asynchronous work covers${bounds}`
    : `share of the time of all warps, bars to 100 %; nothing asynchronous to discount, raw and adjusted are the same${bounds}`;
  return section("Warp states", note, list);
}
