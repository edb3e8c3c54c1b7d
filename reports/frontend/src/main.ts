// Loads the data, shows the page that the URL fragment names, and keeps theme and keys.

import { codePage } from "./code";
import { diffPage } from "./diff";
import { clear, h } from "./dom";
import { kernelPage } from "./kernel";
import { programPage } from "./programs";
import { total } from "./kerneltable";
import { overview } from "./overview";
import { sassDiffPage } from "./sassdiff";
import { base, compact } from "./format";
import { go, link, listen, state } from "./state";
import { timelinePage } from "./timeline";
import type { Data } from "./types";

interface Packed { encoding: string; data: string }
export interface Page { element: HTMLElement; update?: (changed: Set<string>) => void; key?: (event: KeyboardEvent) => boolean;
  close?: () => void; wide?: boolean; broad?: boolean }

async function unpack(): Promise<Data> {
  const packed = JSON.parse(document.getElementById("kscope-data")!.textContent!) as Packed;
  if (packed.encoding !== "deflate") throw new Error(`unknown encoding ${packed.encoding}`);
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return await new Response(stream).json() as Data;
}

const THEMES = ["", "dark", "light"];
const NAMES: Record<string, string> = { "": "auto", dark: "dark", light: "light" };
let page: Page = { element: h("main") };

function theme(): void {
  document.documentElement.dataset.theme = THEMES.includes(state().theme ?? "") ? state().theme ?? "" : "";
  const button = document.getElementById("theme");
  if (button) button.textContent = `Theme: ${NAMES[document.documentElement.dataset.theme ?? ""]}`;
}

function build(data: Data): Page {
  const { k, t, view } = state();
  if (data.comparison) return { element: diffPage(data.comparison, data.names ?? []) };
  if (data.sass) return { element: sassDiffPage(data, data.sass, data.names ?? []) };
  if (data.detail.programs?.length) return programPage(data, data.detail.programs);
  const { kernels, timelines } = data.analysis;
  const only = kernels.length + timelines.length === 1;
  const kernel = kernels.find((one) => one.id === k) ?? (only && !t ? kernels[0] : undefined);
  const timeline = t !== undefined ? timelines[Number(t)] : only ? timelines[0] : undefined;
  if (kernel) {
    const detail = data.detail.kernels?.find((d) => d.id === kernel.id);
    if (view === "code" && detail?.code) return codePage(kernel, detail, detail.code);
    return { element: kernelPage(data, kernel, detail) };
  }
  if (timeline) {
    const index = timelines.indexOf(timeline);
    return timelinePage(data, timeline, data.detail.timelines?.find((d) => d.index === index));
  }
  return { element: overview(data), broad: data.analysis.kernels.length > 0 };
}

function header(data: Data): HTMLElement {
  const { kernels, timelines, inputs } = data.analysis;
  const several = kernels.length + timelines.length > 1;
  const { k, t } = state();
  const crumbs = h("nav", { class: "crumbs", "aria-label": "where you are" });
  const top = data.names ? data.names.join(" \u2192 ") : inputs.length === 1 ? base(inputs[0].path) : `${inputs.length} inputs`;
  if (several && (k !== undefined || t !== undefined)) {
    crumbs.append(h("a", { href: link({}) }, top));
    const choice = h("select", { "aria-label": "kernel", onchange: () => { location.hash = link({ k: choice.value }); } });
    for (const one of [...kernels].sort((a, b) => total(b) - total(a))) {
      choice.append(h("option", { value: one.id, selected: one.id === k }, compact(one.demangled || one.name, 56)));
    }
    if (k !== undefined) crumbs.append(h("span", { "aria-hidden": "true" }, "/"), choice);
  } else {
    crumbs.append(h("span", {}, top));
  }
  return h("header", { class: "top" },
    h("a", { class: "skip", href: "#main", onclick: (e) => { e.preventDefault(); document.getElementById("main")?.focus(); } }, "Skip to content"),
    h("a", { class: "brand", href: link({}), "aria-label": "kscope: all kernels" }, "kscope"),
    crumbs,
    h("button", { type: "button", id: "theme", class: "quiet", onclick: () => {
      go({ theme: THEMES[(THEMES.indexOf(state().theme ?? "") + 1) % THEMES.length] });
    } }, "Theme"),
    h("button", { type: "button", class: "quiet", id: "keys", title: "Keyboard (?)", onclick: help }, "Keys"));
}

const KEYS: [string, string][] = [
  ["?", "this list"], ["d", "diagnosis of the kernel"], ["s", "source and SASS"], ["o", "all kernels"],
  ["[ and ]", "previous and next kernel"], ["t", "theme"], ["n and N", "code: next hottest, the one before"],
  ["/", "code: search; Enter and Shift+Enter go through the hits"], ["f", "code: fold or unfold the loop at hand"],
  ["arrows, Page, Home, End", "code: move"], ["+ and -", "timeline: zoom"], ["arrows", "timeline: pan"], ["0", "timeline: all of it"],
  ["n and N", "timeline: next longest gap, the one before"], ["/", "timeline: search; Enter and Shift+Enter go through what is found"], ["m", "timeline: select what is in view, or nothing"],
  ["c", "timeline: critical path on or off"],
];

function help(): void {
  const dialog = h("dialog", { class: "help", "aria-label": "keyboard" });
  const list = h("dl");
  for (const [key, what] of KEYS) list.append(h("dt", {}, h("kbd", {}, key)), h("dd", {}, what));
  dialog.append(h("h2", {}, "Keyboard"), list, h("form", { method: "dialog" }, h("button", {}, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function show(data: Data): void {
  page.close?.();
  page = build(data);
  const app = document.getElementById("app")!;
  clear(app);
  app.className = page.wide ? "wide" : page.broad ? "broad" : "";
  app.append(header(data), page.element, h("footer", {}, `kscope ${data.analysis.kscope}. This file makes no requests.`));
  theme();
  page.update?.(new Set(["cols", "by", "pc", "q", "t0", "t1", "s0", "s1", "cp", "file", "fold"]));
}

/** On paper every suggestion is open, since nothing can be clicked there, and the colours are those of light. */
function paper(): void {
  const root = document.documentElement, chosen = root.dataset.theme ?? "";
  root.dataset.theme = "light";
  addEventListener("afterprint", () => { root.dataset.theme = chosen; }, { once: true });
  const shut = [...document.querySelectorAll<HTMLDetailsElement>("details.opportunity:not([open])")];
  for (const one of shut) one.open = true;
  addEventListener("afterprint", () => { for (const one of shut) one.open = false; }, { once: true });
}

function keys(data: Data, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (typing) return;
  if (page.key?.(event)) { event.preventDefault(); return; }
  const order = [...data.analysis.kernels].sort((a, b) => total(b) - total(a));
  const at = order.findIndex((one) => one.id === state().k);
  const k = state().k ?? (order.length === 1 ? order[0].id : undefined);
  if (event.key === "?") help();
  else if (event.key === "t") document.getElementById("theme")?.click();
  else if (event.key === "o") location.hash = link({});
  else if (event.key === "d" && k) location.hash = link({ k });
  else if (event.key === "s" && k) location.hash = link({ k, view: "code" });
  else if (event.key === "]" && order.length > 1) location.hash = link({ k: order[(at + 1) % order.length].id });
  else if (event.key === "[" && order.length > 1) location.hash = link({ k: order[(at - 1 + order.length) % order.length].id });
  else return;
  event.preventDefault();
}

const VIEW = ["k", "t", "view", "fn"];

unpack().then((data) => {
  document.documentElement.classList.add("ready");
  listen((_, changed) => {
    if (changed.has("theme")) { theme(); page.update?.(new Set(["theme"])); }
    if (VIEW.some((key) => changed.has(key))) { show(data); scrollTo(0, 0); }
    else page.update?.(changed);
  });
  addEventListener("beforeprint", paper);
  document.addEventListener("keydown", (event) => keys(data, event));
  show(data);
}).catch((error: unknown) => {
  const app = document.getElementById("app")!;
  app.prepend(h("p", { class: "error" }, `The interactive report could not start (${String(error)}). It needs a browser of 2023 or later.`));
});
