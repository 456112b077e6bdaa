import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import type { Logger } from "../domain/log.ts";
import { messageOf } from "../domain/message-of.ts";
import { Scheduler } from "../engine/scheduler.ts";
import type { BackupRun } from "../store/sqlite/backup-run.ts";
import { removeUnfinished } from "../store/sqlite/backup.ts";
import { documentPath } from "../store/sqlite/copy-facts.ts";
import { removeGradually } from "../store/sqlite/machine/gradual-removal.ts";
import { BackupFolder, toCopy, type ScheduledCopy } from "./backup-folder.ts";
import type { Database } from "./database.ts";

export interface BackupKeeperDeps {
  readonly config: Pick<Config, "database" | "backup">;
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
  readonly #folder: BackupFolder;
  #run: BackupRun | null = null;
  #round: Promise<void> | null = null;
  #cleaning: Promise<void> = Promise.resolve();
  #isDraining = false;
  #newest: BackupState["newest"] = null;
  #failure: BackupState["failure"] = null;

  constructor(deps: BackupKeeperDeps) {
    this.#deps = deps;
    this.#scheduler = new Scheduler(deps.clock);
    this.#folder = new BackupFolder(deps.config);
  }

  /** Begins when there is a schedule. Says at once where it could make none, and removes what a backup left that a crash broke off. */
  start(): void {
    const { schedule } = this.#deps.config.backup;
    if (schedule === null) return;
    this.#cleaning = this.#attempt(async () => {
      this.#folder.make();
      this.#newest = this.#folder.newest();
      for (const part of this.#folder.files(".db.part")) {
        await removeUnfinished(part.replace(/\.part$/, ""), this.#isHurried);
      }
    });
    this.#scheduler.every(schedule, () => {
      this.#round ??= this.#make().finally(() => {
        this.#round = null;
      });
    });
  }

  /** Null when there is no schedule. */
  state(): BackupState | null {
    if (this.#deps.config.backup.schedule === null) return null;
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

  async #make(): Promise<void> {
    const { clock, log, database, config } = this.#deps;
    const file = this.#folder.fileAt(clock.now());
    await this.#cleaning;
    try {
      this.#folder.make();
      const order = { file, mayReplace: false, now: clock.now(), isServedHere: true };
      this.#run = database.startBackup(order);
      const document = await this.#run.ended;
      this.#newest = toCopy(file, document);
      this.#failure = null;
      log.info({ file, bytes: document.bytes, tasks: document.tasks }, "made a backup");
      await this.#attempt(() => this.#removeOld(config.backup.keep));
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#run = null;
    }
  }

  #fail(error: unknown): void {
    const { clock, log } = this.#deps;
    const reason = messageOf(error);
    if (this.#isDraining) {
      log.info({}, "broke off a backup, because the daemon stops");
      return;
    }
    this.#failure = { at: clock.now(), reason };
    const newest = this.#newest === null ? null : timeText(this.#newest.createdAt);
    log.error({ folder: this.#folder.path, newest }, `the scheduled backup failed: ${reason}`);
  }

  async #removeOld(keep: number): Promise<void> {
    for (const file of this.#folder.files(".db").slice(0, -keep)) {
      await removeGradually(file, this.#isHurried);
      await removeGradually(documentPath(file), this.#isHurried);
    }
  }

  // A folder, or a file in it, that refuses something must not keep the daemon from serving.
  async #attempt(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      const { log } = this.#deps;
      log.error(
        { folder: this.#folder.path },
        `the folder of the backups is not in order: ${messageOf(error)}`,
      );
    }
  }

  readonly #isHurried = (): boolean => this.#isDraining;
}
