/** How far a part of long work is. */
export interface WorkProgress {
  /** Names the part by what is counted, such as `tasks` or `MiB copied`. */
  readonly part: string;
  readonly done: number;
  /** How many there are in all; null where nobody knows. */
  readonly of: number | null;
}

/** Called again and again while work goes on; it returns at once. */
export type TellProgress = (progress: WorkProgress) => void;
