import type { WorkChanges } from "./work-changes.ts";

/** The counts of an account's deliveries to a host: those that are given up, refused or being retried now. */
export const HOST_WORDS = ["given_up", "refused", "retrying"] as const;
export type HostWord = (typeof HOST_WORDS)[number];

/** Changes such a count of an account and a host; a negative `count` lowers it. */
export interface HostChange {
  readonly accountSeq: number;
  readonly host: string;
  readonly word: HostWord;
  readonly count: number;
}

export type HostSums = Record<HostWord, number>;

/** Writes the sums of a batch; those that are all zero are left out. */
export type HostWriter = (accountSeq: number, host: string, sums: Readonly<HostSums>) => void;

/**
 * Gathers in memory how a batch changes the counts of hosts, so that the changes are written once, at its end. A
 * delivery that succeeds at the first attempt changes nothing here, and costs nothing.
 */
export class HostTally {
  readonly #counts: WorkChanges["counts"];
  /** The sums by account, then by host. */
  readonly #sums = new Map<number, Map<string, HostSums>>();

  constructor(counts: WorkChanges["counts"]) {
    this.#counts = counts;
  }

  /** Also reports it for the account as a whole. */
  add({ accountSeq, host, word, count }: HostChange): void {
    this.#counts.add(accountSeq, word === "retrying" ? "retrying" : "undelivered", count);
    const hosts = this.#sums.get(accountSeq) ?? new Map<string, HostSums>();
    if (hosts.size === 0) this.#sums.set(accountSeq, hosts);
    const sums = hosts.get(host) ?? { given_up: 0, refused: 0, retrying: 0 };
    sums[word] += count;
    hosts.set(host, sums);
  }

  /** Writes the changes, and begins anew. */
  write(writer: HostWriter): void {
    for (const [accountSeq, hosts] of this.#sums) {
      for (const [host, sums] of hosts) {
        if (HOST_WORDS.some((word) => sums[word] !== 0)) writer(accountSeq, host, sums);
      }
    }
    this.#sums.clear();
  }

  /** The batch was undone. */
  reset(): void {
    this.#sums.clear();
  }
}
