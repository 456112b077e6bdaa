/** One measurement of a phase. */
export interface Slice {
  readonly tasks: number;
  readonly tasksPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of the server, for `tasks` and the warm-up before them. */
  readonly cpuSeconds: number;
  readonly cpuMicrosPerTask: number;
  /** Of the server, at the end. */
  readonly rssBytes: number;
}

/** Something that the bench measures, several times over, in turn with the others. */
export interface Phase extends AsyncDisposable {
  readonly letter: string;
  /** Its description, for the table. */
  readonly title: string;
  measure(): Promise<Slice>;
}

/** How long and how hard to measure. */
export interface Effort {
  /** Of one measurement. */
  readonly seconds: number;
  readonly connections: number;
  /** Tasks of one measurement of the whole way to the postback. */
  readonly tasks: number;
}
