import { constants, copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { schemaSql } from "../../assets.ts";
import { messageOf } from "../../domain/error.ts";
import { countFacts, documentPath, readDocument, sha256Of } from "./copy-facts.ts";
import type { CopyDocument, CopyFacts } from "./copy-facts.ts";
import { isDamage, type Connection } from "./machine/connection.ts";
import { UNWATCHED, type CopyWatch } from "./machine/copy-pace.ts";
import { schemaFault } from "./machine/file-check.ts";
import { headerFault, isDatabase, isOurs, isWalHeader } from "./machine/file-header.ts";
import {
  pagesCounted,
  pageSizeOf,
  readFileHeader,
  type FileHeader,
} from "./machine/file-header.ts";
import { findMoveMark } from "./machine/moved.ts";
import { SCHEMA_VERSION, schemaVersionOf, unreleasedVersion } from "./machine/schema.ts";
import { leaveWal, openCopy } from "./machine/snapshot-copy.ts";
import { tableCheckReads } from "./machine/table-check.ts";
import { rowFault } from "./row-check.ts";

/** Why a file is no copy that a daemon can be started with: a sentence without a full stop that names the file. */
export class CopyError extends Error {
  override readonly name = "CopyError" as const;
}

/** A copy that is whole. */
export interface SoundCopy extends CopyFacts {
  readonly sha256: string;
  /** The content of `FILE.json`, which agrees; null where there is none. */
  readonly document: CopyDocument | null;
}

/**
 * Checks a copy from its header to its last page, without starting it, and without writing to it or beside it. Throws a
 * {@link CopyError}.
 */
export function checkCopy(file: string, watch: CopyWatch = UNWATCHED): SoundCopy {
  const document = readDocument(file);
  if (document === "unreadable") {
    throw new CopyError(
      `${documentPath(file)} is not what 'postbackd backup create' wrote; without it the copy is checked by itself`,
    );
  }
  const facts = checkContent(file, watch, "rows too");
  const sha256 = sha256Of(file, watch);
  if (document !== null && document.sha256 !== sha256) {
    throw new CopyError(
      `${file} is not the copy that ${documentPath(file)} describes: its SHA-256 is ${sha256}, not ${document.sha256}`,
    );
  }
  return {
    bytes: facts.bytes,
    schemaVersion: facts.schemaVersion,
    tasks: facts.tasks,
    deliveries: facts.deliveries,
    openDeliveries: facts.openDeliveries,
    sha256,
    document,
  };
}

/** `rows too` also looks for missing rows ({@link rowFault}), which takes as long again. */
type CheckDepth = "pages" | "rows too";

/** Checks what is in a copy, and counts it. Throws a {@link CopyError}. */
export function checkContent(file: string, watch: CopyWatch, depth: CheckDepth): CopyFacts {
  const header = readHeader(file);
  requireSoundHeader(file, header);
  requireWhole(file);
  if (!isWalHeader(header)) return checkOpened({ file, path: file, watch, depth });
  // SQLite would make a -wal and a -shm beside it.
  const folder = mkdtempSync(join(tmpdir(), "postbackd-check-"));
  try {
    const path = join(folder, "copy.db");
    copyFileSync(file, path, constants.COPYFILE_FICLONE);
    leaveWal(path);
    return checkOpened({ file, path, watch, depth });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Opened {
  /** The name that messages have. */
  readonly file: string;
  readonly path: string;
  readonly watch: CopyWatch;
  readonly depth: CheckDepth;
}

function checkOpened({ file, path, watch, depth }: Opened): CopyFacts {
  try {
    const copy = openCopy(path);
    try {
      const schemaVersion = requireKnownVersion(file, copy);
      requireSoundTables(file, copy, watch);
      const fault = schemaFault(copy, schemaSql);
      if (fault !== null) throw new CopyError(`${file} is damaged (${fault})`);
      if (depth === "rows too") requireRows(file, copy, watch);
      const { tasks, deliveries, openDeliveries } = countFacts(copy);
      const bytes = statSync(file).size;
      return { bytes, schemaVersion, tasks, deliveries, openDeliveries };
    } finally {
      copy.close();
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    throw new CopyError(`${file} is damaged (${messageOf(error)})`, { cause: error });
  }
}

function readHeader(file: string): FileHeader {
  try {
    if (statSync(file).isFile()) return readFileHeader(file);
  } catch (error) {
    throw new CopyError(`${file} cannot be read: ${messageOf(error)}`, { cause: error });
  }
  throw new CopyError(`${file} is not a file`);
}

function requireSoundHeader(file: string, header: FileHeader): void {
  if (!isDatabase(header)) throw new CopyError(`${file} is not a database`);
  if (!isOurs(header)) throw new CopyError(`${file} is a database of another program`);
  const fault = headerFault(header);
  if (fault !== null) throw new CopyError(`${file} is damaged (${fault})`);
  const pages = pagesCounted(header);
  if (pages !== null && header.fileBytes < pages * pageSizeOf(header)) {
    throw new CopyError(
      `${file} is cut short: it has ${header.fileBytes} of ${pages * pageSizeOf(header)} bytes`,
    );
  }
}

// Of a copy that needs one of these, a part of what it holds is there.
function requireWhole(file: string): void {
  for (const suffix of ["-wal", "-journal"]) {
    const bytes = statSync(file + suffix, { throwIfNoEntry: false })?.size ?? 0;
    if (bytes === 0) continue;
    throw new CopyError(
      `${file} is in use, or was when it was copied (${file}${suffix} lies beside it): 'postbackd backup create' makes a ` +
        "copy that is whole",
    );
  }
}

function requireKnownVersion(file: string, copy: Connection): number {
  const version = schemaVersionOf(copy);
  const moved = findMoveMark(copy);
  if (moved !== null) throw new CopyError(`${file} was moved to ${moved.to}, and starts no more`);
  if (version > SCHEMA_VERSION) {
    throw new CopyError(
      `${file} was made by a newer postbackd (schema ${version}, this one knows ${SCHEMA_VERSION}): use that`,
    );
  }
  if (version === 0) throw new CopyError(`${file} is a database without anything in it`);
  if (version < SCHEMA_VERSION) throw new CopyError(`${file} ${unreleasedVersion(version)}`);
  return version;
}

// Table by table, so that it can be broken off between two.
function requireSoundTables(file: string, copy: Connection, { check, tell }: CopyWatch): void {
  const reads = tableCheckReads(copy);
  const tables = reads.listTables();
  for (const [i, table] of tables.entries()) {
    const fault = reads.checkTable(table);
    if (fault !== null) throw new CopyError(`${file} is damaged (${fault})`);
    check();
    tell({ part: "tables checked", done: i + 1, of: tables.length });
  }
}

function requireRows(file: string, copy: Connection, watch: CopyWatch): void {
  const fault = rowFault(copy, watch);
  if (fault !== null) throw new CopyError(`${file} is damaged (${fault})`);
}
