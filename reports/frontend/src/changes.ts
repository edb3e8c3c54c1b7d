// The changes of a finding: what was proved, what is left to check, and the lines with a button that copies them.

import { h } from "./dom";
import type { Condition, Fix, Proof } from "./schema";

const number = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });

function figures(rows: Proof[]): string {
  return rows.filter((p) => p.before !== p.after)
    .map((p) => `${p.what}: ${number(p.before)} to ${number(p.after)}`).join("; ");
}

/** What a reader pastes: functions to add, then the lines as they will be. */
export function pasted(fix: Fix): string {
  const lines = fix.edits.map((e) => `// line ${e.line}${e.becomes ? `\n${e.becomes}` : " goes"}`);
  return [fix.code, ...lines].filter(Boolean).join("\n");
}

/** Copies without the clipboard's own interface, which a page that was opened from a file may not have. */
function copiedByHand(text: string): boolean {
  const area = h("textarea", { readonly: true });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

function copyButton(text: string): HTMLElement {
  const button = h("button", { type: "button", class: "copy" }, "Copy");
  const say = (done: boolean) => { button.textContent = done ? "Copied" : "Select the lines to copy them"; };
  button.addEventListener("click", () => {
    if (!navigator.clipboard) say(copiedByHand(text));
    else navigator.clipboard.writeText(text).then(() => say(true), () => say(copiedByHand(text)));
  });
  return button;
}

function difference(fix: Fix): HTMLElement {
  const block = h("pre", { class: "diff-lines", tabindex: "0", "aria-label": "the change" });
  const named: Record<string, string> = { "+": "added", "-": "removed", " ": "kept" };
  const put = (sign: string, text: string) => block.append(h("span", { class: named[sign] }, `${sign} ${text}\n`));
  for (const line of fix.code ? fix.code.split("\n") : []) put("+", line);
  for (const edit of fix.edits) {
    const lines = edit.becomes ? edit.becomes.split("\n") : [];
    const stays = lines.indexOf(edit.was);  // others come before or behind it: only what is new is marked
    if (stays < 0) put("-", edit.was);
    lines.forEach((line, i) => put(i === stays ? " " : "+", line));
  }
  return block;
}

function condition(one: Condition): HTMLElement {
  const state = { proved: "proved", assumed: "assumed", check: "to check" }[one.state];
  return h("li", { class: one.state }, h("b", {}, state), ` ${one.holds}`, one.why ? `: ${one.why}` : "");
}

/** Where each change of these findings is told first, by what tells it from another: "1 (GRD405)". */
export function toldAt(findings: { code: string; fixes?: Fix[] }[]): Map<string, string> {
  const first = new Map<string, string>();
  findings.forEach((f, i) => {
    for (const fix of f.fixes ?? []) if (!fix.refused && !first.has(change(fix))) first.set(change(fix), `${i + 1} (${f.code})`);
  });
  return first;
}

const change = (fix: Fix) => JSON.stringify([fix.kind, fix.title, fix.code, fix.edits]);

/** `here`: the finding's place, as `first` has it; a change that an earlier one told is not written out again. */
export function changes(fixes: Fix[], first: Map<string, string>, here: string): HTMLElement {
  const list = h("div", { class: "changes" });
  for (const fix of fixes) {
    const at = first.get(change(fix));
    if (at && at !== here) {
      list.append(h("p", {}, h("b", {}, "Change "), `as at ${at}: ${fix.title}`));
      continue;
    }
    if (fix.refused) {
      list.append(h("p", { class: "refused" }, h("b", {}, "No code "), fix.refused));
      continue;
    }
    const told = [figures(fix.proof), ...fix.costs].filter(Boolean).join("; ");
    list.append(h("section", { class: "change" },
      h("p", {}, h("b", {}, "Change "), fix.title, " ", copyButton(pasted(fix))),
      h("p", { class: "proof" }, told), difference(fix), h("ul", { class: "conditions" }, ...fix.conditions.map(condition))));
  }
  return list;
}
