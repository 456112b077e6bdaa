/** Work by name. Each is a function of plain data alone, whose arguments and result can be copied to another thread. */
export type WorkTable = Readonly<Record<string, (args: never) => unknown>>;

/** Does work elsewhere that would hold up the caller's thread. */
export interface Offload<Table extends WorkTable> {
  /**
   * Promises the result of the work, or rejects with a StatusError that it throws. One piece of each owner is done in
   * turn; an owner with too much waiting work is refused with 42900 or 50300.
   */
  run<Name extends keyof Table>(
    name: Name,
    args: Parameters<Table[Name]>[0],
    by: WorkOrder,
  ): Promise<ReturnType<Table[Name]>>;
}

export interface WorkOrder {
  /** The owner whose turn it takes. */
  readonly owner: string;
  /** The size of the arguments, because the waiting bytes are limited. */
  readonly bytes: number;
  /** It is never refused, because nobody could ask for it again. */
  readonly isPatient?: true;
}
