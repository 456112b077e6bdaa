import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { timeText } from "../../domain/clock/time.ts";
import { messageOf, codeOf } from "../../domain/error.ts";
import { ANSWER_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES } from "../common/large-task.ts";
import { ON_SQLITE } from "../sql/task-columns.ts";
import { ATTEMPTS_BYTES } from "../sql/task-erasure.ts";
import { type Connection, isDamage } from "./machine/connection.ts";
import {
  type FileHeader,
  headerFault,
  isDatabase,
  isOurs,
  isWalHeader,
  pageSizeOf,
  pagesCounted,
  readFileHeader,
  tableCheckReads,
} from "./machine/file-check.ts";
import {
  SCHEMA_VERSION,
  findMoveMark,
  schemaVersionOf,
  unreleasedVersion,
  schemaFault,
} from "./machine/schema.ts";
import {
  type CopyWatch,
  UNWATCHED,
  leaveWal,
  openCopy,
  MIB_BYTES,
} from "./machine/snapshot-copy.ts";

/** Why a file is not a backup with which a daemon can start: a sentence without a full stop that names the file. */
export class CopyError extends Error {
  override readonly name = "CopyError" as const;
}

/** The content is damaged or incomplete. */
class DamagedCopyError extends CopyError {}

/** A copy that is whole. */
export interface SoundCopy extends CopyFacts {
  readonly sha256: string;
  /** The content of `FILE.json`, which matches; null if it does not exist. */
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
  const facts = checkForUse(file, watch);
  const sha256 = sha256Of(file, watch);
  if (document !== null && document.sha256 !== sha256) {
    throw new CopyError(
      `${file} is not the copy that ${documentPath(file)} describes: its SHA-256 is ${sha256}, not ${document.sha256}`,
    );
  }
  return { ...facts, sha256, document };
}

function checkForUse(file: string, watch: CopyWatch): CopyFacts {
  try {
    return checkContent(file, watch, "rows too");
  } catch (error) {
    if (!(error instanceof DamagedCopyError)) throw error;
    throw new CopyError(`${error.message}; use another backup`, { cause: error });
  }
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
      const fault = schemaFault(copy);
      if (fault !== null) throw new DamagedCopyError(`${file} is damaged (${fault})`);
      if (depth === "rows too") requireRows(file, copy, watch);
      return { bytes: statSync(file).size, schemaVersion, ...countFacts(copy) };
    } finally {
      copy.close();
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    throw new DamagedCopyError(`${file} is damaged (${messageOf(error)})`, { cause: error });
  }
}

function readHeader(file: string): FileHeader {
  try {
    if (statSync(file).isFile()) return readFileHeader(file);
  } catch (error) {
    const fault =
      codeOf(error) === "ENOENT" ? "does not exist" : `cannot be read: ${messageOf(error)}`;
    throw new CopyError(`${file} ${fault}`, { cause: error });
  }
  throw new CopyError(`${file} is not a file`);
}

function requireSoundHeader(file: string, header: FileHeader): void {
  if (!isDatabase(header)) throw new CopyError(`${file} is not a database`);
  if (!isOurs(header)) throw new CopyError(`${file} is a database of another program`);
  const fault = headerFault(header);
  if (fault !== null) throw new DamagedCopyError(`${file} is damaged (${fault})`);
  const pages = pagesCounted(header);
  if (pages !== null && header.fileBytes < pages * pageSizeOf(header)) {
    throw new DamagedCopyError(
      `${file} is cut short: it has ${header.fileBytes} of ${pages * pageSizeOf(header)} bytes`,
    );
  }
}

// A backup that needs such a file has only a part of its data.
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
    if (fault !== null) throw new DamagedCopyError(`${file} is damaged (${fault})`);
    check();
    tell({ part: "tables checked", done: i + 1, of: tables.length });
  }
}

function requireRows(file: string, copy: Connection, watch: CopyWatch): void {
  const fault = rowFault(copy, watch);
  if (fault !== null) throw new DamagedCopyError(`${file} is damaged (${fault})`);
}

/** Checks that find missing rows. To SQLite itself a table without some of its rows is sound. */

/**
 * Describes the first fault of a database of this version; null if it has none. All of it must be read in one
 * transaction if another process may write.
 */
export function rowFault(connection: Connection, watch: CopyWatch = UNWATCHED): string | null {
  return referenceFault(connection, watch) ?? sizeFault(connection, watch);
}

interface Violation {
  /** Null in a table without row ids. */
  readonly rowid: number | null;
  readonly parent: string;
}

function referenceFault(connection: Connection, { check }: CopyWatch): string | null {
  for (const table of tableCheckReads(connection).listTables()) {
    const name = table.replaceAll("'", "''");
    const [first] = connection.pragma(`foreign_key_check('${name}')`) as Violation[];
    if (first !== undefined) {
      return `row ${first.rowid ?? "?"} of ${table} refers to a missing row of ${first.parent}`;
    }
    check();
  }
  return null;
}

// 0.1 s for each step.
const STEP_TASKS = 10_000;

const STEP_END = `
  SELECT max(seq) FROM (SELECT seq FROM tasks WHERE seq > ? ORDER BY seq LIMIT ${STEP_TASKS})`;

const TASK_SIZES = `
  SELECT t.account_seq AS accountId, sum(${TASK_OVERHEAD_BYTES} + ${ON_SQLITE.textBytes} + ${ATTEMPTS_BYTES}) AS bytes
  FROM tasks AS t
  ${ON_SQLITE.joins}
  WHERE t.seq > ? AND t.seq <= ?
  GROUP BY t.account_seq`;

const ANSWER_SIZES = `
  SELECT account_seq AS accountId, sum(${ANSWER_OVERHEAD_BYTES} + octet_length(response_text)) AS bytes
  FROM idempotency_keys
  GROUP BY account_seq`;

const COUNTED_SIZES = `
  SELECT c.account_seq AS accountId, a.login, c.count AS bytes
  FROM task_counts AS c JOIN accounts AS a ON a.seq = c.account_seq
  WHERE c.state = 'bytes'`;

interface Size {
  readonly accountId: number;
  readonly bytes: number;
}

/**
 * Compares the size of each account's rows with the size that was counted as they were written. An input, a result and
 * an attempt are optional for a task, so nothing else shows that one is missing. A larger size than counted is accepted.
 */
function sizeFault(connection: Connection, { check }: CopyWatch): string | null {
  const found = new Map<number, number>();
  const add = ({ accountId, bytes }: Size): void => {
    found.set(accountId, (found.get(accountId) ?? 0) + bytes);
  };
  const stepEnd = connection.prepare<[number], number | null>(STEP_END).pluck();
  const tasks = connection.prepare<[number, number], Size>(TASK_SIZES);
  let after = 0;
  for (let end = stepEnd.get(after); typeof end === "number"; end = stepEnd.get(after)) {
    tasks.all(after, end).forEach(add);
    after = end;
    check();
  }
  connection.prepare<[], Size>(ANSWER_SIZES).all().forEach(add);
  const counted = connection.prepare<[], Size & { login: string }>(COUNTED_SIZES).all();
  const short = counted.find(({ accountId, bytes }) => (found.get(accountId) ?? 0) < bytes);
  if (short === undefined) return null;
  const missing = short.bytes - (found.get(short.accountId) ?? 0);
  return `the rows of account ${short.login} have ${missing} bytes less than were counted: an input, a result or an attempt is missing`;
}

/** Facts about the content of a copy. */
export interface CopyFacts {
  readonly bytes: number;
  readonly schemaVersion: number;
  readonly tasks: number;
  readonly deliveries: number;
  /** Webhooks that a daemon would send by itself: an attempt of theirs is scheduled or was under way. */
  readonly openDeliveries: number;
}

/** The content of `FILE.json`, about the copy beside it. */
export interface CopyDocument extends CopyFacts {
  readonly createdAt: number;
  /** The version of the program that made it. */
  readonly program: string;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** The path of a backup's document. */
export function documentPath(file: string): string {
  return `${file}.json`;
}

// An index for each: a delivery that is not ended has one such attempt, unless it waits for its task.
const COUNT_OPEN = `
  SELECT (SELECT count(*) FROM attempts WHERE started_at IS NULL)
    + (SELECT count(*) FROM attempts WHERE started_at IS NOT NULL AND ended_at IS NULL)`;

/** Counts what is in a copy. */
function countFacts(copy: Connection): Omit<CopyFacts, "bytes" | "schemaVersion"> {
  const count = (sql: string): number => copy.prepare<[], number>(sql).pluck().get() ?? 0;
  return {
    tasks: count("SELECT count(*) FROM tasks"),
    deliveries: count("SELECT count(*) FROM deliveries"),
    openDeliveries: count(COUNT_OPEN),
  };
}

/** The SHA-256 of a file; looks at its watch after each MiB. The file must not be open in this process otherwise. */
export function sha256Of(file: string, { check, tell }: CopyWatch = UNWATCHED): string {
  const hash = createHash("sha256");
  const chunk = Buffer.alloc(MIB_BYTES);
  const descriptor = openSync(file, "r");
  try {
    const of = Math.ceil(fstatSync(descriptor).size / MIB_BYTES);
    for (let done = 1; ; done++) {
      const length = readSync(descriptor, chunk);
      if (length === 0) return hash.digest("hex");
      hash.update(chunk.subarray(0, length));
      check();
      tell({ part: "MiB read", done, of });
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The text of `FILE.json`. */
export function documentText(document: CopyDocument): string {
  const { createdAt, program, schemaVersion, bytes, tasks, deliveries, openDeliveries, sha256 } =
    document;
  const shown = {
    created_at: timeText(createdAt),
    postbackd: program,
    schema_version: schemaVersion,
    bytes,
    tasks,
    deliveries,
    open_deliveries: openDeliveries,
    sha256,
  };
  return `${JSON.stringify(shown, null, 2)}\n`;
}

/** Reads the document of a backup; null if it does not exist, `unreadable` if the file is not such a document. */
export function readDocument(file: string): CopyDocument | "unreadable" | null {
  let text;
  try {
    // Without O_NONBLOCK the open of a FIFO waits for a writer.
    const flag = constants.O_RDONLY | constants.O_NONBLOCK;
    text = readFileSync(documentPath(file), { encoding: "utf8", flag });
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
  try {
    return parseDocument(JSON.parse(text)) ?? "unreadable";
  } catch {
    return "unreadable";
  }
}

function parseDocument(value: unknown): CopyDocument | null {
  if (typeof value !== "object" || value === null) return null;
  const given = new Map<string, unknown>(Object.entries(value));
  const number = (name: string): number => Number(given.get(name) ?? Number.NaN);
  const document = {
    createdAt: Date.parse(String(given.get("created_at"))),
    program: String(given.get("postbackd")),
    schemaVersion: number("schema_version"),
    bytes: number("bytes"),
    tasks: number("tasks"),
    deliveries: number("deliveries"),
    openDeliveries: number("open_deliveries"),
    sha256: String(given.get("sha256")),
  };
  const isSound = Object.values(document).every((each) => !Number.isNaN(each));
  return isSound && /^[0-9a-f]{64}$/.test(document.sha256) ? document : null;
}
