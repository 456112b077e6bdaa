import { TrafficTally, type TrafficChanges } from "../../domain/stats/traffic-tally.ts";
import { ChangedAccounts } from "../common/changed-accounts.ts";
import type { Connection } from "./machine/connection.ts";
import { TaskCounts, type CountChanges } from "./task-counts.ts";
import { trafficWriter } from "./traffic-tally.ts";

/** What writes tell while they run: it is written once, at the end of their batch. */
export interface BatchChanges {
  readonly counts: CountChanges;
  readonly traffic: TrafficChanges;
  readonly changed: Pick<ChangedAccounts, "note">;
}

/** Gathers what the operations of a batch tell. */
export class GatheredChanges implements BatchChanges {
  readonly counts: TaskCounts;
  readonly traffic = new TrafficTally();
  readonly changed = new ChangedAccounts();
  readonly #writeTraffic;

  constructor(connection: Connection) {
    this.counts = new TaskCounts(connection, this.changed);
    this.#writeTraffic = trafficWriter(connection);
  }

  /** The operation is part of the batch: what it told will be written with it. */
  keep(): void {
    this.counts.keep();
    this.traffic.keep();
  }

  /** The operation was undone. */
  drop(): void {
    this.counts.drop();
    this.traffic.drop();
  }

  /** Writes what was kept. To be called in the batch's transaction, as the last thing before its COMMIT. */
  write(): void {
    this.counts.write();
    this.#writeTraffic.write(this.traffic.take());
  }

  /** The batch was undone. */
  reset(): void {
    this.changed.take();
    this.counts.reset();
    this.traffic.drop();
    this.traffic.take();
    this.#writeTraffic.forget();
  }
}
