import { accessSync, constants, mkdirSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import type { Config } from "../config/config.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import { randomBytes } from "../domain/id.ts";
import { readDocument, type CopyDocument } from "../store/sqlite/copy-facts.ts";
import type { Store } from "../store/store.ts";

/** A copy that the schedule made. */
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

  /** Makes the folder where there is none. Throws where this user cannot write to it, and says what to do. */
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

  /** The newest that has a document; whether it is whole, 'postbackd backup check' tells. */
  newest(): ScheduledCopy | null {
    for (const file of this.files(".db").toReversed()) {
      const document = readDocument(file);
      if (document !== null && document !== "unreadable") return toCopy(file, document);
    }
    return null;
  }
}

/** A folder of somebody else, or one that the unit lets nobody write to: ENOENT where it would have to be made. */
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
