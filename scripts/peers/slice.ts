/** One measurement of a row. */
export interface Slice {
  readonly tasksPerSecond: number;
  readonly cpu: Cpu;
}

/** The processor's time of each part of a server in µs a task; NaN for a part that it has not. */
export interface Cpu {
  /** Of the process that serves HTTP, which may do all else too. */
  readonly server: number;
  /** Of a worker of its own. */
  readonly worker: number;
  /** Of Redis or PostgreSQL. */
  readonly database: number;
}

const SECOND = 1e6;

/** What so many tasks cost each part, given the seconds that each has spent; a part without them is left out. */
export function cpuPerTask(
  tasks: number,
  spent: { readonly [Part in keyof Cpu]?: (() => number) | undefined },
): Cpu {
  const of = (part: keyof Cpu): number => ((spent[part]?.() ?? Number.NaN) * SECOND) / tasks;
  return { server: of("server"), worker: of("worker"), database: of("database") };
}

/** Of all parts. */
export function cpuInAll({ server, worker, database }: Cpu): number {
  return [server, worker, database].reduce((sum, each) => sum + (Number.isNaN(each) ? 0 : each), 0);
}
