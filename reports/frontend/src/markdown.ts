// The rule pages' Markdown as elements: headings, paragraphs, lists, tables, code. Nothing else occurs in them.

import { h } from "./dom";

export function markdown(text: string, level = 4): HTMLElement {
  const root = h("div", { class: "prose" });
  const lines = text.split("\n");
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    if (/^\s*```/.test(line)) {
      const body: string[] = [];
      for (i++; i < lines.length && !/^\s*```/.test(lines[i]); i++) body.push(lines[i]);
      i++;
      root.append(h("pre", { tabindex: 0 }, h("code", {}, body.join("\n"))));
    } else if (/^#+ /.test(line)) {
      const depth = line.match(/^#+/)![0].length;
      const tag = `h${Math.min(6, level + depth - 1)}` as "h4";
      root.append(h(tag, {}, ...inline(line.replace(/^#+ /, ""))));
      i++;
    } else if (/^ {4}\S/.test(line)) {
      const body: string[] = [];
      for (; i < lines.length && (/^ {4}/.test(lines[i]) || !lines[i].trim()); i++) body.push(lines[i].slice(4));
      root.append(h("pre", { tabindex: 0 }, h("code", {}, body.join("\n").trimEnd())));
    } else if (/^[-*] /.test(line)) {
      const list = h("ul");
      while (i < lines.length && /^([-*] |\s+\S)/.test(lines[i])) {
        let item = lines[i++].replace(/^[-*] /, "");
        while (i < lines.length && /^\s+\S/.test(lines[i])) item += " " + lines[i++].trim();
        list.append(h("li", {}, ...inline(item)));
      }
      root.append(list);
    } else if (/^\|/.test(line)) {
      const rows: string[][] = [];
      for (; i < lines.length && /^\|/.test(lines[i]); i++) {
        const cells = lines[i].replace(/^\||\|$/g, "").split("|").map((c) => c.trim());
        if (!cells.every((c) => /^:?-*:?$/.test(c))) rows.push(cells);
      }
      const table = h("table");
      rows.forEach((cells, r) => {
        const row = h("tr");
        for (const cell of cells) row.append(r ? h("td", {}, ...inline(cell)) : h("th", { scope: "col" }, ...inline(cell)));
        table.append(row);
      });
      root.append(table);
    } else if (!line.trim()) {
      i++;
    } else {
      const body: string[] = [];
      for (; i < lines.length && lines[i].trim() && !/^(#|[-*] |\||\s*```)/.test(lines[i]); i++) body.push(lines[i].trim());
      root.append(h("p", {}, ...inline(body.join(" "))));
    }
  }
  return root;
}

function inline(text: string): (Node | string)[] {
  const out: (Node | string)[] = [];
  const pattern = /(`+)(.+?)\1|\*\*(.+?)\*\*|\[([^\]]+)\]\((https?:\/\/[^)\s]+)\)/g;
  let last = 0;
  for (const m of text.matchAll(pattern)) {
    if (m.index > last) out.push(text.slice(last, m.index));
    if (m[2] !== undefined) out.push(h("code", {}, m[2]));
    else if (m[3] !== undefined) out.push(h("strong", {}, m[3]));
    else out.push(`${m[4]} (${m[5]})`);
    last = m.index + m[0].length;
  }
  if (last < text.length) out.push(text.slice(last));
  return out;
}
