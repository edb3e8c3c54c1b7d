// What host threads did, added up by the way of calls: a tree, widest first, that opens level by level.

import { h, styled } from "./dom";
import { fine, time } from "./format";
import { scrolling, section } from "./parts";
import type { OperatorTree } from "./types";

const OPEN = 0.02;  // of the window: what is at least so long stands open, two levels deep
const CHILDREN = 12;
let serial = 0;

interface Node { index: number; level: number; children: Node[] }

/** The nodes as trees, children with the longest first. */
function grown(tree: OperatorTree): Node[] {
  const nodes = tree.name.map((_, index): Node => ({ index, level: 1, children: [] })), roots: Node[] = [];
  nodes.forEach((node, i) => {
    const above = nodes[tree.parent[i]];
    node.level = above ? above.level + 1 : 1;
    (above ? above.children : roots).push(node);
  });
  for (const node of nodes) node.children.sort((a, b) => tree.ns[b.index] - tree.ns[a.index]);
  return roots.sort((a, b) => tree.ns[b.index] - tree.ns[a.index]);
}

/** The card. `show` finds a name in the timeline. `span`: ns of the window. */
export function operatorTree(tree: OperatorTree, names: string[], span: number, show: (name: string) => void): HTMLElement {
  const body = h("tbody");
  const row = (node: Node, before: Element | null): void => {
    const { index, level, children } = node, share = tree.ns[index] / Math.max(span, 1), name = names[tree.name[index]] ?? "";
    const id = `operator-${serial++}`;
    const more = children.length ? h("button", { type: "button", class: "twist", "aria-expanded": "false", "aria-label": `what ${name} calls` }, "\u25b8") : null;
    const label = styled(h("span", { class: "branch" }, more, level > 1
      ? h("button", { type: "button", class: "link", title: `${name}: show in the timeline`, onclick: () => show(name) }, name) : h("b", {}, name)),
      { "padding-left": `${(level - 1) * 16 + (more ? 0 : 22)}px` });
    const made = h("tr", { id, "data-level": level }, h("th", { scope: "row" }, label),
      h("td", { class: "share" }, h("span", { class: "bar" }, styled(h("span", { class: "fill host" }), { width: `${Math.min(1, share) * 100}%` })), h("span", { class: "num" }, fine(share))),
      h("td", { class: "num" }, time(tree.ns[index] / 1e3)), h("td", { class: "num" }, level > 1 ? time(tree.own[index] / 1e3) : ""),
      h("td", { class: "num" }, tree.gpu[index] ? time(tree.gpu[index] / 1e3) : "\u2013"), h("td", { class: "num" }, level > 1 ? tree.count[index].toLocaleString("en-US") : ""));
    body.insertBefore(made, before);
    if (!more) return;
    const open = () => {
      const next = made.nextElementSibling;
      children.slice(0, CHILDREN).forEach((child) => row(child, next));
      const rest = children.slice(CHILDREN).reduce((sum, child) => sum + tree.ns[child.index], 0);
      if (children.length > CHILDREN) {
        body.insertBefore(h("tr", { "data-level": level + 1, class: "rest" }, styled(h("th", { scope: "row" }, `${children.length - CHILDREN} shorter ones`), { "padding-left": `${level * 16 + 30}px` }),
          h("td", { class: "share" }, h("span"), h("span", { class: "num" }, fine(rest / Math.max(span, 1)))), h("td", { class: "num" }, time(rest / 1e3)), h("td"), h("td"), h("td")), next);
      }
      more.setAttribute("aria-expanded", "true");
      more.textContent = "\u25be";
    };
    more.addEventListener("click", () => {
      if (more.getAttribute("aria-expanded") === "false") return open();
      while (made.nextElementSibling instanceof HTMLElement && Number(made.nextElementSibling.dataset.level) > level) made.nextElementSibling.remove();
      more.setAttribute("aria-expanded", "false");
      more.textContent = "\u25b8";
    });
    if (level <= 2 && share >= OPEN) open();
  };
  for (const root of grown(tree)) row(root, null);
  const head = h("thead", {}, h("tr", {}, ...["what the host ran", "of the window", "time", "not in a child", "GPU time of it", "count"]
    .map((text, i) => h("th", { scope: "col", class: i > 1 ? "num" : "" }, text))));
  const note = "ranges and operators of each host thread, added up by what called them; GPU time of what they launched";
  const card = section("Host operators", note + (tree.left_out ? `; ${tree.left_out.toLocaleString("en-US")} shorter ways are left out` : ""),
    scrolling(h("table", { class: "operators" }, head, body), "host operators"));
  card.classList.add("full", "long");
  return card;
}
