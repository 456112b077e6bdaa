import { existsSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";

import type { TellProgress } from "../../domain/log.ts";
import type { Connection as Server } from "../postgres/machine/connection.ts";
import { reachServer } from "../postgres/machine/dialer.ts";
import { endSilent } from "../postgres/machine/heartbeat.ts";
import type { ServerAddress } from "../postgres/machine/server-address.ts";
import {
  type Connection,
  type Connection as File,
  openWriter,
  syncToDisk,
} from "../sqlite/machine/connection.ts";
import { makeSchema } from "../sqlite/machine/schema.ts";
import { type CopyToFile, TO_FILE } from "./copies.ts";
import {
  type ComparedTask,
  MoveError,
  type MoveReport,
  TASKS_OF_FILE,
  TASKS_OF_SERVER,
  checksumOf,
  continueInFile,
  requireOwnVersion,
} from "./sides.ts";

const DEADLINE_MS = 600_000;
const PAGE_ROWS = 1000;

const FIND_MOVE = `SELECT moved_to AS "movedTo" FROM schema_version`;
const HAS_TABLES = `SELECT to_regclass('schema_version') IS NOT NULL AS "isThere"`;
const LIVING = `SELECT name FROM nodes WHERE ended_at IS NULL`;
const NOTE_MOVE = `UPDATE schema_version SET moved_to = $1`;

/** The source of a move, and where it goes. */
interface MoveToFile {
  readonly server: ServerAddress;
  readonly file: string;
  readonly tell: TellProgress;
}

/**
 * Moves everything from a database that no daemon uses to a file that is not there yet. It is made under another name;
 * when it is complete, the database is marked, so that no daemon joins it any more, and then the file gets its name. A
 * move that is broken off between these two is finished by the next one. Rejects with a {@link MoveError}, or with the
 * error of file or server.
 */
export async function moveToFile({ server: address, file, tell }: MoveToFile): Promise<MoveReport> {
  refuseTaken(file);
  const made = `${file}.moving`;
  const { connection: server } = await reachServer(address, DEADLINE_MS);
  try {
    await server.command("SET idle_in_transaction_session_timeout = 0");
    await requireTables(server, address);
    await requireOwnVersion(server, address);
    // A node without a heartbeat cannot commit anything any more.
    await endSilent(server);
    await server.command("BEGIN ISOLATION LEVEL REPEATABLE READ");
    // Before the first look: a daemon that joined meanwhile is seen, and none joins until this is over.
    await server.command("LOCK TABLE schema_version IN EXCLUSIVE MODE");
    const movedTo = await refuseBusy(server, address);
    if (movedTo !== null) return finish({ made, file, movedTo, address });
    removeFile(made);
    const connection = openWriter(made);
    let rows = 0;
    try {
      makeSchema(connection);
      for (const copy of TO_FILE) rows += await copyTable({ server, connection, tell }, copy);
      await compare(server, connection);
      await continueInFile(server, connection);
      connection.pragma("wal_checkpoint(TRUNCATE)");
    } finally {
      connection.close();
    }
    syncToDisk(made);
    await server.run(NOTE_MOVE, [file]);
    await server.command("COMMIT");
    return { ...finish({ made, file, movedTo: file, address }), rows, wasComplete: false };
  } finally {
    await server.close();
  }
}

// SQLite would read the -wal of another database as its own.
function refuseTaken(file: string): void {
  const taken = [file, `${file}-wal`, `${file}-shm`, `${file}-journal`].find((each) =>
    existsSync(each),
  );
  if (taken !== undefined) {
    throw new MoveError(`${taken} is there already: name a file that is not, or move it aside`);
  }
}

async function requireTables(server: Server, address: ServerAddress): Promise<void> {
  const tables = await server.get<{ isThere: boolean }>(HAS_TABLES);
  if (tables?.isThere !== true) throw new MoveError(`${address.shown} has no tables of postbackd`);
}

/** Returns where the database was moved to before; null if it was not moved. */
async function refuseBusy(server: Server, address: ServerAddress): Promise<string | null> {
  const found = await server.get<{ movedTo: string | null }>(FIND_MOVE);
  const living = await server.all<{ name: string }>(LIVING);
  if (living.length > 0) {
    const names = living.map(({ name }) => name).join(", ");
    throw new MoveError(`these daemons use ${address.shown}: ${names}; stop them first`);
  }
  return found?.movedTo ?? null;
}

interface Finish {
  readonly made: string;
  readonly file: string;
  readonly movedTo: string;
  readonly address: ServerAddress;
}

/** Gives the complete file its name. */
function finish({ made, file, movedTo, address }: Finish): MoveReport {
  if (movedTo !== file || !existsSync(made)) {
    throw new MoveError(`${address.shown} was moved to ${movedTo} before`);
  }
  const connection = openWriter(made);
  const tasks = connection.prepare<[], number>("SELECT count(*) FROM tasks").pluck().get() ?? 0;
  connection.close();
  refuseTaken(file);
  renameSync(made, file);
  syncToDisk(dirname(file));
  return { from: address.shown, to: file, rows: 0, tasks, wasComplete: true };
}

interface Sides {
  readonly server: Server;
  readonly connection: File;
  readonly tell: TellProgress;
}

async function copyTable(
  { server, connection, tell }: Sides,
  { table, columns, from }: CopyToFile,
): Promise<number> {
  const counted = await server.get<{ count: number }>(`SELECT count(*) FROM (${from}) AS rows`);
  const of = counted?.count ?? 0;
  const writer = new FileWriter(connection);
  const add = writer.into(table, columns);
  await server.command(`DECLARE moved NO SCROLL CURSOR FOR ${from}`);
  let rows = 0;
  for (let before = -1; rows > before;) {
    before = rows;
    await server.each(`FETCH ${PAGE_ROWS} FROM moved`, (row) => {
      add(row);
      rows++;
    });
    if (rows > before) tell({ part: table, done: rows, of });
  }
  writer.commit();
  await server.command("CLOSE moved");
  if (rows !== of)
    throw new MoveError(`${table} has ${of} rows on the server and ${rows} in the file`);
  return rows;
}

async function compare(server: Server, connection: File): Promise<void> {
  const ofFile = connection.prepare<[number, number], ComparedTask>(TASKS_OF_FILE);
  const [one, other] = await Promise.all([
    checksumOf((after, max) => Promise.resolve(ofFile.all(after, max))),
    checksumOf((after, max) => server.all(TASKS_OF_SERVER, [after, max])),
  ]);
  if (one !== other) throw new MoveError("the file and the server have different tasks");
}

function removeFile(file: string): void {
  for (const each of [file, `${file}-wal`, `${file}-shm`]) rmSync(each, { force: true });
}

/** A value as both databases have it. */
export type Scalar = string | number | null;

// A commit costs an fsync; what is not committed lies in memory, or in the -wal.
const CHARACTERS_MAX = 4 * 1024 * 1024;
const ROWS_MAX = 10_000;
const WAL_BYTES_MAX = 64 * 1024 * 1024;

/** Fills the tables of a new file, in transactions of some megabytes; its `-wal` stays small too. */
class FileWriter {
  readonly #file: Connection;
  #rows = 0;
  #characters = 0;

  constructor(file: Connection) {
    this.#file = file;
  }

  /** Returns a function that adds a row with the values of the given columns to a table. */
  into(table: string, columns: readonly string[]): (row: readonly Scalar[]) => void {
    const places = columns.map(() => "?").join(", ");
    const insert = this.#file.prepare<Scalar[]>(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places})`,
    );
    return (row) => {
      if (!this.#file.inTransaction) this.#file.exec("BEGIN IMMEDIATE");
      insert.run(...row);
      this.#rows++;
      for (const value of row) if (typeof value === "string") this.#characters += value.length;
      if (this.#rows >= ROWS_MAX || this.#characters >= CHARACTERS_MAX) this.commit();
    };
  }

  /** To be called after the last row. */
  commit(): void {
    this.#rows = 0;
    this.#characters = 0;
    if (this.#file.inTransaction) this.#file.exec("COMMIT");
    const wal = statSync(`${this.#file.name}-wal`, { throwIfNoEntry: false });
    // No other process reads the file, so all of the -wal goes into it.
    if ((wal?.size ?? 0) > WAL_BYTES_MAX) this.#file.pragma("wal_checkpoint(TRUNCATE)");
  }
}
