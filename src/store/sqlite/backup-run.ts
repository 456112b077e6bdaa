import { Worker } from "node:worker_threads";

import { backupThreadEntry, threadOptions } from "../../assets.ts";
import { messageOf } from "../../domain/error.ts";
import type { TellProgress } from "../../domain/log.ts";
import type { BackupMessage, BackupOutcome, BackupThreadData } from "./backup-thread.ts";
import type { BackupOrder } from "./backup.ts";
import type { CopyDocument } from "./copy-facts.ts";
import { newStopFlag, stopCopy } from "./machine/copy-pace.ts";

/** A backup that is being made. */
export interface BackupRun {
  /** Its document. Rejects with the reason when there is none. */
  readonly ended: Promise<CopyDocument>;
  /** Breaks it off at its next step. */
  stop(): void;
}

/** Makes a backup in a thread of its own, and tells how far it is. */
export function startBackup(order: BackupOrder, tell: TellProgress = () => {}): BackupRun {
  const stop = newStopFlag();
  const workerData: BackupThreadData = { role: "backup", order, stop };
  const worker = new Worker(backupThreadEntry, { ...threadOptions, workerData });
  return { ended: endOf(worker, tell), stop: () => stopCopy(stop) };
}

async function endOf(worker: Worker, tell: TellProgress): Promise<CopyDocument> {
  const outcome = await new Promise<BackupOutcome>((resolve) => {
    const fail = (message: string): void => resolve({ kind: "failed", message });
    worker.on("message", (message: BackupMessage) => {
      if (message.kind === "progress") tell(message.progress);
      else resolve(message);
    });
    worker.once("error", (error) => fail(messageOf(error)));
    worker.once("exit", () => fail("the backup's thread was lost"));
  });
  if (outcome.kind === "done") return outcome.document;
  throw new Error(outcome.message);
}
