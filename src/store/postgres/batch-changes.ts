import type { AccountUsage } from "../../domain/account/quota.ts";
import { TrafficTally } from "../../domain/stats/traffic-tally.ts";
import { CountTally, HostTally, type WorkChanges } from "../../domain/stats/work-counts.ts";
import type { LaneRef } from "../store.ts";
import { readUsage, sendCounts, sendHostCounts } from "./counts.ts";
import type { GatheredWork } from "./machine/batch.ts";
import type { BatchSql } from "./machine/sql.ts";
import type { LaneLook, NodeMemory, QueueLook } from "./scan-starts.ts";
import { sendTraffic } from "./traffic.ts";

/** Changes that writes report while they run, and that are written once, at the end of their batch. */
export interface BatchChanges extends WorkChanges {
  /**
   * The accounts whose tasks and deliveries clients see changed, for listeners. A change of a count adds its account by
   * itself.
   */
  readonly changed: Set<number>;
  readonly memory: NodeMemory;
  /** Begins a claim of a type. Its changes take effect once the batch has committed. */
  lookAtQueue(type: string): QueueLook;
  /** The same for a claim of attempts. */
  lookAtLanes(lanes: readonly LaneRef[], now: number): LaneLook;
  /** The usage of accounts as the batch found it: to be asked for before {@link usageAfter}. */
  findUsage(accountIds: readonly number[]): Promise<ReadonlyMap<number, AccountUsage>>;
  /** The usage of an account now, with all changes of its batch so far, from what it was before. */
  usageAfter(accountId: number, before: AccountUsage): AccountUsage;
}

/** Gathers the changes that the operations of a batch report. */
export class GatheredChanges implements BatchChanges, GatheredWork {
  readonly counts = new CountTally();
  readonly hosts = new HostTally(this.counts);
  readonly traffic = new TrafficTally();
  readonly changed = new Set<number>();
  readonly memory: NodeMemory;
  readonly #sql: BatchSql;
  /** Those of the batch's claims. */
  readonly #looks: (QueueLook | LaneLook)[] = [];

  constructor(sql: BatchSql, memory: NodeMemory) {
    this.#sql = sql;
    this.memory = memory;
    // A claim of the connection before may have been undone.
    memory.forgetStarts();
  }

  lookAtQueue(type: string): QueueLook {
    const look = this.memory.queueStarts.look(type);
    this.#looks.push(look);
    return look;
  }

  lookAtLanes(lanes: readonly LaneRef[], now: number): LaneLook {
    const look = this.memory.laneStarts.look(lanes, now);
    this.#looks.push(look);
    return look;
  }

  findUsage(accountIds: readonly number[]): Promise<ReadonlyMap<number, AccountUsage>> {
    return readUsage(this.#sql, accountIds);
  }

  usageAfter(accountId: number, before: AccountUsage): AccountUsage {
    return this.counts.usageAfter(accountId, before);
  }

  send(): void {
    sendCounts(this.#sql, this.counts, this.changed);
    sendHostCounts(this.#sql, this.hosts);
    sendTraffic(this.#sql, this.traffic);
  }

  committed(): void {
    for (const look of this.#looks.splice(0)) look.committed();
  }

  reset(): void {
    // Other claims may have passed over what these held.
    if (this.#looks.splice(0).length > 0) this.memory.forgetStarts();
    this.changed.clear();
    this.counts.reset();
    this.hosts.reset();
    this.traffic.take();
  }
}
