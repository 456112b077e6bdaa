export interface MoveReport {
  readonly from: string;
  readonly to: string;
  readonly rows: number;
  readonly tasks: number;
  /** True when an earlier move had copied everything and only its last step was missing. */
  readonly wasComplete: boolean;
}

/** Why nothing was moved, and what to do. Both databases are as they were before. */
export class MoveError extends Error {
  override readonly name = "MoveError" as const;
}
