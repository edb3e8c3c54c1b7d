// Source and SASS side by side: linked rows, heat by samples, stall mix, widths and findings inline, folding by loop.

import { COLUMNS, chosen, menu, type Column } from "./columns";
import { clear, debounce, h, styled } from "./dom";
import { base, counted, fine, hex, plain, si, times, trim } from "./format";
import { tabs, title } from "./kernel";
import { VirtualList } from "./list";
import type { Page } from "./main";
import { CodeModel, type SourceLine } from "./model";
import { go, state } from "./state";
import type { Code, Finding, Kernel, KernelDetail } from "./types";

const ROW = 20;
type SassRow = { kind: "instruction"; index: number } | { kind: "loop"; loop: number };

const TENSOR = /^(U?H?[HIDQBO]MMA|[HIQB]GMMA|UTC\w*MMA|WARPGROUP)/;
const MEMORY = /^(U?LD|U?ST|ATOM|RED|SULD|SUST|TEX|TLD|UTMA|UBLKCP|CCTL|MATCH|LDGSTS|LDSM)/;
const CONTROL = /^(BRA|BRX|JMP|EXIT|RET|CALL|BAR|BSYNC|BSSY|WARPSYNC|YIELD|BREAK|SYNCS|DEPBAR|NANOSLEEP|MEMBAR|ERRBAR|CGAERRBAR)/;

export function stallClass(reason: string): string {
  const known: Record<string, string> = {
    long_scoreboard: "long", lg_throttle: "long2", drain: "long3", short_scoreboard: "short", mio_throttle: "short2",
    tex_throttle: "short2", barrier: "sync", membar: "sync2", warpgroup_arrive: "sync2", gmma: "sync2", sleeping: "sync2",
    wait: "wait", math_pipe_throttle: "math", dispatch_stall: "math2", selected: "run", not_selected: "run2",
    no_instructions: "fetch", no_instruction: "fetch", branch_resolving: "fetch2", imc_miss: "fetch2",
  };
  return known[reason] ?? "other";
}

/** One line of segments by share, for the stall mix of an instruction or line. */
export function mixBar(mix: [string, number][], width = "100%"): HTMLElement {
  const whole = mix.reduce((sum, [, n]) => sum + n, 0) || 1;
  const text = mix.slice(0, 4).map(([r, n]) => `${plain(r)} ${fine(n / whole)}`).join(", ");
  const out = styled(h("span", { class: "mix", role: "img", "aria-label": `stall mix: ${text}`, title: text }), { width });
  for (const [reason, n] of mix) {
    if (n / whole < 0.01) continue;
    out.append(styled(h("span", { class: `w-${stallClass(reason)}` }), { "flex-grow": String(n) }));
  }
  return out;
}

export function codePage(k: Kernel, detail: KernelDetail, code: Code): Page {
  const view = new CodeView(k.findings, code);
  const element = h("main", { id: "main", tabindex: -1, class: "code-page" },
    h("div", { class: "code-head" }, title(k), tabs(k, detail, "code")), view.element);
  return { element, wide: true, update: (changed) => view.update(changed), key: (event) => view.key(event), close: () => view.close() };
}

export class CodeView {
  readonly element: HTMLElement;
  private readonly model: CodeModel;
  private readonly sass: VirtualList;
  private readonly source: VirtualList;
  private readonly search: HTMLInputElement;
  private readonly hits: HTMLElement;
  private readonly inspector: HTMLElement;
  private readonly files: HTMLSelectElement;
  private rows: SassRow[] = [];
  private rowOf: number[] = [];
  private lines: SourceLine[] = [];
  private lineRow = new Map<number, number>();
  private peakLine = 1;
  private file = -1;
  private folded = new Set<number>();
  private selected = -1;
  private line = "";
  private hover = "";
  private hoverFrom: VirtualList | null = null;
  private readonly head = h("div", { class: "pane-head sass-head" });
  private columns: Column[] = [];
  private sorted = "";
  private found: number[] = [];
  private needle = "";

  constructor(findings: Finding[], private readonly code: Code) {
    this.model = new CodeModel(code, findings);
    this.sass = new VirtualList({
      label: "SASS", rowHeight: ROW, count: () => this.rows.length, draw: (row, i) => this.drawSass(row, i),
      onPick: (i) => this.pickSass(i), onHover: (i) => this.hoverSass(i),
    });
    this.source = new VirtualList({
      label: "Source", rowHeight: ROW, count: () => this.lines.length, draw: (row, i) => this.drawSource(row, i),
      onPick: (i) => this.pickLine(i), onHover: (i) => this.hoverLine(i),
    });
    this.search = h("input", { type: "search", placeholder: "Search SASS and source  ( / )", "aria-label": "search SASS and source",
      spellcheck: "false" });
    this.hits = h("span", { class: "hits", "aria-live": "polite" });
    const settle = debounce(120, () => go({ q: this.search.value }));
    this.search.addEventListener("input", settle);
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { go({ q: this.search.value }); this.nextHit(event.shiftKey ? -1 : 1); event.preventDefault(); }
      else if (event.key === "Escape") { this.search.value = ""; go({ q: "" }); this.sass.element.focus(); }
    });
    this.files = h("select", { "aria-label": "source file", onchange: () => go({ file: this.files.value }) });
    this.inspector = h("section", { class: "inspector", "aria-label": "selected instruction", "aria-live": "polite" });
    const fold = h("button", { type: "button", onclick: () => this.foldAll(), title: "Fold every loop, or unfold them" }, "Fold loops");
    const toolbar = h("div", { class: "toolbar" }, this.search, this.hits,
      this.model.total ? h("button", { type: "button", onclick: () => this.nextHot(1), title: "n; N goes back" }, "Next hottest") : null,
      fold, menu(this.model, () => this.columns.map((c) => c.id), (ids) => go({ cols: ids.join(".") || "none" })), this.model.total ? legend() : null);
    if (!code.loops.length) fold.hidden = true;
    const left = h("div", { class: "pane source" }, h("div", { class: "pane-head" }, this.files), this.source.element);
    const right = h("div", { class: "pane sass" }, this.head, this.sass.element);
    const hasSource = Object.keys(code.sources ?? {}).length > 0;
    this.element = h("div", { class: `code-view${hasSource ? "" : " no-source"}${this.model.total ? "" : " bare"}` }, toolbar,
      h("div", { class: "panes" }, hasSource ? left : null, hasSource ? this.divider() : null, right), this.inspector);
    addEventListener("beforeprint", this.paper);
    addEventListener("afterprint", this.screen);
    this.fillFiles();
    this.layout();
    this.inspect();
  }

  /** Between the panes: dragged, or moved with the arrow keys. */
  private divider(): HTMLElement {
    const bar = h("div", { class: "divider", role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": "width of the source pane", "aria-valuemin": 15, "aria-valuemax": 85, "aria-valuenow": 46 });
    const set = (part: number) => {
      const percent = Math.max(15, Math.min(85, part));
      bar.setAttribute("aria-valuenow", percent.toFixed(0));
      const panes = bar.parentElement;
      if (panes) styled(panes, { "--left": `${percent}fr`, "--right": `${100 - percent}fr` });
      this.sass.refresh();
      this.source.refresh();
    };
    bar.addEventListener("pointerdown", (event) => { bar.setPointerCapture(event.pointerId); event.preventDefault(); });
    bar.addEventListener("pointermove", (event) => {
      if (!bar.hasPointerCapture(event.pointerId)) return;
      const box = bar.parentElement!.getBoundingClientRect();
      set((event.clientX - box.left) / box.width * 100);
    });
    bar.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowLeft" ? -3 : event.key === "ArrowRight" ? 3 : 0;
      if (step) { set(Number(bar.getAttribute("aria-valuenow")) + step); event.preventDefault(); event.stopPropagation(); }
    });
    return bar;
  }

  /** The head of the SASS pane: its columns sort; the address of an instruction is the order of the program. */
  private drawHead(): void {
    clear(this.head);
    const sorter = (id: string, text: string, about: string, kind: string) => h("span", { class: kind }, h("button", { type: "button", class: `sort ${this.sorted === id ? "on" : ""}`,
      title: about, "aria-pressed": String(this.sorted === id), onclick: () => go({ by: this.sorted === id || id === "pc" ? "" : id }) }, text));
    this.head.append(this.model.total ? sorter("samples", "samples", "sort by samples", "heat-cell") : h("span", { class: "heat-cell" }, "samples"), sorter("pc", "pc", "the order of the program", "pc"));
    for (const c of this.columns) this.head.append(sorter(c.id, c.title, `${c.about}; sorts`, "col"));
    this.head.append(h("span", { class: "text" }, "instruction"));
  }

  /** On paper every row is there. */
  private readonly paper = () => { this.sass.whole(true); this.source.whole(true); };
  private readonly screen = () => { this.sass.whole(false); this.source.whole(false); };

  close(): void {
    removeEventListener("beforeprint", this.paper);
    removeEventListener("afterprint", this.screen);
    this.sass.close();
    this.source.close();
  }

  private fillFiles(): void {
    const samples = this.code.files.map(() => 0);
    this.code.samples.forEach((n, i) => { if (this.code.file[i] >= 0) samples[this.code.file[i]] += n; });
    const order = this.code.files.map((_, i) => i).sort((a, b) => samples[b] - samples[a]);
    for (const i of order) {
      const share = this.model.total ? `  ${fine(samples[i] / this.model.total)}` : "";
      this.files.append(h("option", { value: i }, `${base(this.code.files[i])}${share}`));
    }
    if (order.length) this.openFile(order[0]);
  }

  private openFile(file: number): void {
    if (file === this.file || !(file in this.code.files)) return;
    this.file = file;
    this.files.value = String(file);
    this.files.title = this.code.files[file];
    this.lines = this.model.lines(file);
    this.lineRow = new Map(this.lines.map((line, i) => [line.number, i]));
    this.peakLine = Math.max(1, ...this.lines.map((l) => l.samples));
    this.source.refresh();
    const first = this.lines.findIndex((l) => l.samples === this.peakLine);
    this.source.reveal(Math.max(0, first >= 0 ? first : this.lines.findIndex((l) => l.instructions.length)), true);
  }

  /** The rows of the SASS pane under the present folding. */
  private layout(): void {
    const { loops } = this.code;
    this.rows = [];
    this.rowOf = new Array<number>(this.model.count).fill(-1);
    const column = COLUMNS.find((c) => c.id === this.sorted);
    if (this.sorted) {
      const value = (i: number) => column ? column.value(this.model, i) : this.code.samples[i];
      const order = this.code.pcs.map((_, i) => i).filter((i) => value(i) > 0).sort((a, b) => value(b) - value(a) || a - b);
      order.forEach((i, at) => { this.rowOf[i] = at; });
      this.rows = order.map((index) => ({ kind: "instruction", index }));
      this.sass.refresh();
      return;
    }
    const heads = new Map<number, number[]>();
    const rowOfLoop = new Map<number, number>();
    loops.forEach((loop, number) => heads.set(loop.first, [...(heads.get(loop.first) ?? []), number]));
    for (const list of heads.values()) list.sort((a, b) => loops[a].depth - loops[b].depth);
    for (let i = 0; i < this.model.count; i++) {
      const nest = this.model.nest(i);
      for (const loop of heads.get(i) ?? []) {
        if (this.hiddenBy(this.loopNest(loop).slice(0, -1))) continue;
        rowOfLoop.set(loop, this.rows.length);
        this.rows.push({ kind: "loop", loop });
      }
      const closed = nest.find((loop) => this.folded.has(loop));
      if (closed === undefined) {
        this.rowOf[i] = this.rows.length;
        this.rows.push({ kind: "instruction", index: i });
      } else {
        this.rowOf[i] = rowOfLoop.get(closed) ?? 0;
      }
    }
    this.sass.refresh();
  }

  private loopNest(loop: number): number[] {
    const out: number[] = [];
    for (let at = loop; at >= 0; at = this.code.loops[at].parent) out.unshift(at);
    return out;
  }

  private hiddenBy(nest: number[]): boolean {
    return nest.some((loop) => this.folded.has(loop));
  }

  private drawSass(row: HTMLElement, at: number): void {
    const entry = this.rows[at];
    clear(row);
    if (entry.kind === "loop") return this.drawLoop(row, entry.loop);
    const i = entry.index;
    const { code, model } = this;
    const key = code.line[i] ? `${code.file[i]}:${code.line[i]}` : "";
    row.className = "row" + (i === this.selected ? " selected" : "") + (key && key === this.line ? " linked" : "")
      + (key && key === this.hover ? " hovered" : "") + (code.executed[i] === 0 && model.total ? " cold" : "")
      + (this.needle && matches(code.sass[i], this.needle) ? " hit" : "");
    row.setAttribute("aria-selected", String(i === this.selected));
    const share = model.share(i);
    row.append(heat(share, code.samples[i] / model.peak), h("span", { class: "pc" }, hex(code.pcs[i])));
    for (const c of this.columns) row.append(h("span", { class: "col" }, c.text(model, i)));
    const depth = this.sorted ? 0 : model.nest(i).length;
    const text = styled(h("span", { class: "text" }), { "padding-left": `${depth * 12}px` });
    text.append(...highlight(code.sass[i]));
    row.append(text);
    const side = h("span", { class: "side" });
    const mix = model.stalls.get(i);
    if (mix && share >= 0.005) side.append(mixBar(mix, "44px"));
    if (model.bytes[i]) {
      const space = model.spaces.get(i) ?? "";
      side.append(h("span", { class: `width b${Math.min(16, model.bytes[i])}`, title: `${space}, ${model.bytes[i]} bytes a lane` },
        `${model.bytes[i]} B`));
    }
    for (const f of model.findings.get(i) ?? []) {
      side.append(h("span", { class: `chip ${f.severity}`, title: f.title }, f.code));
    }
    for (const note of model.notes.get(i) ?? []) side.append(h("span", { class: "remark", title: note }, note));
    row.append(side);
  }

  private drawLoop(row: HTMLElement, loop: number): void {
    const { size, depth } = this.code.loops[loop];
    const closed = this.folded.has(loop);
    const share = this.model.total ? this.model.loopSamples[loop] / this.model.total : 0;
    row.className = "row loop";
    row.setAttribute("aria-selected", "false");
    row.append(heat(share, share, true), h("span", { class: "pc" }), ...this.columns.map(() => h("span", { class: "col" })),
      styled(h("span", { class: "text" }, `${closed ? "\u25b8" : "\u25be"} loop, depth ${depth}, ${size} instructions`),
        { "padding-left": `${(depth - 1) * 12}px` }));
  }

  private drawSource(row: HTMLElement, at: number): void {
    const line = this.lines[at];
    const key = `${line.file}:${line.number}`;
    clear(row);
    row.className = "row" + (key === this.line ? " linked" : "") + (key === this.hover ? " hovered" : "")
      + (line.instructions.length ? " compiled" : "") + (this.needle && matches(line.text, this.needle) ? " hit" : "");
    row.setAttribute("aria-selected", String(key === this.line));
    const share = this.model.total ? line.samples / this.model.total : 0;
    row.append(line.instructions.length ? heat(share, line.samples / this.peakLine) : h("span", { class: "heat-cell" }),
      h("span", { class: "number" }, String(line.number)));
    const text = h("span", { class: "text" });
    text.append(...paint(line.text));
    row.append(text);
    const codes = new Set(line.instructions.flatMap((i) => this.model.findings.get(i) ?? []));
    const side = h("span", { class: "side" });
    if (share >= 0.005) side.append(mixBar(this.model.mix(line.instructions), "44px"));
    for (const f of codes) side.append(h("span", { class: `chip ${f.severity}`, title: f.title }, f.code));
    row.append(side);
  }

  private pickSass(at: number): void {
    const entry = this.rows[at];
    if (entry.kind === "loop") this.toggle(entry.loop);
    else go({ pc: this.code.pcs[entry.index].toString(16) });
  }

  private pickLine(at: number): void {
    const line = this.lines[at];
    if (!line.instructions.length) return;
    const best = [...line.instructions].sort((a, b) => this.code.samples[b] - this.code.samples[a] || a - b)[0];
    go({ pc: this.code.pcs[best].toString(16) });
  }

  /** The source line of a row of the SASS pane, "" where it has none. */
  private sassKey(at: number): string {
    const entry = at >= 0 ? this.rows[at] : undefined;
    const i = entry?.kind === "instruction" ? entry.index : -1;
    return i >= 0 && this.code.line[i] ? `${this.code.file[i]}:${this.code.line[i]}` : "";
  }

  private hoverSass(at: number): void {
    this.setHover(this.sassKey(at), this.sass);
    const entry = at >= 0 ? this.rows[at] : undefined;
    this.showLinks(entry?.kind === "instruction" ? entry.index : this.selected);
  }

  /** Draws whose values an instruction reads, and who reads its own. */
  private showLinks(i: number): void {
    const near = (list: number[] | undefined) => [...new Set(list ?? [])].filter((j) => j !== i && this.rowOf[j] >= 0).map((j) => this.rowOf[j]);
    if (i < 0 || this.rowOf[i] === undefined || this.rowOf[i] < 0) return;
    this.sass.links(this.rowOf[i], near(this.model.uses.get(i)), near(this.model.feeds.get(i)));
  }

  private hoverLine(at: number): void {
    const line = at >= 0 ? this.lines[at] : undefined;
    this.setHover(line?.instructions.length ? `${line.file}:${line.number}` : "", this.source);
  }

  /** A pane that the pointer leaves takes back only what it set itself. */
  private setHover(key: string, from: VirtualList): void {
    if (key === this.hover || (!key && from !== this.hoverFrom)) return;
    this.hoverFrom = from;
    this.hover = key;
    this.sass.mark("hovered", (at) => key !== "" && this.sassKey(at) === key);
    this.source.mark("hovered", (at) => key !== "" && `${this.lines[at].file}:${this.lines[at].number}` === key);
  }

  private toggle(loop: number): void {
    if (this.folded.has(loop)) this.folded.delete(loop); else this.folded.add(loop);
    go({ fold: [...this.folded].sort((a, b) => a - b).join(".") });
  }

  private foldAll(): void {
    const every = this.code.loops.map((_, i) => i);
    go({ fold: this.folded.size ? "" : every.join(".") });
  }

  private unfoldTo(i: number): void {
    const hiding = this.model.nest(i).filter((loop) => this.folded.has(loop));
    if (!hiding.length) return;
    for (const loop of hiding) this.folded.delete(loop);
    this.layout();
    go({ fold: [...this.folded].sort((a, b) => a - b).join(".") });
  }

  private nextHot(step: number): void {
    const { hottest } = this.model;
    if (!hottest.length) return;
    const at = hottest.indexOf(this.selected);
    const next = at < 0 ? 0 : (at + step + hottest.length) % hottest.length;
    go({ pc: this.code.pcs[hottest[next]].toString(16) });
  }

  private nextHit(step: number): void {
    if (!this.found.length) return;
    const after = step > 0 ? this.found.find((i) => i > this.selected) ?? this.found[0]
      : [...this.found].reverse().find((i) => i < this.selected) ?? this.found[this.found.length - 1];
    go({ pc: this.code.pcs[after].toString(16) });
  }

  /** Hits are instructions whose text matches, or whose source line does. */
  private find(needle: string): void {
    this.needle = needle.toLowerCase();
    this.found = [];
    if (this.needle) {
      const lines = new Set<string>();
      this.code.files.forEach((name, file) => {
        (this.code.sources?.[name] ?? "").split(/\r?\n/).forEach((text, at) => {
          if (matches(text, this.needle)) lines.add(`${file}:${at + 1}`);
        });
      });
      for (let i = 0; i < this.model.count; i++) {
        if (matches(this.code.sass[i], this.needle) || lines.has(`${this.code.file[i]}:${this.code.line[i]}`)) this.found.push(i);
      }
    }
    this.hits.textContent = this.needle ? `${this.found.length} instructions` : "";
    if (this.search.value.toLowerCase() !== this.needle) this.search.value = needle;
    this.sass.refresh();
    this.source.refresh();
  }

  update(changed: Set<string>): void {
    const now = state();
    if (changed.has("cols") || changed.has("by") || !this.head.childElementCount) {
      this.columns = chosen(this.model, now.cols);
      this.sorted = now.by === "samples" || COLUMNS.some((c) => c.id === now.by && c.there(this.model)) ? now.by ?? "" : "";
      this.drawHead();
      this.layout();
      if (this.selected >= 0) this.sass.reveal(Math.max(0, this.rowOf[this.selected]));
    }
    if (changed.has("fold")) {
      const wanted = (now.fold ?? "").split(".").filter(Boolean).map(Number).filter((n) => n in this.code.loops);
      this.folded = new Set(wanted);
      this.layout();
    }
    if (changed.has("file") && now.file !== undefined) this.openFile(Number(now.file));
    if (changed.has("q")) this.find(now.q ?? "");
    if (changed.has("pc")) {
      const wanted = now.pc !== undefined ? this.model.index(parseInt(now.pc, 16)) : -1;
      const start = wanted >= 0 ? wanted : this.model.hottest[0] ?? 0;
      this.select(start);
    }
  }

  private select(i: number): void {
    this.selected = i;
    this.line = this.code.line[i] ? `${this.code.file[i]}:${this.code.line[i]}` : "";
    this.unfoldTo(i);
    if (this.line && this.code.file[i] !== this.file) this.openFile(this.code.file[i]);
    this.sass.refresh();
    this.source.refresh();
    this.sass.reveal(this.rowOf[i]);
    this.sass.active(this.rowOf[i]);
    const row = this.lineRow.get(this.code.line[i]);
    if (this.line && row !== undefined) this.source.reveal(row);
    this.showLinks(i);
    this.inspect();
  }

  private inspect(): void {
    const { code, model, selected: i } = this;
    clear(this.inspector);
    if (i < 0) return;
    const facts: [string, string][] = [];
    const fact = (name: string, value: string) => { if (value) facts.push([name, value]); };
    if (model.total) {
      fact("sampled here", `${code.samples[i].toLocaleString("en-US")} (${fine(model.share(i))})`);
      const blamed = model.blamed[i];
      fact("waited for", blamed >= 1 ? `${Math.round(blamed).toLocaleString("en-US")} (${fine(blamed / model.total)})` : "");
    }
    if (model.total) fact("executed", code.executed[i] ? counted(code.executed[i], "warps") : "never");
    fact("lanes", code.lanes[i] ? `${code.lanes[i]} of 32` : "");
    fact("access", model.bytes[i] ? `${model.spaces.get(i) ?? ""}, ${model.bytes[i]} bytes a lane` : "");
    for (const what of ["wavefronts", "sectors"]) {
      const moved = model.traffic(what, i), ideal = model.traffic(`${what}_ideal`, i);
      fact(what, moved ? `${si(moved, "")}${ideal ? `, ${si(ideal, "")} at best (${trim(moved / ideal, 3)}\u00d7)` : ""}` : "");
    }
    const names = (list: number[] | undefined) => [...new Set(list ?? [])].sort((a, b) => a - b).slice(0, 6).map((j) => hex(code.pcs[j])).join(", ");
    fact("reads from", names(model.uses.get(i)));
    fact("read by", names(model.feeds.get(i)));
    fact("live registers", code.live?.[i] ? String(code.live[i]) : "");
    fact("control", code.control?.[i] ?? "");
    const nest = model.nest(i);
    fact("loop depth", nest.length ? String(nest.length) : "");
    const list = h("dl", { class: "facts" });
    for (const [name, value] of facts) list.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
    const head = h("div", { class: "inspected" }, h("code", {}, `${hex(code.pcs[i])}  `, ...highlight(code.sass[i])));
    if (code.line[i]) head.append(h("span", { class: "dim" }, `${base(code.files[code.file[i]])}:${code.line[i]}`));
    const chain = model.inlined.get(i);
    if (chain) {
      const sites: string[] = [];
      for (let at = 0; at + 1 < chain.length; at += 2) sites.push(`${base(code.files[chain[at]] ?? "?")}:${chain[at + 1]}`);
      head.append(h("span", { class: "dim" }, `inlined at ${sites.join(", from ")}`));
    }
    for (const target of model.jumps.get(i) ?? []) {
      head.append(h("button", { type: "button", class: "jump", onclick: () => go({ pc: code.pcs[target].toString(16) }) },
        `to ${hex(code.pcs[target])}`));
    }
    this.inspector.append(head, list);
    const mix = model.stalls.get(i);
    if (mix?.length) {
      const whole = mix.reduce((sum, [, n]) => sum + n, 0);
      const reasons = h("ul", { class: "reasons" });
      for (const [reason, n] of mix.slice(0, 5)) {
        reasons.append(h("li", {}, h("span", { class: `swatch w-${stallClass(reason)}` }), `${plain(reason)} ${fine(n / whole)}`));
      }
      this.inspector.append(h("div", { class: "mix-box" }, mixBar(mix), reasons));
    }
    const cause = model.causes.get(i);
    if (cause) {
      const line = h("p", { class: "remark cause" }, `${plain(mix?.[0]?.[0] ?? "")}: `);
      let rest = cause[0];
      for (const pc of cause[1]) {
        const at = rest.indexOf(hex(pc));
        if (at < 0) continue;
        line.append(rest.slice(0, at), h("button", { type: "button", class: "link mono", onclick: () => go({ pc: pc.toString(16) }) }, hex(pc)));
        rest = rest.slice(at + hex(pc).length);
      }
      line.append(rest);
      this.inspector.append(line);
    }
    for (const f of model.findings.get(i) ?? []) {
      this.inspector.append(h("p", { class: "remark" }, h("span", { class: `chip ${f.severity}` }, f.code), ` ${f.title}`,
        f.estimate ? h("b", {}, ` ${times(f.estimate.speedup)}`) : null));
    }
    for (const note of model.notes.get(i) ?? []) this.inspector.append(h("p", { class: "remark" }, note));
  }

  private move(step: number): void {
    const at = Math.max(0, this.rowOf[this.selected] ?? 0);
    for (let next = at + step; next >= 0 && next < this.rows.length; next += Math.sign(step)) {
      const row = this.rows[next];
      if (row.kind === "instruction") { go({ pc: this.code.pcs[row.index].toString(16) }); return; }
    }
  }

  key(event: KeyboardEvent): boolean {
    const page = Math.max(1, Math.floor(this.sass.element.clientHeight / ROW) - 2);
    const inside = !(document.activeElement instanceof HTMLButtonElement) && !(document.activeElement instanceof HTMLAnchorElement);
    switch (event.key) {
      case "n": this.nextHot(1); return true;
      case "N": this.nextHot(-1); return true;
      case "/": this.search.focus(); this.search.select(); return true;
      case "f": {
        const loop = this.code.loop[this.selected] ?? -1;
        if (loop >= 0) this.toggle(loop);
        return true;
      }
      case "ArrowDown": if (inside) this.move(1); return inside;
      case "ArrowUp": if (inside) this.move(-1); return inside;
      case "PageDown": if (inside) this.move(Math.min(page, this.rows.length - 1 - this.rowOf[this.selected])); return inside;
      case "PageUp": if (inside) this.move(-Math.min(page, this.rowOf[this.selected])); return inside;
      case "Home": if (inside) go({ pc: this.code.pcs[0].toString(16) }); return inside;
      case "End": if (inside) go({ pc: this.code.pcs[this.model.count - 1].toString(16) }); return inside;
      default: return false;
    }
  }
}

function heat(share: number, level: number, loop = false): HTMLElement {
  const cell = h("span", { class: "heat-cell" });
  if (share > 0) {
    if (!loop) cell.append(styled(h("span", { class: "heat" }), { opacity: (0.06 + 0.74 * Math.sqrt(level)).toFixed(3) }));
    cell.append(h("span", { class: "num" }, share < 0.0005 ? "\u00b7" : fine(share)));
  }
  return cell;
}

function matches(text: string, needle: string): boolean {
  return text.toLowerCase().includes(needle);
}

function legend(): HTMLElement {
  const entry = (name: string, text: string) => h("span", {}, h("span", { class: `swatch w-${name}` }), text);
  return h("span", { class: "legend" }, entry("long", "global memory"), entry("short", "shared, MIO"), entry("sync", "barriers"),
    entry("wait", "fixed latency"), entry("math", "pipes"), entry("fetch", "fetch"), entry("run", "ready"));
}

function highlight(text: string): (Node | string)[] {
  const m = text.match(/^(@!?U?P\w+\s+)?([A-Z][\w.]*)([\s\S]*)$/);
  if (!m) return [text];
  const kind = TENSOR.test(m[2]) ? "tensor" : MEMORY.test(m[2]) ? "memory" : CONTROL.test(m[2]) ? "control" : "plain";
  return [m[1] ? h("span", { class: "guard" }, m[1]) : "", h("span", { class: `op ${kind}` }, m[2]), m[3]];
}

const WORDS = new RegExp("(//.*$|/\\*.*?\\*/|\"(?:[^\"\\\\]|\\\\.)*\")|\\b(__\\w+__|auto|bool|break|case|char|class|const|constexpr|"
  + "continue|def|do|double|else|extern|float|float2|float4|for|from|half|if|import|in|inline|int|int4|long|namespace|return|short|"
  + "size_t|sizeof|static|struct|switch|template|typename|uint32_t|uint4|unsigned|using|void|volatile|while)\\b|"
  + "\\b(0x[\\da-fA-F]+|\\d[\\d.]*(?:e[+-]?\\d+)?[fFuUlL]*)\\b", "g");

/** A light touch of colour on C++ or Python source: comments and strings, keywords, numbers. */
function paint(text: string): (Node | string)[] {
  if (text.length > 400) return [text];
  const out: (Node | string)[] = [];
  let last = 0;
  for (const m of text.matchAll(WORDS)) {
    if (m.index > last) out.push(text.slice(last, m.index));
    out.push(h("span", { class: m[1] ? "quoted" : m[2] ? "keyword" : "literal" }, m[0]));
    last = m.index + m[0].length;
  }
  out.push(text.slice(last));
  return out;
}
