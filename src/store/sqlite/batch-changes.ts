import type { AccountUsage } from "../../domain/account/quota.ts";
import { CountTally } from "../../domain/stats/count-tally.ts";
import { HostTally } from "../../domain/stats/host-tally.ts";
import { TrafficTally } from "../../domain/stats/traffic-tally.ts";
import type { WorkChanges } from "../../domain/stats/work-changes.ts";
import { ChangedAccounts } from "../common/changed-accounts.ts";
import { hostCountWriter } from "./host-counts.ts";
import type { Connection } from "./machine/connection.ts";
import { countWriter, usageReader } from "./task-counts.ts";
import { trafficWriter } from "./traffic-tally.ts";

/** What writes tell while they run: it is written once, at the end of their batch. */
export interface BatchChanges extends WorkChanges {
  readonly changed: Pick<ChangedAccounts, "note">;
  /** The usage of an account as the operation that runs has found it: with all that its batch has changed before. */
  usageOf(accountSeq: number): AccountUsage;
}

/** Gathers what the operations of a batch tell. */
export class GatheredChanges implements BatchChanges {
  readonly counts = new CountTally();
  readonly hosts = new HostTally(this.counts);
  readonly traffic = new TrafficTally();
  readonly changed = new ChangedAccounts();
  readonly #writeCounts;
  readonly #writeHosts;
  readonly #writeTraffic;
  readonly #readUsage;
  /** When the batch began, of the accounts that somebody asked for. */
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

  /** The operation is part of the batch: what it told will be written with it. */
  keep(): void {
    this.counts.keep(this.changed);
    this.hosts.keep();
    this.traffic.keep();
  }

  /** The operation was undone. */
  drop(): void {
    this.counts.drop();
    this.hosts.drop();
    this.traffic.drop();
  }

  /** Writes what was kept. To be called in the batch's transaction, as the last thing before its COMMIT. */
  write(): void {
    this.counts.write(this.#writeCounts);
    this.hosts.write(this.#writeHosts);
    this.#usageBefore.clear();
    this.#writeTraffic.write(this.traffic.take());
  }

  /** The batch was undone. */
  reset(): void {
    this.changed.take();
    this.counts.reset();
    this.hosts.reset();
    this.#usageBefore.clear();
    this.traffic.drop();
    this.traffic.take();
    this.#writeTraffic.forget();
  }
}
