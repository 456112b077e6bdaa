import { isClaimFull } from "../domain/task/claim-turn.ts";

export interface Claim {
  readonly max: number;
  /** How often its type had been woken when it began. */
  readonly wakes: number;
}

export interface Finding {
  readonly found: number;
  /** True when it may have stopped before the end of the queue although it brought less than it asked for. */
  readonly isCutShort: boolean;
}

/** The result of a claim that the store could not do: nothing is known. */
export const NOT_CLAIMED: Finding = { found: 0, isCutShort: true };

// More concurrent claims than a commit serves would only wait for the next commit.
const CLAIMS_MAX = 64;

/**
 * Decides how many tasks of a type may be claimed now, by a runner or by workers: its concurrency, minus the held
 * tasks and those that claims in progress may bring, while tasks may be queued that no claim in progress will find.
 *
 * A wake reports one task, and a claim is expected to find as many tasks as it requests. A claim that comes back full
 * allows for twice as many, so that a long queue soon serves everyone who can run something; a claim that leaves none
 * ends it. So a single task costs one claim, or three if it was all that was asked for, however many wait for it.
 */
export class ClaimCredit {
  #concurrency: number;
  /** How many tasks may be queued, as far as is known, besides those that claims in progress will find. */
  #tasks = 0;
  #reserved = 0;
  #claims = 0;
  #wakes = 0;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /** Changes the limit; tasks held beyond it stay. */
  setConcurrency(concurrency: number): void {
    this.#concurrency = concurrency;
  }

  wake(): void {
    this.#wakes++;
    this.#allow(1, CLAIMS_MAX);
  }

  /** True while tasks may be queued. */
  get isLeft(): boolean {
    return this.#tasks > 0;
  }

  /** True while a claim is in progress that will show whether tasks are queued. */
  get isClaiming(): boolean {
    return this.#claims > 0;
  }

  /** How many may be claimed now while so many are held. */
  room(held: number): number {
    return this.isLeft ? Math.max(0, this.#concurrency - held - this.#reserved) : 0;
  }

  /**
   * Reserves slots for tasks that are posted now, while so many are held: none while tasks may be queued, except those
   * that claims in progress will find. To be given back by {@link release}.
   */
  reserve(tasks: number, held: number): number {
    if (this.isLeft) return 0;
    const reserved = Math.max(0, Math.min(tasks, this.#concurrency - held - this.#reserved));
    this.#reserved += reserved;
    return reserved;
  }

  /** Gives reserved slots back. The tasks that were started for them must be held in the same turn. */
  release(reserved: number): void {
    this.#reserved -= reserved;
  }

  /** Begins a claim of up to `max` tasks, which is within the {@link room}. */
  begin(max: number): Claim {
    this.#claims++;
    this.#reserved += max;
    this.#tasks = Math.max(0, this.#tasks - max);
    return { max, wakes: this.#wakes };
  }

  /** Ends a claim. The tasks that it brought must be held in the same turn. */
  end({ max, wakes }: Claim, { found, isCutShort }: Finding): void {
    this.#claims--;
    this.#reserved -= max;
    if (found === max) this.#allow(2 * max, CLAIMS_MAX * max);
    else if (isCutShort) this.#allow(max, CLAIMS_MAX * max);
    // It found no more, so only tasks of later wakes exist.
    else this.#tasks = Math.min(this.#tasks, this.#wakes - wakes);
  }

  #allow(tasks: number, tasksMax: number): void {
    this.#tasks = Math.max(this.#tasks, Math.min(this.#tasks + tasks, tasksMax));
  }
}

/** True if the store ended a claim because of the length of its inputs. */
export function isInputFull(tasks: readonly { readonly inputText: string | null }[]): boolean {
  const inputLength = tasks.reduce((sum, { inputText }) => sum + (inputText?.length ?? 0), 0);
  return isClaimFull({ inputLength });
}
