import { parentPort, workerData } from "node:worker_threads";

import { messageOf } from "../../domain/error.ts";
import type { WorkProgress } from "../../domain/log.ts";
import { type BackupOrder, makeBackup } from "./backup.ts";
import type { CopyDocument } from "./copy-check.ts";
import { giveWay } from "./machine/connection.ts";
import { CopyPace } from "./machine/snapshot-copy.ts";

/** The entry of the thread that makes one backup and ends: it waits, reads and computes for as long as that takes. */

/** The order for the thread. */
export interface BackupThreadData {
  readonly role: "backup";
  readonly order: BackupOrder;
  /** See `stopCopy`. */
  readonly stop: SharedArrayBuffer;
}

/** The thread's messages: how far it is, again and again, and in the end its outcome. */
export type BackupMessage =
  | { readonly kind: "progress"; readonly progress: WorkProgress }
  | BackupOutcome;

export type BackupOutcome =
  | { readonly kind: "done"; readonly document: CopyDocument }
  | { readonly kind: "failed"; readonly message: string };

const port = parentPort;
if (port === null) throw new Error("backup-thread.ts runs as a worker thread only");

giveWay();

// backup.ts sets this; nothing else starts this thread.
const { order, stop } = workerData as BackupThreadData;
const say = (message: BackupMessage): void => port.postMessage(message);
void outcomeOf().then(say);

async function outcomeOf(): Promise<BackupOutcome> {
  try {
    const pace = new CopyPace(stop, (progress) => say({ kind: "progress", progress }));
    return { kind: "done", document: await makeBackup(order, pace) };
  } catch (error) {
    return { kind: "failed", message: messageOf(error) };
  }
}
