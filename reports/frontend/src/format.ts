// Numbers and names as people read them; the same forms as kscope.reports.words.

export function time(us: number | null | undefined): string {
  if (us === null || us === undefined) return "time unknown";
  for (const [scale, unit] of [[1e6, "s"], [1e3, "ms"], [1, "\u00b5s"]] as [number, string][]) {
    if (us >= scale) return `${(us / scale).toFixed(us / scale >= 9.995 ? 1 : 2)}\u00a0${unit}`;
  }
  return `${(us * 1e3).toFixed(0)} ns`;
}

export function si(value: number, unit: string, digits = 3): string {
  const scales: [number, string][] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [scale, prefix] of scales) {
    if (Math.abs(value) >= scale * 0.9995) return `${trim(value / scale, digits)}\u00a0${prefix}${unit}`.trim();
  }
  return `${trim(value, digits)}\u00a0${unit}`.trim();
}

export function trim(value: number, digits = 3): string {
  const text = value.toPrecision(digits);
  if (/e/.test(text)) return String(Number(text));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function number(value: number | string | null): string {
  if (value === null) return "not collected";
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return "not a number";
  if (Number.isInteger(value) || Math.abs(value) >= 1e4) return Math.round(value).toLocaleString("en-US");
  return trim(value, 4);
}

export function percent(share: number): string {
  return share > 0 && share < 0.01 ? "<1\u00a0%" : `${(share * 100).toFixed(0)}\u00a0%`;
}

export function fine(share: number): string {
  const pct = share * 100;
  const text = pct === 0 ? "0" : pct < 0.05 ? "<0.1" : pct.toFixed(pct < 9.95 ? 1 : 0);
  return `${text}\u00a0%`;
}

function digits(speedup: number): number {
  return speedup < 1.95 ? 2 : speedup < 9.95 ? 1 : 0;
}

/** Decimals as Python writes them: what lies exactly between two goes to the even one, where toFixed goes up. */
function fixed(value: number, decimals: number): string {
  const scaled = value * 10 ** decimals;
  const tie = Number.isInteger(value * 8) && scaled % 1 === 0.5; // only eighths lie exactly between two of up to two decimals
  return tie ? (2 * Math.round(scaled / 2) / 10 ** decimals).toFixed(decimals) : value.toFixed(decimals);
}

export function times(speedup: number): string {
  return `${fixed(speedup, digits(speedup))}\u00d7`;
}

/** The bound of what a kernel can gain; past a hundred the figure says nothing more. */
export function headroom(bound: number): string {
  return bound > 100 ? ">100\u00d7" : times(bound);
}

/** Bounds of a speed-up with its own decimals, as kscope.model.units.span writes them. */
export function range(low: number, high: number, like: number): string {
  return `${fixed(low, digits(like))} \u2013 ${fixed(high, digits(like))}`;
}

export function dims(shape: number[]): string {
  const kept = [...shape];
  while (kept.length > 1 && kept[kept.length - 1] === 1) kept.pop();
  return kept.join("\u00d7");
}

export function base(path: string): string {
  const parts = path.replace(/\\/g, "/").split("/");
  return parts[parts.length - 1] || path;
}

export function hex(pc: number): string {
  return pc.toString(16).padStart(4, "0");
}

const CAST = /(?<=[<, ])\((?:(?:un)?signed|int|bool|char|short|long|\s)+\)(?=-?\d)/g;

/** A demangled name without `void` and the types that ncu writes before numbers in template arguments. */
export function readable(name: string): string {
  return name.replace(/^void /, "").replace(CAST, "");
}

/** The demangled name as far as its parameter list. */
export function short(name: string): string {
  const text = readable(name);
  if (!text.endsWith(")")) return text;
  let depth = 0;
  for (let i = text.length - 1; i > 0; i--) {
    if (text[i] === ")") depth++;
    else if (text[i] === "(" && --depth === 0) return text.slice(0, i);
  }
  return text;
}

/** A name in about `limit` characters: parameters go first, then template arguments, then the namespaces. */
export function compact(name: string, limit = 72): string {
  const bare = short(name);
  if (bare.length <= limit) return bare;
  let out = "", depth = 0, inner = 0;
  const text = bare.replace(/operator\s*(<=>|<<=?|>>=?|<=?|>=?|->\*?)/g, (m) => "\0".repeat(m.length));
  for (let i = 0; i < text.length; i++) {
    if (depth && "()".includes(text[i])) inner += text[i] === "(" ? 1 : -1; // an expression: enable_if<((8)>(0)), int>
    else if (inner > 0) continue;
    else if (text[i] === "<") { if (!depth++) out += "<\u2026>"; }
    else if (text[i] === ">") { if (--depth < 0) return middle(bare, limit); }
    else if (!depth) out += bare[i];
  }
  if (depth) return middle(bare, limit);
  out = out.replace(/<\u2026>\([^)]*$/, "<\u2026>"); // parameters of a name that was cut short
  if (!out.includes("operator")) out = out.replace(/^.*[ *&](?![^(]*\))/, ""); // what it returns
  if (out.length > limit) out = out.split("::").pop() ?? out;
  return middle(out, limit);
}

function middle(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit / 2)}\u2026${text.slice(text.length - limit / 2 + 1)}`;
}

/** Units of a sentence as the page writes them everywhere else: 10 us, 2.3x. */
export function units(text: string): string {
  return text.replace(/(\d) us\b/g, "$1\u00a0\u00b5s").replace(/(^|[\s(])(\d[\d.,]*)x(?=[\s,.;)]|$)/g, "$1$2\u00d7");
}

/** A number of things in short: 131 k warps. */
export function counted(value: number, noun: string): string {
  return `${si(value, "")}\u00a0${noun}`;
}

export function plain(reason: string): string {
  return reason.replace(/_/g, " ");
}

/** A precision of the roofline as people write it: FP32, tensor BF16. */
export function precision(name: string): string {
  return name.replace(/\S+$/, (kind) => kind.toUpperCase());
}
