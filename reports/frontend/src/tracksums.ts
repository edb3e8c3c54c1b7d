// What happened in a part of a timeline, added up: operations by name, how busy each stream was, why devices idled.

import { h } from "./dom";
import { compact, fine, time } from "./format";
import { scrolling } from "./parts";
import { idleSums, rowSums, sums, type StreamSum, type Track } from "./trackrows";

const NAMES = 8;

/** The tables under the timeline. `marked`: the part was selected, else it is what is in view. */
export function sumTables(tracks: Track[], names: string[], from: number, to: number, marked: boolean, cause: (index: number) => string): HTMLElement[] {
  const all = sums(tracks, names, from, to), span = Math.max(to - from, 1);
  const says = h("p", { class: "note" }, `${marked ? "Selected" : "In view"}, ${time((to - from) / 1e3)}: ${all.count.toLocaleString("en-US")} operations of ${all.rows.length} names, ${time(all.ns / 1e3)} together.`);
  const left = h("div"), out: HTMLElement[] = [says, left];
  const rows = rowSums(tracks, names, from, to);
  if (rows.length) left.append(table("how busy each stream is", ["busy", "time", "operations", "stream"],
    rows.map((row) => [fine(row.ns / span), time(row.ns / 1e3), row.count.toLocaleString("en-US"), row.name, "", idleWhile(row, span)])));
  const idle = idleSums(tracks, from, to);
  if (idle.length) left.append(table("why devices idle", ["of the time", "idle", "gaps", "because of"],
    idle.map((row) => [fine(row.ns / span), time(row.ns / 1e3), row.count.toLocaleString("en-US"), `${row.device}: ${cause(row.cause)}`])));
  if (all.rows.length) {
    const more = all.rows.length - NAMES;
    const card = table("operations by name", ["share", "time", "count", "operation"], all.rows.slice(0, NAMES).map((row) =>
      [fine(row.ns / Math.max(all.ns, 1)), time(row.ns / 1e3), row.count.toLocaleString("en-US"), compact(row.name), row.name]));
    if (more > 0) card.append(h("p", { class: "note" }, `${more} shorter ${more === 1 ? "name" : "names"} not shown`));
    out.push(card);
  }
  return out;
}

/** What a stream idled for: what another one ran meanwhile, or the whole device idle, whose causes are below. */
function idleWhile(row: StreamSum, span: number): string {
  if (row.idle < 0.005 * span) return "";
  const parts: string[] = [];
  if (row.beside && row.beside.ns >= 0.005 * span) parts.push(`${fine(row.beside.ns / span)} while ${row.beside.title} runs ${compact(row.beside.name)}`);
  if (row.whole >= 0.005 * span) parts.push(`${fine(row.whole / span)} with the whole GPU idle`);
  return `idle ${fine(row.idle / span)}${parts.length ? `: ${parts.join(", ")}` : ""}`;
}

function table(label: string, head: string[], rows: string[][]): HTMLElement {
  const body = h("tbody");
  for (const [share, ns, count, name, title, more] of rows) {
    body.append(h("tr", {}, h("td", { class: "num" }, share), h("td", { class: "num" }, ns), h("td", { class: "num" }, count),
      h("th", { scope: "row", title: title ?? "" }, name, more ? h("span", { class: "made" }, more) : null)));
  }
  const top = h("tr", {}, ...head.map((text, i) => h("th", { scope: "col", class: i < 3 ? "num" : "" }, text)));
  return h("div", { class: "sum" }, scrolling(h("table", { class: "small" }, h("thead", {}, top), body), label));
}
