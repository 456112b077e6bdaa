import type { AccountUsage } from "../../domain/account/quota.ts";
import { TrafficTally } from "../../domain/stats/traffic-tally.ts";
import { CountTally, HostTally, type WorkChanges } from "../../domain/stats/work-counts.ts";
import { hostCountWriter } from "./host-counts.ts";
import type { GatheredWork } from "./machine/batch.ts";
import type { Connection } from "./machine/connection.ts";
import { countWriter, usageReader } from "./task-counts.ts";
import { trafficWriter } from "./traffic-tally.ts";

/** Changes that writes report while they run, and that are written once, at the end of their batch. */
export interface BatchChanges extends WorkChanges {
  /**
   * The accounts whose tasks and deliveries clients see changed, for listeners. Whoever changes a count need not add
   * its account.
   */
  readonly changed: Set<number>;
  /** The usage of an account now, with all changes of its batch so far: to be asked for before an operation counts. */
  usageOf(accountSeq: number): AccountUsage;
}

/** Gathers the changes that the operations of a batch report. */
export class GatheredChanges implements BatchChanges, GatheredWork {
  readonly counts = new CountTally();
  readonly hosts = new HostTally(this.counts);
  readonly traffic = new TrafficTally();
  readonly changed = new Set<number>();
  readonly #writeCounts;
  readonly #writeHosts;
  readonly #writeTraffic;
  readonly #readUsage;
  /** The usage at the beginning of the batch, of the accounts that somebody asked for. */
  readonly #usageBefore = new Map<number, AccountUsage>();

  constructor(connection: Connection) {
    this.#writeCounts = countWriter(connection);
    this.#writeHosts = hostCountWriter(connection);
    this.#writeTraffic = trafficWriter(connection);
    this.#readUsage = usageReader(connection);
  }

  usageOf(accountSeq: number): AccountUsage {
    const before = this.#usageBefore.get(accountSeq) ?? this.#readUsage(accountSeq);
    this.#usageBefore.set(accountSeq, before);
    return this.counts.usageAfter(accountSeq, before);
  }

  write(): void {
    this.counts.write(this.#writeCounts, this.changed);
    this.hosts.write(this.#writeHosts);
    this.#usageBefore.clear();
    this.#writeTraffic.write(this.traffic.take());
  }

  reset(): void {
    this.changed.clear();
    this.counts.reset();
    this.hosts.reset();
    this.#usageBefore.clear();
    this.traffic.take();
    this.#writeTraffic.forget();
  }
}
