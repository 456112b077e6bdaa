import type { AccountUsage } from "../../domain/account/quota.ts";
import { CountTally } from "../../domain/stats/count-tally.ts";
import { HostTally } from "../../domain/stats/host-tally.ts";
import { TrafficTally } from "../../domain/stats/traffic-tally.ts";
import type { WorkChanges } from "../../domain/stats/work-changes.ts";
import { sendHostCounts } from "./host-counts.ts";
import type { GatheredWork } from "./machine/batch.ts";
import type { BatchSql } from "./machine/sql.ts";
import type { NodeMemory } from "./node-memory.ts";
import { readUsage, sendCounts } from "./task-counts.ts";
import { sendTraffic } from "./traffic-tally.ts";

/** Changes that writes report while they run, and that are written once, at the end of their batch. */
export interface BatchChanges extends WorkChanges {
  /**
   * The accounts whose tasks and deliveries clients see changed, for listeners. Whoever changes a count need not add
   * its account.
   */
  readonly changed: Set<number>;
  readonly memory: NodeMemory;
  /** The usage of accounts as the batch found it: to be asked for before {@link usageAfter}. */
  findUsage(accountSeqs: readonly number[]): Promise<ReadonlyMap<number, AccountUsage>>;
  /** The usage of an account now, with all changes of its batch so far, from what it was before. */
  usageAfter(accountSeq: number, before: AccountUsage): AccountUsage;
}

/** Gathers the changes that the operations of a batch report. */
export class GatheredChanges implements BatchChanges, GatheredWork {
  readonly counts = new CountTally();
  readonly hosts = new HostTally(this.counts);
  readonly traffic = new TrafficTally();
  readonly changed = new Set<number>();
  readonly memory: NodeMemory;
  readonly #sql: BatchSql;

  constructor(sql: BatchSql, memory: NodeMemory) {
    this.#sql = sql;
    this.memory = memory;
  }

  findUsage(accountSeqs: readonly number[]): Promise<ReadonlyMap<number, AccountUsage>> {
    return readUsage(this.#sql, accountSeqs);
  }

  usageAfter(accountSeq: number, before: AccountUsage): AccountUsage {
    return this.counts.usageAfter(accountSeq, before);
  }

  send(): void {
    sendCounts(this.#sql, this.counts, this.changed);
    sendHostCounts(this.#sql, this.hosts);
    sendTraffic(this.#sql, this.traffic);
  }

  reset(): void {
    this.changed.clear();
    this.counts.reset();
    this.hosts.reset();
    this.traffic.take();
  }
}
