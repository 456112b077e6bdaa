import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { messageOf } from "../domain/error.ts";
import type { Logger } from "../domain/log.ts";
import { Scheduler } from "../run/scheduler.ts";
import type { BackupRun } from "../store/sqlite/backup-run.ts";
import { removeUnfinished } from "../store/sqlite/backup.ts";
import { documentPath } from "../store/sqlite/copy-facts.ts";
import { removeGradually } from "../store/sqlite/machine/gradual-removal.ts";
import { toCopy, type BackupFolder, type ScheduledCopy } from "./backup-folder.ts";
import type { Database } from "./database.ts";

export interface BackupKeeperDeps {
  readonly config: Pick<Config, "backup">;
  /** Null without a schedule. */
  readonly folder: BackupFolder | null;
  readonly database: Pick<Database, "startBackup">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How the scheduled backups go. */
export interface BackupState {
  /** The newest that is there; null when there is none. */
  readonly newest: ScheduledCopy | null;
  /** The last that failed since the daemon was started, and none has succeeded after it. */
  readonly failure: { readonly at: number; readonly reason: string } | null;
}

/**
 * Makes backups by the operator's schedule, and keeps the newest of them. One that fails is an error in the log and a
 * warning; the daemon serves all the same. While one is made, the schedule's next moments pass.
 */
export class BackupKeeper {
  readonly #deps: BackupKeeperDeps;
  readonly #scheduler: Scheduler;
  #run: BackupRun | null = null;
  #round: Promise<void> | null = null;
  #cleaning: Promise<void> = Promise.resolve();
  #isDraining = false;
  #newest: BackupState["newest"] = null;
  #failure: BackupState["failure"] = null;

  constructor(deps: BackupKeeperDeps) {
    this.#deps = deps;
    this.#scheduler = new Scheduler(deps.clock);
  }

  /** Begins when there is a schedule. Says at once where it could make none, and removes what a backup left that a crash broke off. */
  start(): void {
    const { config, folder } = this.#deps;
    const { schedule } = config.backup;
    if (schedule === null || folder === null) return;
    this.#cleaning = this.#attempt(folder, async () => {
      folder.make();
      this.#newest = folder.newest();
      for (const part of folder.files(".db.part")) {
        await removeUnfinished(part.replace(/\.part$/, ""), this.#isHurried);
      }
    });
    this.#scheduler.every(schedule, () => {
      this.#round ??= this.#make(folder).finally(() => {
        this.#round = null;
      });
    });
  }

  /** Null when there is no schedule. */
  state(): BackupState | null {
    if (this.#deps.folder === null) return null;
    return { newest: this.#newest, failure: this.#failure };
  }

  /** Sentences about what the operator should mend, in words for everybody. */
  warnings(): readonly string[] {
    if (this.#failure === null) return [];
    return [`the last backup failed at ${timeText(this.#failure.at)}; the log tells why`];
  }

  /** Begins no more backups, and breaks off the one that is being made. */
  drain(): void {
    this.#isDraining = true;
    this.#scheduler.drain();
    this.#run?.stop();
  }

  /** Drains; settles when nothing is being made. */
  async close(): Promise<void> {
    this.drain();
    await Promise.all([this.#cleaning, this.#round]);
  }

  async #make(folder: BackupFolder): Promise<void> {
    const { clock, log, database } = this.#deps;
    await this.#cleaning;
    try {
      folder.make();
      const file = folder.nextFile();
      const order = { file, mayReplace: false, now: clock.now(), isServedHere: true };
      this.#run = database.startBackup(order);
      const document = await this.#run.ended;
      this.#newest = toCopy(file, document);
      this.#failure = null;
      log.info({ file, bytes: document.bytes, tasks: document.tasks }, "made a backup");
      await this.#attempt(folder, () => this.#removeOld(folder, file));
    } catch (error) {
      this.#fail(folder, error);
    } finally {
      this.#run = null;
    }
  }

  #fail({ path }: BackupFolder, error: unknown): void {
    const { clock, log } = this.#deps;
    const reason = messageOf(error);
    if (this.#isDraining) {
      log.info({}, "broke off a backup, because the daemon stops");
      return;
    }
    this.#failure = { at: clock.now(), reason };
    const newest = this.#newest === null ? null : timeText(this.#newest.createdAt);
    log.error({ folder: path, newest }, `the scheduled backup failed: ${reason}`);
  }

  /** Removes what is beyond the newest ones, and never the backup that was just made. */
  async #removeOld(folder: BackupFolder, made: string): Promise<void> {
    for (const file of folder.files(".db").slice(0, -this.#deps.config.backup.keep)) {
      if (file === made) continue;
      await removeGradually(file, this.#isHurried);
      await removeGradually(documentPath(file), this.#isHurried);
    }
  }

  // A folder, or a file in it, that refuses something must not keep the daemon from serving.
  async #attempt({ path }: BackupFolder, step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      const what = `the folder of the backups is not in order: ${messageOf(error)}`;
      this.#deps.log.error({ folder: path }, what);
    }
  }

  readonly #isHurried = (): boolean => this.#isDraining;
}
