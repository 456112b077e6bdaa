import { accessSync, constants, mkdirSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import type { Config } from "../config/config.ts";
import { codeOf, messageOf } from "../domain/message-of.ts";
import { readDocument, type CopyDocument } from "../store/sqlite/copy-facts.ts";
import { stampOf } from "../store/sqlite/file-stamp.ts";

/** A copy that the schedule made. */
export interface ScheduledCopy {
  readonly file: string;
  readonly createdAt: number;
  readonly bytes: number;
}

/** The folder of a database's scheduled backups. Others may keep files of their own in it. */
export class BackupFolder {
  readonly path: string;
  /** The name of a backup begins with that of its database. */
  readonly #base: string;

  constructor({ database, backup }: Pick<Config, "database" | "backup">) {
    this.path = backup.folder ?? join(dirname(database), "backups");
    this.#base = basename(database, ".db");
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

  /** The path of a copy that is made at this time. */
  fileAt(time: number): string {
    return join(this.path, `${this.#base}-${stampOf(time)}.db`);
  }

  /** The paths of the backups of this database whose names end like this, oldest first. Throws for a folder that refuses. */
  files(end: string): readonly string[] {
    const found = namesIn(this.path).filter((name) => {
      const [base, stamp] = [
        name.slice(0, this.#base.length + 1),
        name.slice(this.#base.length + 1),
      ];
      return base === `${this.#base}-` && STAMP.test(stamp) && stamp.slice(STAMP_LENGTH) === end;
    });
    return found.toSorted().map((name) => join(this.path, name));
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

const STAMP = /^\d{8}T\d{6}Z/;
const STAMP_LENGTH = 16;

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
