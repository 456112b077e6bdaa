import { accessSync, constants, mkdirSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import { randomBytes } from "../domain/id.ts";
import type { Logger, TellProgress } from "../domain/log.ts";
import { Scheduler } from "../run/scheduler.ts";
import { type BackupRun, removeUnfinished } from "../store/sqlite/backup.ts";
import {
  type CopyDocument,
  CopyError,
  type SoundCopy,
  checkCopy,
  documentPath,
  readDocument,
} from "../store/sqlite/copy-check.ts";
import { removeGradually } from "../store/sqlite/machine/snapshot-copy.ts";
import type { Store } from "../store/store.ts";
import type { Database } from "./database.ts";

export interface BackupKeeperDeps {
  readonly config: Pick<Config, "backup">;
  readonly folder: BackupFolder | null;
  readonly database: Pick<Database, "startBackup">;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface BackupState {
  /** The newest backup; null if no backup exists. */
  readonly newest: ScheduledCopy | null;
  /** The last that failed since the daemon was started, and none has succeeded after it. */
  readonly failure: { readonly at: number; readonly reason: string } | null;
}

/** Makes backups by schedule and keeps the newest. A failure is logged and is a condition. */
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

  /**
   * Begins when there is a schedule. Reports at the start if no backup could be made, and removes the remains of a
   * backup that a crash interrupted.
   */
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

  /** Null if no schedule is configured. */
  state(): BackupState | null {
    if (this.#deps.folder === null) return null;
    return { newest: this.#newest, failure: this.#failure };
  }

  /** Problems that the operator should fix, as plain sentences. */
  warnings(): readonly string[] {
    if (this.#failure === null) return [];
    return [`the last backup failed at ${timeText(this.#failure.at)}; the log has the reason`];
  }

  /** Starts no further backups, and aborts the backup in progress. */
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

export interface ScheduledCopy {
  readonly file: string;
  readonly createdAt: number;
  readonly bytes: number;
}

type FolderConfig = Pick<Config, "database" | "backup">;

/**
 * The folder of a database's scheduled backups, which are named `DATABASE-INSTALLATION-NUMBER.db`. Other databases, also
 * with the same file name, may have their backups in the same folder. The number increases by 1 with each backup: a clock
 * that was ahead must not make an old backup the newest.
 */
export class BackupFolder {
  readonly path: string;
  readonly #base: string;
  readonly #installation: string;

  constructor({ database, backup }: FolderConfig, installation: string) {
    this.path = backup.folder ?? join(dirname(database), "backups");
    this.#base = basename(database, ".db");
    this.#installation = installation;
  }

  /** The folder of the daemon that has this store; null without a schedule. */
  static async open(
    config: FolderConfig,
    store: Pick<Store, "keepSecret">,
  ): Promise<BackupFolder | null> {
    if (config.backup.schedule === null) return null;
    const fresh = randomBytes(INSTALLATION_BYTES).toString("hex");
    const id = await store.keepSecret({ name: "installation", fresh });
    return new BackupFolder(config, id);
  }

  /** Creates the folder if it does not exist. Throws where this user cannot write to it, and says what to do. */
  make(): void {
    try {
      mkdirSync(this.path, { recursive: true, mode: 0o700 });
      accessSync(this.path, constants.W_OK | constants.X_OK);
    } catch (error) {
      const remedy = FORBIDDEN.includes(codeOf(error) ?? "")
        ? "make it, give it to the daemon's user, and under systemd name it in a drop-in, " +
          `'systemctl edit postbackd': [Service], ReadWritePaths=${this.path}; or leave backup.folder out`
        : messageOf(error);
      throw new Error(`${this.path} cannot be written to: ${remedy}`, { cause: error });
    }
  }

  /** The path of the next backup. Throws if the folder cannot be read. */
  nextFile(): string {
    const number = String((this.#numbered(".db").at(-1)?.number ?? 0) + 1).padStart(6, "0");
    return join(this.path, `${this.#base}-${this.#installation}-${number}.db`);
  }

  /** The paths of this installation's backups whose names end like this, oldest first. Throws if the folder cannot be read. */
  files(end: ".db" | ".db.part"): readonly string[] {
    return this.#numbered(end).map(({ name }) => join(this.path, name));
  }

  #numbered(end: string): readonly { readonly name: string; readonly number: number }[] {
    const found = namesIn(this.path).flatMap((name) => {
      const [, installation, digits, rest] = NAME.exec(name) ?? [];
      const isOwn = installation === this.#installation && rest === end;
      return isOwn ? [{ name, number: Number(digits) }] : [];
    });
    return found.toSorted((a, b) => a.number - b.number);
  }

  /** The newest backup that has a document. `postbackd backup check` verifies that it is complete. */
  newest(): ScheduledCopy | null {
    for (const file of this.files(".db").toReversed()) {
      const document = readDocument(file);
      if (document !== null && document !== "unreadable") return toCopy(file, document);
    }
    return null;
  }
}

/** A folder of another user, or a folder that the unit makes read-only: ENOENT if it would have to be created. */
const FORBIDDEN = ["EACCES", "EPERM", "EROFS", "ENOENT"];

const INSTALLATION_BYTES = 6;
const NAME = /-([0-9a-f]{12})-(\d{6,12})(\.db(?:\.part)?)$/;

export function toCopy(file: string, { createdAt, bytes }: CopyDocument): ScheduledCopy {
  return { file, createdAt, bytes };
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

export { giveWay } from "../store/sqlite/machine/connection.ts";
export type { SoundCopy } from "../store/sqlite/copy-check.ts";
export type { RestoredDeliveries, Restored } from "../store/sqlite/restore.ts";
export type { CopyDocument, CopyFacts } from "../store/sqlite/copy-check.ts";

/** Whether a copy is whole, and if not, why: a sentence without a full stop. */
export type CopyVerdict =
  | { readonly kind: "whole"; readonly copy: SoundCopy }
  | { readonly kind: "refused"; readonly reason: string };

/** Checks a copy, and reports its progress; see {@link checkCopy}. */
export function judgeCopy(file: string, tell: TellProgress = () => {}): CopyVerdict {
  try {
    return { kind: "whole", copy: checkCopy(file, { check() {}, tell }) };
  } catch (error) {
    if (!(error instanceof CopyError)) throw error;
    return { kind: "refused", reason: error.message };
  }
}
