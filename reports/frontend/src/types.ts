// What the page's data element holds, and short names for the parts of it that several views take. Their fields are
// those of kscope.model, in schema.ts.

import type {
  Analysis, Change, CodeDetail, CommunicationFigures, Comparison, Detail, DetailSeries, JobAnalysis, JoinedAnalysis,
  KernelAnalysis, Location, OccupancyDetail, PmDetail, ProgramDetail, RankFigures, SassComparison, TimelineAnalysis,
  WarpSpecialization,
} from "./schema";

export type * from "./schema";
export type Code = CodeDetail;
export type Communication = CommunicationFigures;
export type Job = JobAnalysis;
export type Joined = JoinedAnalysis;
export type Kernel = KernelAnalysis;
export type Occupancy = OccupancyDetail;
export type PairChange = Change;
export type Place = Location;
export type Pm = PmDetail;
export type Program = ProgramDetail;
export type Rank = RankFigures;
export type Series = DetailSeries;
export type Specialization = WarpSpecialization;
export type Timeline = TimelineAnalysis;

/** What the page says of a kernel in the very words of the other formats (kscope.reports.html.page.said). */
export interface Said {
  headroom: string; next: string; nothing: string; order: string; expect: Record<string, string>; further: Record<string, string>;
  hot: { why: string; codes: string[] }[]; repeats: string; precision: string;
  ring?: string; source?: string; sampling?: string; losses?: Record<string, string>;
}

export interface Data {
  said?: Record<string, Said>;
  comparison?: Comparison; sass?: SassComparison; analysis: Analysis; detail: Detail; pages: Record<string, string>;
  names?: string[];
  words: { limiters: Record<string, string>; causes: Record<string, string>; reasons: Record<string, string> };
}
