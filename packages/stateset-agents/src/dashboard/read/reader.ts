/**
 * What the dashboard knows of the folders of runs. Plain files are the truth; an index of each run (columns of its metrics, places of its
 * conversations) lies in a folder of its own, is made anew where it is absent or of another version, and grows by what was appended.
 * All of it may be asked from another thread (open-reader.ts), so that whoever streams tokens is never held up by a file.
 */
import type {
  CompareData,
  ConfigData,
  EvaluationsData,
  EventsData,
  GroupData,
  LiveConversationsData,
  LiveEvents,
  RunData,
  RunsData,
  TrajectoriesData,
  TrajectoryData,
} from "../api/index.ts";

export interface ReaderOptions {
  /** Folders of runs, or single runs, in full. */
  folders: readonly string[];
  /** Where indexes are kept. */
  cacheDir: string;
}

/** What a query says, as strings: checked before it comes here. */
export type Query = Readonly<Record<string, string | undefined>>;

/** One thing that happened since it was asked last. */
export type Change = { [K in "runs" | "steps" | "conversations"]: { kind: K; event: LiveEvents[K] } }[
  | "runs"
  | "steps"
  | "conversations"];

/** Refuses with HttpError: 404 for what there is not, 400 for a query that cannot be, 409 for tokens that were not recorded. */
export interface Reader {
  runs(query: Query): Promise<Omit<RunsData, "readOnly">>;
  run(run: string): Promise<Omit<RunData, "readOnly" | "stop" | "resume">>;
  config(run: string): Promise<ConfigData>;
  events(run: string): Promise<EventsData>;
  evaluations(run: string): Promise<EvaluationsData>;
  /** Packed: SeriesHead. */
  series(run: string, query: Query): Promise<Uint8Array<ArrayBuffer>>;
  /** Every step as it was written; `metrics` left out: all. */
  csv(run: string, metrics: readonly string[] | undefined): Promise<string>;
  trajectories(run: string, query: Query): Promise<TrajectoriesData>;
  trajectory(trajectory: string): Promise<TrajectoryData>;
  /** Packed: TokensHead. */
  tokens(trajectory: string): Promise<Uint8Array<ArrayBuffer>>;
  group(group: string): Promise<GroupData>;
  live(run: string): Promise<LiveConversationsData>;
  compare(query: Query): Promise<CompareData>;
  /** Packed: CompareSeriesHead. */
  compareSeries(query: Query): Promise<Uint8Array<ArrayBuffer>>;
  /** The folder of a run. */
  dirOf(run: string): Promise<string>;
  /** What happened since the last call; the first one says nothing and remembers how things stand. */
  changes(): Promise<Change[]>;
  close(): Promise<void>;
}
