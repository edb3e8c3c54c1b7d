// What the report's data holds: JSON v1 (kscope.model.analysis) and, beside it, kscope.model.detail.

export interface Estimate { speedup: number; low: number; high: number; capped_by: string; kind: string }
export interface Evidence { metric: string; value: number | string | null; unit: string; note: string }
export interface Place {
  function: string; pc: number; opcode: string; file: string | null; line: number | null; share: number | null;
  sass: string | null; source: string | null;
}
export interface Finding {
  rule: string; code: string; title: string; regime: string; severity: string; estimate: Estimate | null;
  evidence: Evidence[]; locations: Place[]; why: string; fix: string; confidence: number; overlaps: string[];
}
export interface Verdict { regime: string; limiter: string; confidence: number; sentence: string }
export interface Stall { reason: string; share_raw: number; share_adjusted: number; low: number; high: number }
export interface Roofline {
  flops_per_s: number; bytes_per_s: number; intensity: number | null; ridge: number | null; pct_of_roof: number;
  precision: string; peak_flops_per_s: number | null; peak_bytes_per_s: number | null;
}
export interface Role {
  role: string; warps: number; share: Record<string, number>; low: Record<string, number> | null; high: Record<string, number> | null;
  retries: { waits_for: string; failed: number; made: number }[];
  sampling_error: number;
}
export interface Specialization {
  roles: Role[]; tier: string; stages: number | null; stage_bytes: number | null; tiles_per_block: number | null;
  lost: Record<string, number> | null; amortisation: { work: number; us: number; fixed_pct: number }[]; not_advice: string[]; sampled_every: number | null;
  timeline: { fill_us: number; steady_us: number; drain_us: number; steady_utilization_pct: number; bubbles: number; bubble_us: number;
    plateau_pct: number | null; error_us: number; resolved: boolean; unit: string } | null;
}
export interface Kernel {
  id: string; name: string; demangled: string; input: string; duration_us: number | null;
  device: { name: string; cc: string; sms: number };
  launch: {
    grid: number[]; block: number[]; cluster: number[]; registers: number; shared_static: number;
    shared_dynamic: number; waves: number | null;
  };
  verdict: Verdict; headroom: { speedup_bound: number; bounded_by: string } | null; roofline: Roofline | null;
  utilization: { unit: string; pct: number; metric: string }[]; stalls: Stall[];
  warp_specialization: Specialization | null; findings: Finding[]; passed: string[];
  not_applicable: { code: string; why: string }[]; errors: { code: string; message: string }[];
  nvidia: { rule: string; title: string; message: string; speedup_pct: number | null; type: string }[];
  nvtx: string[]; repeats: { count: number; min_us: number; median_us: number; max_us: number; total_us: number } | null;
  notes: string[]; workload: string;
}
export interface Timeline {
  input: string; window: string; span_us: number; gpu_busy_pct: number; verdict: Verdict | null; abstained: string;
  idle: { cause: string; us: number; pct: number; gaps: number; during: string[] }[]; findings: Finding[];
  top_kernels: { name: string; count: number; total_us: number; mean_us: number; share: number; kind: string;
    grid: number[]; block: number[]; operators: string[]; source: string }[];
  compiled: { graphs_per_step: number; compilations: number; recompilations: string[]; compile_us: number } | null;
  devices: { device: number; name: string; idle_pct: number; operations: number; kernels: number; busy_us: number }[];
  steps: { name: string; count: number; median_us: number; min_us: number; max_us: number; kernels: number;
    busy_pct: number; synchronizations: number } | null;
  launches: { latency_us: number; interval_us: number; queue_depth: number; queue_full_us: number; call_us: number } | null;
  copies: { direction: string; count: number; bytes: number; us: number; gb_per_s: number; pageable_pct: number;
    overlapped_pct: number }[];
  passed: string[]; not_applicable: { code: string; why: string }[]; errors: { code: string; message: string }[];
  coverage: { notes: string[] }; communication?: Communication | null;
}
export interface Communication {
  us: number; pct: number; exposed_us: number; exposed_pct: number; overlapped_us: number; waiting_us: number | null;
  kinds: { what: string; group: string; size: number; count: number; bytes: number; us: number; exposed_us: number }[];
}
export interface Rank {
  rank: number; input: string; computing_pct: number; sending_pct: number; waiting_pct: number; copying_pct: number;
  idle_pct: number; awaited_us: number; clock_us: number;
}
export interface Job {
  name: string; inputs: string[]; world: number; ranks: Rank[]; span_us: number; steps: number; step_us: number | null;
  verdict: Verdict | null; abstained: string; critical: number; straggler: number | null; matched: number;
  shares: { what: string; pct: number }[]; findings: Finding[]; notes: string[];
  late: { what: string; step: number; late: number; waiting_us: number }[];
}
export interface Joined {
  input: string; reports: string[]; verdict: Verdict | null; span_us: number; kernels_pct: number; matched_pct: number; abstained: string;
  kernels: { name: string; count: number; total_us: number; share: number; kernel: string | null; regime: string | null;
    limiter: string | null; headroom: number | null; why: string }[];
  suggestions: { rule: string; code: string; title: string; kernel: string | null; share: number | null; severity: string;
    estimate: Estimate; kernel_speedup: number | null; why: string; fix: string; confidence: number }[];
}
export interface Analysis {
  schema: string; kscope: string; inputs: { path: string; kind: string; tool_version: string | null }[];
  kernels: Kernel[]; timelines: Timeline[]; joined?: Joined[]; jobs?: Job[]; skipped: { input: string; what: string; message: string }[];
}

export interface Steps { resource: string; unit: string; now: number; at: number[]; warps: number[] }
export interface Occupancy {
  maximum: number; theoretical: number; achieved: number | null; warps_per_block: number;
  limits: Record<string, number>; steps?: Steps[];
}
export interface Series { name: string; title: string; group: string; values: number[] }
export interface Pm {
  bin_ns: number; sampled_ns: number; series: Series[]; fill_ns?: number; drain_ns?: number; bubbles?: [number, number][];
}
export interface Node { id: string; title: string; hit_pct?: number; busy_pct?: number; note?: string }
export interface Link { source: string; target: string; value: number; unit?: string; note?: string }
export interface Loop { first: number; last: number; depth: number; parent: number; size: number }
export interface Code {
  function: string; pcs: number[]; sass: string[]; files: string[]; file: number[]; line: number[]; samples: number[];
  executed: number[]; lanes: number[]; loop: number[]; loops: Loop[]; stalls: Record<string, number[]>; blamed: number[];
  bytes: number[]; jumps: number[]; spaces?: Record<string, number[]>; live?: number[]; control?: string[];
  notes?: [number, string][]; inlined?: number[][]; sources?: Record<string, string>;
}
export interface Roofs {
  levels: { name: string; bytes_per_s: number; peak?: number }[];
  ceilings: { precision: string; flops: number; peak: number }[];
}
export interface KernelDetail {
  id: string; roofs?: Roofs; memory?: { nodes: Node[]; links: Link[] }; occupancy?: Occupancy; pm?: Pm; code?: Code;
}
export interface Row {
  kind: string; title: string; device?: number; start: number[]; length: number[]; name: number[]; count?: number[];
}
export interface TimelineDetail {
  index: number; low: number; high: number; end: number; names: string[]; causes: string[]; rows: Row[];
  gaps: { device: number; start: number[]; length: number[]; cause: number[] }[]; steps?: number[]; merged_ns?: number;
}
export interface PairChange { what: string; unit: string; before: number | null; after: number | null }
export interface KernelPair {
  before: Kernel; after: Kernel; speedup: number | null; sentence: string; fixed: string[]; new: string[]; remaining: string[];
  unknown: string[]; changes: PairChange[]; next: Finding | null;
  promises: { code: string; rule: string; speedup: number; low: number; high: number; measured: number; alone: boolean; outcome: string; shared_with: string[] }[];
  matched_by: string; guess: boolean; gone: string[];
}
export interface TimelinePair {
  before: Timeline; after: Timeline; speedup: number | null; sentence: string; fixed: string[]; new: string[]; remaining: string[]; unknown: string[];
  changes: PairChange[];
}
export interface Comparison {
  pairs: KernelPair[]; timelines: TimelinePair[]; only_before: string[]; only_after: string[]; speedup: number | null;
  notes: string[]; skipped: { input: string; what: string; message: string }[];
}
export interface ProgramFunction {
  name: string; demangled: string; title: string; registers: number | null; facts: [string, string][]; findings: Finding[]; code: Code;
}
export interface Program { input: string; arch: string; functions: ProgramFunction[] }
export interface SassLine { kind: string; before_pc: number | null; after_pc: number | null; before: string | null; after: string | null }
export interface FunctionDiff {
  before: string; after: string; demangled: string; arch_before: string; arch_after: string; identical: boolean; same: number; changed: number;
  removed: number; added: number; figures: PairChange[]; mix: PairChange[]; accesses: PairChange[]; fixed: string[]; remaining: string[];
  new: Finding[]; hunks: SassLine[][]; matched_by: string;
}
export interface SassComparison {
  functions: FunctionDiff[]; only_before: string[]; only_after: string[]; notes: string[];
  added: { demangled: string; findings: Finding[] }[];
}
export interface Data {
  comparison?: Comparison; sass?: SassComparison; analysis: Analysis; detail: { kernels?: KernelDetail[]; timelines?: TimelineDetail[]; programs?: Program[] }; pages: Record<string, string>;
  names?: string[];
  words: { limiters: Record<string, string>; causes: Record<string, string>; reasons: Record<string, string> };
}
