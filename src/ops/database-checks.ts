import { existsSync, statSync, type Stats } from "node:fs";
import { dirname } from "node:path";

import { prepareNativeAddon } from "../assets.ts";
import type { Config } from "../config/config.ts";
import { timeText } from "../domain/clock/time.ts";
import { isError, messageOf } from "../domain/error.ts";
import { databaseWarnings, type DatabaseHealth } from "../domain/stats/health.ts";
import { pauseOfAll } from "../domain/webhook/delivery-pause.ts";
import { rowFault } from "../store/sqlite/copy-check.ts";
import {
  type Connection,
  isDamage,
  openReader,
  sqliteVersion,
} from "../store/sqlite/machine/connection.ts";
import {
  DamageError,
  readFileHeader,
  refuseDamagedFile,
  tableCheckReads,
} from "../store/sqlite/machine/file-check.ts";
import type { LockHolder } from "../store/sqlite/machine/instance-lock.ts";
import { SCHEMA_VERSION } from "../store/sqlite/machine/schema.ts";
import { readPauses } from "../store/sqlite/served-file.ts";
import { type DeliveryPause, StoreError } from "../store/store.ts";
import { failure, conditionsOf, skipped, sound, warning, type Finding } from "./check.ts";
import { DatabaseError, databaseOf } from "./database-of.ts";
import { fileSystemOf, type FileSystem } from "./storage.ts";

/** Examines the place of the database and its owner; of a database on a server all that the server says of itself. */
export async function checkDatabase(config: Config, now: number): Promise<readonly Finding[]> {
  if (config.server !== null) return checkServer(config, now);
  const file = config.database;
  const stats = statSync(file, { throwIfNoEntry: false });
  if (stats === undefined) return [checkMissing(config)];
  return [judgePlace(file, fileSystemOf(file)), checkMode(file, stats)];
}

/** A file that no daemon has served may be missing: the first start creates it. */
function checkMissing(config: Config): Finding {
  const file = config.database;
  const holder = lostHolder(config);
  if (holder !== null) {
    return failure(
      "database",
      `${file} is missing, and process ${holder.pid} has served it`,
      "stop the daemon, put the file back with its -wal or run 'postbackd backup restore COPY', and start the daemon only then",
    );
  }
  try {
    refuseDamagedFile(file);
  } catch (error) {
    if (error instanceof DamageError) return failure("database", error.message, RESTORE);
    throw error;
  }
  return warning(
    "database",
    `${file} does not exist yet`,
    "start the daemon, or make the first account, or name another file with --db",
  );
}

/** The daemon that serves, or last served, a file that is missing now; null for every other file. */
export function lostHolder(config: Config): LockHolder | null {
  if (config.server !== null || existsSync(config.database)) return null;
  const holder = databaseOf(config).holder();
  // A start that failed has no URL, and leaves no file behind.
  return holder === null || holder.url === null ? null : holder;
}

/** Looks whether SQLite can be loaded where the file lies: the executable keeps its addon beside it. */
export function checkAddon({ database, server }: DatabaseConfig): Finding {
  // A file that there is not yet would get an addon beside it, and the doctor changes nothing.
  if (!isFile({ database, server })) return skipped("addon", "no file needs it yet");
  try {
    prepareNativeAddon(dirname(database));
    return sound("addon", `SQLite ${sqliteVersion()} is loaded`);
  } catch (error) {
    return failure(
      "addon",
      `SQLite's addon cannot be loaded: ${messageOf(error)}`,
      "set POSTBACKD_ADDON_FOLDER to a folder of the daemon's user from which code may be loaded, or install postbackd again",
    );
  }
}

/** Checks whether a database is safe on its file system. */
export function judgePlace(file: string, { name, kind }: FileSystem): Finding {
  switch (kind) {
    case "network":
      return failure(
        "file system",
        `${file} lies on ${name}, where locks do not keep a second daemon away`,
        "move it to a disk of this machine, or use PostgreSQL",
      );
    case "memory":
      return warning(
        "file system",
        `${file} lies in memory (${name}): a reboot takes it`,
        "move it to a disk, unless it is to be thrown away",
      );
    case "overlay":
      return warning(
        "file system",
        `${file} lies in the container itself: it goes with it`,
        "mount a volume for it, as with 'docker run --volume postbackd:/data'",
      );
    case "local":
      return sound("file system", `${file} lies on a disk of this machine`);
  }
}

function checkMode(file: string, { mode, uid }: Stats): Finding {
  const bits = (mode & 0o777).toString(8);
  if ((mode & 0o077) !== 0) {
    return warning(
      "owner",
      `${file} has mode ${bits}: other users of the machine can read tasks and secrets`,
      `chmod 600 ${file}`,
    );
  }
  const own = process.geteuid?.() ?? uid;
  if (uid === own || own === 0)
    return sound("owner", `${file} is its owner's alone (mode ${bits})`);
  return failure(
    "owner",
    `${file} belongs to user ${uid}, and this is user ${own}`,
    "run this as that user, or as root",
  );
}

type DatabaseConfig = Pick<Config, "database" | "server">;

function isFile({ database, server }: DatabaseConfig): boolean {
  return server === null && existsSync(database);
}

/** Reads everything in a database file through a connection that cannot write. */
export function checkContent(config: DatabaseConfig): readonly Finding[] {
  if (!isFile(config)) return [];
  const file = config.database;
  const version = schemaVersionOf(file);
  if (version > 0 && version < SCHEMA_VERSION) {
    const detail = `${file} has schema version ${version} of a postbackd before 0.1.0`;
    return [failure("content", detail, "move it aside and start with a new file")];
  }
  return checkTables(file);
}

function checkTables(file: string): readonly Finding[] {
  try {
    refuseDamagedFile(file);
    const connection = openReader(file);
    try {
      const { listTables, checkTable } = tableCheckReads(connection);
      const fault =
        listTables()
          .map(checkTable)
          .find((each) => each !== null) ?? null;
      const isWhole = fault === null && isOfThisVersion(connection);
      const found = isWhole ? missingRows(connection) : fault;
      if (found !== null) return [failure("content", `${file} is damaged (${found})`, RESTORE)];
      return [
        sound("content", `every table and index is sound; ${sizeText(statSync(file).size)}`),
        ...pauseFindings(isWhole ? readPauses(connection) : []),
      ];
    } finally {
      connection.close();
    }
  } catch (error) {
    return [failure("content", messageOf(error), saysDamage(error) ? RESTORE : UNREAD)];
  }
}

function pauseFindings(pauses: readonly DeliveryPause[]): readonly Finding[] {
  const pause = pauseOfAll(pauses);
  if (pause === null) return [];
  const reason = pause.reason === null ? "" : ` (${pause.reason})`;
  return [
    warning(
      "deliveries",
      `all webhooks are paused since ${timeText(pause.since)}${reason}`,
      "if this is no longer intended: postbackd admin delivery resume",
    ),
  ];
}

/** In one transaction, because the daemon may write meanwhile. */
function missingRows(connection: Connection): string | null {
  connection.exec("BEGIN");
  return rowFault(connection);
}

function isOfThisVersion(connection: Connection): boolean {
  return connection.pragma("user_version", { simple: true }) === SCHEMA_VERSION;
}

const RESTORE = "stop the daemon and put a copy in its place: postbackd backup restore COPY";
const UNREAD =
  "fix what it names, then run doctor again; do not restore a backup: the file may be sound";

/** False for an error of the system or of the addon. A restore after it would replace a file that may be sound. */
function saysDamage(error: unknown): boolean {
  if (error instanceof DamageError || isDamage(error)) return true;
  return isError(error) && isDamage(error.cause);
}

/** Read from the file itself; 0 if it is not a database, or a new database whose tables are still in its -wal. */
function schemaVersionOf(file: string): number {
  return readFileHeader(file).bytes.readUInt32BE(60);
}

// The writer keeps it at a few megabytes, unless another process reads for a long time.
const WAL_BYTES_MAX = 256 * 1024 ** 2;

export async function checkRoom(config: Config, now: number): Promise<readonly Finding[]> {
  if (!isFile(config)) return [];
  const { walBytes, diskFreeBytes: freeBytes } = await databaseOf(config).sizes();
  const wal = checkWal(config.database, walBytes ?? 0);
  if (freeBytes === null) return [wal, skipped("disk", "the free space is not known")];
  const disk = { freeBytes, freeBytesMin: config.limits.diskFreeBytes };
  return [wal, ...conditionsOf("disk", { now, disk }, `${sizeText(freeBytes)} are free`)];
}

function checkWal(file: string, bytes: number): Finding {
  if (bytes <= WAL_BYTES_MAX) return sound("WAL", `${file}-wal has ${sizeText(bytes)}`);
  return warning(
    "WAL",
    `${file}-wal has grown to ${sizeText(bytes)}: a process reads the file for a long time`,
    "end other programs that have it open (lsof), such as a sqlite3 with an open transaction",
  );
}

async function checkServer(config: Config, now: number): Promise<readonly Finding[]> {
  try {
    const { store } = await databaseOf(config).openAdminStore({ mayCreate: false });
    try {
      return [
        ...healthFindings(await store.findDatabaseHealth(), now),
        ...pauseFindings(await store.listDeliveryPauses()),
      ];
    } finally {
      await store.close();
    }
  } catch (error) {
    if (!(error instanceof DatabaseError || error instanceof StoreError)) throw error;
    return [failure("database", error.message, "fix that")];
  }
}

function healthFindings(health: DatabaseHealth | null, now: number): readonly Finding[] {
  if (health === null) return [skipped("database", "PostgreSQL reports nothing about itself")];
  const { used, max } = health.connections;
  const warnings = databaseWarnings(health).map(({ text }) => text);
  const summary = `PostgreSQL ${health.version}, ${used} of ${max} connections used`;
  const found = conditionsOf("database", { now, databaseWarnings: warnings });
  return [sound("database", summary), ...found];
}

function sizeText(bytes: number): string {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
