// Made by tools/frontend_types.py from kscope.model (`make frontend`): not to be edited.

export interface AccessRow {
  access: string; space: string; kind: string; bytes: number | null; instructions: number; in_loops: number;
  stack: string; executed: number | null; unit: string; moved: number | null; ideal: number | null;
}

export interface AddedFunction {
  name: string; demangled: string; arch: string; findings: Finding[];
}

export interface Amortisation {
  work: number; us: number; fixed_pct: number;
}

export interface Analysis {
  schema: string; kscope: string; inputs: Input[]; kernels: KernelAnalysis[]; timelines: TimelineAnalysis[];
  joined: JoinedAnalysis[]; jobs: JobAnalysis[]; programs: ProgramAnalysis[]; skipped: SkippedInput[];
}

export interface BesideProblem {
  text: string; floor_us: number; attained_us: number; above: number; limiter: string; verdict: string;
  explanations: string[];
}

export interface Bounded {
  time_us: number; chip: string; chip_from: string; grid: [number, number, number]; block: [number, number, number];
  shared_dynamic: number; resident: ResidentWarps | null; pipes: PipeTime[]; loops: RoundsBound[]; refused: string[];
  device_bytes: number; problem: BesideProblem | null; says: string[]; unknown: Unknown[]; next: NextStep;
}

export interface Cause {
  pc: number; samples: number;
}

export interface Ceiling {
  precision: string; flops: number; peak: number;
}

export interface Change {
  what: string; unit: string; before: number | null; after: number | null;
}

export interface CodeDetail {
  function: string; pcs: number[]; sass: string[]; files: string[]; file: number[]; line: number[]; samples: number[];
  executed: number[]; lanes: number[]; loop: number[]; loops: LoopDetail[]; stalls: Record<string, number[]>;
  blamed: number[]; bytes: number[]; jumps: number[]; spaces?: Record<string, number[]>; live?: number[];
  control?: string[]; notes?: [number, string][]; causes?: [number, string, number[]][]; inlined?: number[][];
  traffic?: Record<string, number[]>; depends?: number[]; sources?: Record<string, string>;
}

export interface CollectiveFigures {
  what: string; group: string; ranks: number[]; size: number; count: number; bytes: number; us: number;
  exposed_us: number; waiting_us: number | null;
}

export interface CommunicationFigures {
  us: number; pct: number; exposed_us: number; exposed_pct: number; overlapped_us: number; waiting_us: number | null;
  operations: number; kinds: CollectiveFigures[]; steps: StepCommunication[]; devices: DeviceCommunication[];
}

export interface Comparison {
  schema: string; kscope: string; before: Input[]; after: Input[]; pairs: KernelPair[]; timelines: TimelinePair[];
  only_before: string[]; only_after: string[]; speedup: number | null; skipped: SkippedInput[]; notes: string[];
}

export interface CompiledFigures {
  regions: Record<string, number>; graphs_per_step: number; compilations: number; recompilations: string[];
  compile_us: number;
}

export interface Condition {
  holds: string; state: "assumed" | "check" | "proved"; why: string; by: "" | "code" | "lanes" | "launch" | "values";
  ran: number;
}

export interface ControlView {
  stall: number; yields?: boolean; write_barrier?: number; read_barrier?: number; waits?: number[]; reuse?: number;
}

export interface CopyFigures {
  direction: string; count: number; bytes: number; us: number; gb_per_s: number; pageable_pct: number;
  overlapped_pct: number;
}

export interface CounterCourse {
  title: string; device: number; unit: string; start: number[]; length: number; value: number[]; peak: number;
}

export interface CounterFigures {
  source: string; device: number | null; name: string; unit: string; mean: number; max: number; samples: number;
}

export interface CriticalPart {
  what: string; name: string; us: number;
}

export interface CriticalPathFigures {
  us: number; gpu_pct: number; between_pct: number; launch_pct: number; host_pct: number; parts: CriticalPart[];
  pieces: [number, number, string][]; events: number; events_unknown: number;
}

export interface Detail {
  kernels?: KernelDetail[]; timelines?: TimelineDetail[]; programs?: ProgramDetail[];
}

export interface DetailSeries {
  name: string; title: string; group: string; values: number[]; partial?: number;
}

export interface DeviceCommunication {
  device: number; us: number; exposed_us: number;
}

export interface DeviceInfo {
  name: string; cc: string; sms: number;
}

export interface DeviceUse {
  device: number; name: string; operations: number; kernels: number; busy_us: number; span_us: number;
  idle_pct: number;
}

export interface Edit {
  file: string; line: number; was: string; becomes: string;
}

export interface Estimate {
  speedup: number; low: number; high: number; capped_by: string; kind: "measured" | "modelled"; relieves: string[];
}

export interface Evidence {
  metric: string; value: number | string | null; unit: string; note: string;
}

export interface Finding {
  rule: string; code: string; title: string; regime: "compute" | "memory" | "overhead";
  severity: "critical" | "info" | "major" | "minor"; estimate: Estimate | null; evidence: Evidence[];
  locations: Location[]; why: string; fix: string; confidence: number; overlaps: string[]; remedies: Remedy[];
  pulls: string[]; first: string[]; order: string; roof: string; fixes: Fix[]; covered: number[];
  covered_share: number | null;
}

export interface Fix {
 
  kind: "aggregate" | "align" | "block_size" | "build" | "carveout" | "copy_constants" | "descriptor_swizzle" | "divisor" | "element_access" | "fence" | "hoist" | "host_copy" | "index_width" | "jam" | "lane_mapping" | "launch_bounds" | "literal" | "math_function" | "neighbours" | "none" | "pad" | "qualifier" | "reciprocal" | "register" | "shared_bytes" | "stages" | "swizzle" | "texel_loads" | "tile" | "unroll" | "vector_access";
  title: string; language: "" | "cuda" | "triton"; code: string; edits: Edit[]; above: number;
  parameters: Record<string, number | string>; conditions: Condition[]; proof: Proof[]; costs: string[];
  price: Estimate | null; refused: string;
}

export interface FunctionAnalysis {
  name: string; demangled: string; registers: number | null; stack: number | null; shared: number | null;
  spill_stores: number | null; spill_loads: number | null; instructions: number; loops: LoopView[];
  findings: Finding[]; passed: string[]; not_applicable: NotApplicable[]; errors: RuleError[]; entry: boolean;
  mix: MixRow[]; accesses: AccessRow[]; occupancy: Occupancy | null; listing: InstructionView[]; kernel: string;
  launch: string; duration_us: number | null; samples: number | null; sources: Record<string, Record<number, string>>;
  notes: string[]; bounded: Bounded;
}

export interface FunctionDetail {
  name: string; demangled: string; facts: [string, string][]; findings: Finding[]; code: CodeDetail;
  summary?: [string, string[]][];
}

export interface FunctionDiff {
  before: string; after: string; demangled: string; arch_before: string; arch_after: string;
  matched_by: "by hand" | "code" | "elimination" | "name" | "name without arguments"; identical: boolean; same: number;
  changed: number; removed: number; added: number; figures: Change[]; mix: Change[]; accesses: Change[];
  fixed: string[]; remaining: string[]; new: Finding[]; hunks: SassLine[][];
}

export interface GapRow {
  device: number; start: number[]; length: number[]; cause: number[];
}

export interface Headroom {
  speedup_bound: number; bounded_by: string;
}

export interface HotInstruction {
  pc: number; sass: string; share: number; stall: string; file: string | null; line: number | null;
  source: string | null; cause: string; cause_pcs: number[];
}

export interface IdleCause {
  cause: string; us: number; pct: number; gaps: number; during: string[];
}

export interface Input {
  path: string; kind: "cubin" | "kineto" | "ncu" | "nsys"; tool_version: string | null;
}

export interface InstructionView {
  pc: number; sass: string; role: string; pipe: string; symbol?: string; depth?: number; loop?: number; live?: number;
  control?: ControlView; latency?: number; scoreboard?: string; access?: string; bytes?: number; stack?: string;
  waits?: WaitView[]; notes?: string[]; findings?: string[]; file?: string; line?: number;
  inlined?: [string, number][]; measured?: Measured;
}

export interface JobAnalysis {
  name: string; inputs: string[]; world: number; ranks: RankFigures[]; span_us: number; steps: number;
  step_us: number | null; verdict: Verdict | null; abstained: string; critical: number; straggler: number | null;
  matched: number; matched_pct: number; shares: TimeShare[]; late: LateCollective[]; findings: Finding[];
  passed: string[]; not_applicable: NotApplicable[]; errors: RuleError[]; notes: string[];
}

export interface JoinedAnalysis {
  input: string; reports: string[]; verdict: Verdict | null; span_us: number; kernels_pct: number; matched_pct: number;
  abstained: string; regimes: RegimeShare[]; kernels: JoinedKernel[]; suggestions: JoinedSuggestion[];
  unused: string[];
}

export interface JoinedKernel {
  name: string; grid: [number, number, number]; block: [number, number, number]; count: number; total_us: number;
  share: number; kernel: string | null; regime: "compute" | "memory" | "overhead" | null;
  limiter: "atomics" | "barrier" | "communication" | "dependency_latency" | "divergence" | "dram_bandwidth" | "fp32_pipe" | "fp64_pipe" | "host" | "imbalance" | "instruction_fetch" | "instruction_issue" | "integer_pipe" | "l1_throughput" | "l2_bandwidth" | "launch" | "memory_latency" | "pipeline_fill" | "shared_memory" | "small_grid" | "special_function" | "synchronization" | "tail" | "tensor_pipe" | "transfer" | "unknown" | null;
  headroom: number | null; why: string;
}

export interface JoinedSuggestion {
  rule: string; code: string; title: string; kernel: string | null; share: number | null;
  severity: "critical" | "info" | "major" | "minor"; estimate: Estimate; busy_speedup: number | null;
  kernel_speedup: number | null; why: string; fix: string; confidence: number;
}

export interface KernelAnalysis {
  id: string; name: string; demangled: string; input: string; duration_us: number | null; device: DeviceInfo;
  launch: LaunchInfo; verdict: Verdict; headroom: Headroom | null; roofline: Roofline | null;
  utilization: Utilization[]; stalls: Stall[]; warp_specialization: WarpSpecialization | null; findings: Finding[];
  passed: string[]; not_applicable: NotApplicable[]; errors: RuleError[]; nvidia: NvidiaFinding[]; nvtx: string[];
  hot: HotInstruction[]; repeats: Repeats | null; notes: string[]; workload: string; problem: ProblemFit;
  next: NextStep | null; library: LibraryKernel | null;
}

export interface KernelDetail {
  id: string; roofs?: Roofs; memory?: MemoryChart; occupancy?: OccupancyDetail; pm?: PmDetail; code?: CodeDetail;
  loops?: LoopFacts[]; clocks?: Record<string, number>; caches?: string;
}

export interface KernelPair {
  before: KernelAnalysis; after: KernelAnalysis;
  matched_by: "by hand" | "code" | "elimination" | "name" | "name and launch" | "name and signature" | "name without arguments" | "position";
  speedup: number | null; sentence: string; fixed: string[]; new: string[]; remaining: string[]; unknown: string[];
  promises: Promise[]; changes: Change[]; next: Finding | null; guess: boolean; gone: string[]; against: string[];
}

export interface KernelSpread {
  min_us: number; median_us: number; p95_us: number; max_us: number; outliers: number; outliers_share: number;
}

export interface KernelToProfile {
  name: string; grid: [number, number, number]; block: [number, number, number]; share: number; speedup_bound: number;
  skip: number; command: string;
}

export interface LateCollective {
  what: string; group: string; step: number; late: number; waiting_us: number;
}

export interface LaunchFigures {
  count: number; call_us: number; latency_us: number; queue_us: number; interval_us: number; queue_depth: number;
  waits_pct: number; short_kernels_pct: number; tklqt_us: number; queue_full_us: number;
}

export interface LaunchInfo {
  grid: [number, number, number]; block: [number, number, number]; cluster: [number, number, number];
  registers: number; shared_static: number; shared_dynamic: number; waves: number | null; known: boolean;
}

export interface Level {
  name: string; bytes_per_s: number; peak?: number; busy?: number; unit?: string; metric?: string; roof?: number;
}

export interface LibraryKernel {
  library: string; scheme: string; says: Record<string, string>; change: string; tensor: string;
}

export interface Link {
  source: string; target: string; value: number; unit?: string; note?: string; pct?: number; requests?: number;
  marks?: string[];
}

export interface Location {
  function: string; pc: number; opcode: string; file: string | null; line: number | null; share: number | null;
  sass: string | null; source: string | null; sampled: number; own: OwnPlace;
}

export interface LoopDetail {
  first: number; last: number; depth: number; parent: number; size: number;
}

export interface LoopFacts {
  number: number; start: number; end: number; depth: number; file: string; line: number; share: number; rounds: number;
  trips: number | null; mix: Record<string, number>; invariant: Record<string, number>; same?: number[];
}

export interface LoopView {
  number: number; start: number; end: number; depth: number; parent: number | null; instructions: number; own: number;
  kind: string; bounds: PipeCycles[]; refused: string; file: string | null; line: number | null; rounds: number | null;
  share: number | null;
}

export interface LostTime {
  fill: number; drain: number; uneven: number; turnover: number; data: number; epilogue: number; loop: number;
  pipe: number;
}

export interface Measured {
  samples?: number; blamed?: number; stalls?: StallShare[]; causes?: Cause[]; executed?: number; lanes?: number;
  ways?: number; unit?: string; moved?: number; ideal?: number;
}

export interface MemoryChart {
  nodes: Node[]; links: Link[];
}

export interface MemoryCourse {
  device: number; start: number[]; allocated: number[]; reserved: number[]; end: number; peak: number;
}

export interface MemoryFigures {
  device: number; peak_bytes: number; peak_at_us: number; reserved_bytes: number; holes_bytes: number;
  holders: MemoryHolder[]; levels_bytes: number[]; growth_bytes: number; curve: [number, number, number][];
}

export interface MemoryHolder {
  name: string; bytes: number;
}

export interface MixRow {
  pipe: string; instructions: number; in_loops: number; executed: number | null;
}

export interface NextStep {
  do: "change_algorithm" | "go_on" | "measure" | "stop"; words: string; why: string; code: string | null;
  command: string | null; speedup: number | null; odds: Odds | null;
}

export interface Node {
  id: string; title: string; hit_pct?: number; busy_pct?: number; note?: string; marks?: string[]; limit?: boolean;
}

export interface NotApplicable {
  code: string; why: string;
}

export interface NvidiaFinding {
  rule: string; title: string; message: string; speedup_pct: number | null; type: "" | "global" | "local";
  tables: NvidiaTable[];
}

export interface NvidiaTable {
  title: string; headers: string[]; rows: string[][];
}

export interface Occupancy {
  threads: number; threads_from: string; blocks: number; warps: number; warps_max: number; limits: string[];
  steps: OccupancyStep[]; handover: number[]; live_max: number | null; live_max_pc: number | null;
}

export interface OccupancyDetail {
  maximum: number; theoretical: number; achieved: number | null; warps_per_block: number;
  limits: Record<string, number>; steps?: Steps[];
}

export interface OccupancyStep {
  registers: number; blocks: number; warps: number;
}

export interface Odds {
  built: number; gained: number; slower: number; least: number; below: number | null;
}

export interface OperatorFigures {
  name: string; count: number; own_us: number; total_us: number; share: number; host_us: number; callers: string[];
  roofline: OperatorRoofline | null;
}

export interface OperatorRoofline {
  known: number; flop: number; bytes: number; flops_per_s: number; bytes_per_s: number; precision: string;
  peak_flops_per_s: number | null; peak_bytes_per_s: number; pct_of_roof: number; bounded_by: string; headroom: number;
  tf32_speedup: number | null;
}

export interface OperatorTree {
  name: number[]; parent: number[]; count: number[]; ns: number[]; own: number[]; gpu: number[]; left_out?: number;
}

export interface OwnPlace {
  file: string; line: number; near: boolean;
}

export interface PathDetail {
  start: number[]; length: number[]; kind: number[]; row: number[]; left_out?: number;
}

export interface Phases {
  fill_us: number; steady_us: number; drain_us: number; steady_utilization_pct: number; bubbles: number; unit: string;
  plateau_pct: number | null; bubble_us: number; outside_us: number; uneven_us: number; error_us: number;
  resolved: boolean; bin_us: number;
}

export interface PipeCycles {
  pipe: string; cycles: number; most: number; refused: string;
}

export interface PipeTime {
  pipe: string; us: number; share: number;
}

export interface PmDetail {
  bin_ns: number; sampled_ns: number; series: DetailSeries[]; fill_ns?: number; drain_ns?: number;
  bubbles?: [number, number][];
}

export interface ProblemFit {
  text: string; chip: string; flop_needed: number; flop_done: number | null; read_bytes_needed: number;
  read_bytes_done: number | null; written_bytes_needed: number; written_bytes_done: number | null;
  l2_read_bytes: number | null; floor_us: number; attained_us: number; limiter: string; headroom: number | null;
  headroom_code: number | null; says: string[];
}

export interface ProcessFigures {
  process: number; device: number; operations: number; busy_us: number; launches: LaunchFigures | null;
}

export interface ProgramAnalysis {
  input: string; arch: string; functions: FunctionAnalysis[]; member: string; toolkit: string | null;
}

export interface ProgramDetail {
  input: string; arch: string; functions: FunctionDetail[];
}

export interface Promise {
  code: string; rule: string; speedup: number; low: number; high: number; measured: number; alone: boolean;
  outcome: "above" | "below" | "inside"; shared_with: string[];
}

export interface Proof {
  what: string; before: number; after: number; unit: string; how: string;
}

export interface RangeFigures {
  name: string; count: number; host_us: number; operations: number; gpu_us: number; projected_us: number;
}

export interface RankFigures {
  rank: number; input: string; span_us: number; step_us: number | null; computing_pct: number; sending_pct: number;
  waiting_pct: number; copying_pct: number; idle_pct: number; awaited_us: number; clock_us: number;
}

export interface RecordingFigures {
  options: string[]; python_calls: number; us: number; pct: number;
}

export interface RegimeShare {
  regime: "compute" | "memory" | "overhead" | null;
  limiter: "atomics" | "barrier" | "communication" | "dependency_latency" | "divergence" | "dram_bandwidth" | "fp32_pipe" | "fp64_pipe" | "host" | "imbalance" | "instruction_fetch" | "instruction_issue" | "integer_pipe" | "l1_throughput" | "l2_bandwidth" | "launch" | "memory_latency" | "pipeline_fill" | "shared_memory" | "small_grid" | "special_function" | "synchronization" | "tail" | "tensor_pipe" | "transfer" | "unknown" | null;
  share: number;
}

export interface Remedy {
  step: string; applies: boolean; why: string; estimate: Estimate | null;
}

export interface Repeats {
  count: number; min_us: number; median_us: number; max_us: number; total_us: number;
}

export interface ResidentWarps {
  warps: number; warps_max: number; blocks: number; limits: string[]; waves: number; filled: number; idle_sms: number;
}

export interface Retries {
  waits_for: string; failed: number; made: number;
}

export interface Role {
  role: string; warps: number; share: RoleShare; low: RoleShare | null; high: RoleShare | null; retries: Retries[];
  sampling_error: number;
}

export interface RoleShare {
  priming: number; steady_issued: number; covered_wait: number; exposed_wait: number; drain: number;
}

export interface Roofline {
  flops_per_s: number | null; bytes_per_s: number; intensity: number | null; ridge: number | null; pct_of_roof: number;
  precision: string; peak_flops_per_s: number | null; peak_bytes_per_s: number | null;
}

export interface Roofs {
  levels: Level[]; ceilings: Ceiling[];
}

export interface RoundsBound {
  loop: number; start: number; end: number; pipe: string; cycles: number; rounds: number;
}

export interface Row {
  kind: string; title: string; device?: number; start: number[]; length: number[]; name: number[]; count?: number[];
  call?: number[];
}

export interface RuleError {
  code: string; message: string;
}

export interface SassComparison {
  schema: string; kscope: string; before: Input; after: Input; functions: FunctionDiff[]; only_before: string[];
  only_after: string[]; added: AddedFunction[]; notes: string[]; skipped: SkippedInput[];
}

export interface SassLine {
  kind: "added" | "changed" | "removed" | "same"; before_pc: number | null; after_pc: number | null;
  before: string | null; after: string | null;
}

export interface SkippedInput {
  input: string; what: string; message: string;
}

export interface SpecializationSeries {
  unit: string; metric: string; values: number[];
}

export interface Stall {
  reason: string; share_raw: number; share_adjusted: number; low: number; high: number;
}

export interface StallShare {
  reason: string; samples: number;
}

export interface StepCommunication {
  step: number; us: number; exposed_us: number;
}

export interface StepFigures {
  name: string; count: number; periodic: boolean; median_us: number; min_us: number; max_us: number; kernels: number;
  busy_pct: number; synchronizations: number; host_us: number; recording_us: number;
}

export interface Steps {
  resource: string; unit: string; now: number; at: number[]; warps: number[];
}

export interface StreamFigures {
  device: number; stream: number; process: number; operations: number; busy_us: number; idle_pct: number;
  queued_mean: number | null; queued_max: number | null;
}

export interface TimeShare {
  what: string; pct: number;
}

export interface TimelineAnalysis {
  input: string; window: string; span_us: number; gpu_busy_pct: number; verdict: Verdict | null;
  coverage: TimelineCoverage; abstained: string; idle: IdleCause[]; findings: Finding[]; top_kernels: TopKernel[];
  devices: DeviceUse[]; steps: StepFigures | null; launches: LaunchFigures | null; copies: CopyFigures[];
  passed: string[]; not_applicable: NotApplicable[]; errors: RuleError[]; compiled: CompiledFigures | null;
  kernels_pct: number; communication: CommunicationFigures | null; processes: ProcessFigures[];
  to_profile: KernelToProfile[]; rank: number | null; operators: OperatorFigures[]; waits: WaitFigures[];
  recording: RecordingFigures | null; critical: CriticalPathFigures | null; memory: MemoryFigures[];
  counters: CounterFigures[]; streams: StreamFigures[]; ranges: RangeFigures[]; single_precision_pct: number | null;
}

export interface TimelineCoverage {
  window: string; operations: number; api_calls: number; missing_launches_pct: number; graph_rows: number;
  lost_graphs: number; launches: number; captured_launches: number; lost_launches: number; damaged_events: number;
  truncated: string; missing_tables: string[]; notes: string[];
}

export interface TimelineDetail {
  index: number; low: number; high: number; end: number; names: string[]; causes: string[]; rows: Row[];
  gaps: GapRow[]; steps?: number[]; merged_ns?: number; operators?: OperatorTree; critical?: PathDetail;
  memory?: MemoryCourse[]; counters?: CounterCourse[];
}

export interface TimelinePair {
  before: TimelineAnalysis; after: TimelineAnalysis; per: string; speedup: number | null; sentence: string;
  fixed: string[]; new: string[]; remaining: string[]; changes: Change[]; unknown: string[]; low: number | null;
  high: number | null; promises: Promise[]; kernels: Change[]; operators: Change[];
}

export interface TopKernel {
  name: string; count: number; total_us: number; mean_us: number; share: number; kind: string; kind_said_by: string;
  grid: [number, number, number]; block: [number, number, number]; hidden: number; spread: KernelSpread | null;
  operators: string[]; source: string;
}

export interface Unknown {
  what: string; collect: string;
}

export interface Utilization {
  unit: string; pct: number; metric: string;
}

export interface Verdict {
  regime: "compute" | "memory" | "overhead" | "unknown";
  limiter: "atomics" | "barrier" | "communication" | "dependency_latency" | "divergence" | "dram_bandwidth" | "fp32_pipe" | "fp64_pipe" | "host" | "imbalance" | "instruction_fetch" | "instruction_issue" | "integer_pipe" | "l1_throughput" | "l2_bandwidth" | "launch" | "memory_latency" | "pipeline_fill" | "shared_memory" | "small_grid" | "special_function" | "synchronization" | "tail" | "tensor_pipe" | "transfer" | "unknown";
  confidence: number; sentence: string; headline: string; reason: string; contrast: string; next: string; body: string;
}

export interface WaitFigures {
  call: string; device: number | null; stream: number | null; on: string; count: number; us: number; idle_us: number;
  main: boolean; said_by: string;
}

export interface WaitView {
  scoreboard?: number; needed?: number[]; also?: number[];
}

export interface WarpSpecialization {
  roles: Role[]; timeline: Phases | null; tier: "A" | "B" | "C"; stages: number | null; stage_bytes: number | null;
  tiles_per_block: number | null; warps_unaccounted: number | null; lost: LostTime | null;
  amortisation: Amortisation[]; series: SpecializationSeries[]; not_advice: string[]; sampled_every: number | null;
}
