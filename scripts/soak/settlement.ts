import { setTimeout as sleep } from "node:timers/promises";

import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import type { CarefulClient } from "./careful-client.ts";
import { explainArrivals, recordedAttempts, type Explanation } from "./duplicates.ts";
import { inspectDatabase, type Inspection } from "./inspection.ts";
import type { Ledger } from "./ledger.ts";

const POLL_MS = 20;

/** The work that a daemon has to finish. */
export interface Unsettled {
  readonly database: string;
  readonly ledger: Ledger;
  /** Has sent, or is to send again, whatever the daemon has to answer. */
  readonly client: CarefulClient;
  /** Nothing may stand still for longer. */
  readonly stallMsMax: number;
}

/** Lets a daemon finish everything that it has, promised or not, and stops it. Rejects when it does not. */
export async function settle(daemon: DaemonProcess, unsettled: Unsettled): Promise<void> {
  const { database, ledger, client, stallMsMax } = unsettled;
  await client.settle(daemon.url);
  await allArrived(ledger, { daemon, stallMsMax });
  // Accepted tasks without an acknowledgement are still to be delivered.
  using view = new DatabaseView(database);
  await view.quiet({ msMax: stallMsMax });
  await daemon.stop();
}

/** The state that a settled daemon leaves, with the parts that must never be. */
export interface Settled {
  readonly inspection: Inspection;
  readonly explanation: Explanation;
  readonly faults: readonly string[];
}

/**
 * Compares the database of a settled daemon with its promises; `killedAt` has the times of the kills, the earliest
 * first.
 */
export function judgeSettled(
  database: string,
  { ledger, killedAt }: { readonly ledger: Ledger; readonly killedAt: readonly number[] },
): Settled {
  const inspection = inspectDatabase(database, ledger);
  const { arrivals } = ledger;
  const attempts = recordedAttempts(database);
  const explanation = explainArrivals({ arrivals, attempts, killedAt });
  const faults = [...ledger.faults, ...inspection.faults, ...explanation.faults];
  return { inspection, explanation, faults };
}

async function allArrived(
  ledger: Ledger,
  { daemon, stallMsMax }: { readonly daemon: DaemonProcess; readonly stallMsMax: number },
): Promise<void> {
  let last = ledger.count;
  let changedAt = performance.now();
  while (ledger.count.missing > 0) {
    daemon.requireRunning();
    if (performance.now() - changedAt > stallMsMax) {
      throw new Error(`${ledger.count.missing} webhooks are missing: ${daemon.log}`);
    }
    await sleep(POLL_MS);
    if (ledger.count.webhooks === last.webhooks) continue;
    last = ledger.count;
    changedAt = performance.now();
  }
}
