/** Work by name, each a function of plain data alone: what it is given and gives can be copied to another thread. */
export type WorkTable = Readonly<Record<string, (args: never) => unknown>>;

/** Where work is done that would hold up the caller's thread. */
export interface Offload<Table extends WorkTable> {
  /**
   * Promises what the work gives, or a StatusError that it throws. One piece of each owner is done in turn; who has too
   * much waiting is refused with 42900 or 50300.
   */
  run<Name extends keyof Table>(
    name: Name,
    args: Parameters<Table[Name]>[0],
    by: WorkOrder,
  ): Promise<ReturnType<Table[Name]>>;
}

export interface WorkOrder {
  /** Whose turn it takes. */
  readonly owner: string;
  /** What of the arguments counts: how much of it may wait. */
  readonly bytes: number;
  /** It is never refused: there is nobody who could come again. */
  readonly isPatient?: true;
}
