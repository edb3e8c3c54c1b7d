// The code of a kernel as the view needs it: columns looked up by instruction, lines with their instructions, loops.

import type { Code, Finding } from "./types";

export interface SourceLine { file: number; number: number; text: string; samples: number; instructions: number[] }

export class CodeModel {
  readonly count: number;
  readonly total: number;
  readonly peak: number;
  readonly blamed: Float64Array;
  readonly bytes: Int32Array;
  readonly spaces = new Map<number, string>();
  readonly stalls = new Map<number, [string, number][]>();
  readonly findings = new Map<number, Finding[]>();
  readonly notes = new Map<number, string[]>();
  readonly causes = new Map<number, [string, number[]]>();
  readonly inlined = new Map<number, number[]>();
  readonly hottest: number[];
  readonly jumps = new Map<number, number[]>();
  readonly byLine = new Map<string, number[]>();
  readonly loopSamples: number[];

  constructor(readonly code: Code, findings: Finding[]) {
    this.count = code.pcs.length;
    this.total = code.samples.reduce((a, b) => a + b, 0);
    this.peak = Math.max(1, ...code.samples);
    this.blamed = new Float64Array(this.count);
    this.bytes = new Int32Array(this.count);
    for (let i = 0; i < code.blamed.length; i += 2) this.blamed[code.blamed[i]] = code.blamed[i + 1];
    for (let i = 0; i < code.bytes.length; i += 2) this.bytes[code.bytes[i]] = code.bytes[i + 1];
    for (const [space, members] of Object.entries(code.spaces ?? {})) for (const i of members) this.spaces.set(i, space);
    for (const [reason, pairs] of Object.entries(code.stalls)) {
      for (let i = 0; i < pairs.length; i += 2) push(this.stalls, pairs[i], [reason, pairs[i + 1]] as [string, number]);
    }
    for (const list of this.stalls.values()) list.sort((a, b) => b[1] - a[1]);
    const place = new Map(code.pcs.map((pc, i) => [pc, i]));
    for (const f of findings) {
      for (const pc of [...f.locations.map((at) => at.pc), ...(f.covered ?? [])]) {
        const i = place.get(pc);
        if (i !== undefined && !this.findings.get(i)?.includes(f)) push(this.findings, i, f);
      }
    }
    for (const [i, text, pcs] of code.causes ?? []) this.causes.set(i, [text, pcs]);
    for (const [i, note] of code.notes ?? []) push(this.notes, i, note);
    for (const [i, ...sites] of code.inlined ?? []) this.inlined.set(i, sites);
    for (let at = 0; at < (code.depends?.length ?? 0); at += 2) {
      push(this.uses, code.depends![at + 1], code.depends![at]);
      push(this.feeds, code.depends![at], code.depends![at + 1]);
    }
    for (let i = 0; i < code.jumps.length; i += 2) push(this.jumps, code.jumps[i], code.jumps[i + 1]);
    for (let i = 0; i < this.count; i++) if (code.line[i]) push(this.byLine, `${code.file[i]}:${code.line[i]}`, i);
    this.hottest = code.samples.map((_, i) => i).filter((i) => code.samples[i] > 0)
      .sort((a, b) => code.samples[b] - code.samples[a] || a - b);
    this.loopSamples = code.loops.map(() => 0);
    for (let i = 0; i < this.count; i++) {
      for (let loop = code.loop[i]; loop >= 0; loop = code.loops[loop].parent) this.loopSamples[loop] += code.samples[i];
    }
  }

  private readonly counted = new Map<string, Map<number, number>>();
  readonly feeds = new Map<number, number[]>();
  readonly uses = new Map<number, number[]>();

  /** Whether a kind of traffic was counted at single instructions. */
  has(what: string): boolean {
    return Boolean(this.code.traffic?.[what]?.length);
  }

  traffic(what: string, i: number): number {
    let column = this.counted.get(what);
    if (!column) {
      column = new Map();
      const pairs = this.code.traffic?.[what] ?? [];
      for (let at = 0; at < pairs.length; at += 2) column.set(pairs[at], pairs[at + 1]);
      this.counted.set(what, column);
    }
    return column.get(i) ?? 0;
  }

  index(pc: number): number {
    let [low, high] = [0, this.count - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (this.code.pcs[middle] === pc) return middle;
      if (this.code.pcs[middle] < pc) low = middle + 1; else high = middle - 1;
    }
    return -1;
  }

  share(i: number): number {
    return this.total ? this.code.samples[i] / this.total : 0;
  }

  /** Loops from the outermost in that hold an instruction. */
  nest(i: number): number[] {
    const out: number[] = [];
    for (let loop = this.code.loop[i]; loop >= 0; loop = this.code.loops[loop].parent) out.unshift(loop);
    return out;
  }

  lines(file: number): SourceLine[] {
    const text = (this.code.sources?.[this.code.files[file]] ?? "").split(/\r?\n/);
    if (text.length > 1 && text[text.length - 1] === "") text.pop();
    const known = text.length > 1 || text[0] !== "";
    const last = Math.max(known ? text.length : 0, ...this.code.line.filter((_, i) => this.code.file[i] === file));
    const out: SourceLine[] = [];
    for (let number = 1; number <= last; number++) {
      const instructions = this.byLine.get(`${file}:${number}`) ?? [];
      if (!known && !instructions.length) continue;
      const samples = instructions.reduce((sum, i) => sum + this.code.samples[i], 0);
      out.push({ file, number, text: known ? text[number - 1] ?? "" : "", samples, instructions });
    }
    return out;
  }

  mix(instructions: number[]): [string, number][] {
    const sum = new Map<string, number>();
    for (const i of instructions) for (const [reason, n] of this.stalls.get(i) ?? []) sum.set(reason, (sum.get(reason) ?? 0) + n);
    return [...sum].sort((a, b) => b[1] - a[1]);
  }
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value); else map.set(key, [value]);
}
