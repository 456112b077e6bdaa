import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";

import { postgresSchemaSql } from "../../assets.ts";
import { messageOf } from "../../domain/error.ts";
import type { TellProgress } from "../../domain/log.ts";
import {
  ConnectionLost,
  sqlStateOf,
  type Connection as Server,
} from "../postgres/machine/connection.ts";
import { reachServer } from "../postgres/machine/dialer.ts";
import type { ServerAddress } from "../postgres/machine/server-address.ts";
import { type Connection as File, openWriter } from "../sqlite/machine/connection.ts";
import { InstanceLock } from "../sqlite/machine/instance-lock.ts";
import {
  SCHEMA_VERSION,
  findMoveMark,
  markMoved,
  schemaVersionOf,
  unmarkMoved,
  unreleasedVersion,
} from "../sqlite/machine/schema.ts";
import { type CopyToServer, TO_SERVER } from "./copies.ts";
import {
  type ComparedTask,
  MoveError,
  type MoveReport,
  TASKS_OF_FILE,
  TASKS_OF_SERVER,
  checksumOf,
  continueOnServer,
  requireOwnVersion,
} from "./sides.ts";
import type { Scalar } from "./to-file.ts";

// A statement of a move takes as long as its index.
const DEADLINE_MS = 600_000;
// Rows go in pages; a page ends early with rows that are large.
const PAGE_ROWS = 1000;
const PAGE_CHARACTERS = 4 * 1024 * 1024;

const FIND_MOVE = `SELECT moved_from AS "movedFrom" FROM schema_version`;
const HAS_TABLES = `SELECT to_regclass('schema_version') IS NOT NULL AS "isThere"`;
const IS_USED = `
  SELECT EXISTS (SELECT 1 FROM nodes) OR EXISTS (SELECT 1 FROM accounts) OR EXISTS (SELECT 1 FROM secrets)
    OR EXISTS (SELECT 1 FROM schema_version WHERE moved_from IS NOT NULL) AS "isUsed"`;
const FIND_MODE = `SELECT value FROM secrets WHERE name = 'mode'`;
// The session holds it until the connection ends, also if this process crashes.
const LOCK_MOVES = `SELECT pg_advisory_lock(hashtext('postbackd move'))`;
const NOTE_MOVE = `UPDATE schema_version SET moved_from = $1`;

// Only ours: in a database with other schemas, those are their owners', who may be changing them.
const FILLED = new Set(TO_SERVER.map(({ table }) => table));

/** Tables whose numbers the server gives itself: it goes on above those that were moved. */
const NUMBERED = [
  "accounts",
  "suspension_changes",
  "keys",
  "access_requests",
  "sessions",
  "workers",
  "queue_checkpoints",
  "bulk_redeliveries",
  "delivery_pauses",
  "audit",
];

/** The source of a move, and where it goes. */
interface MoveToServer {
  readonly file: string;
  readonly server: ServerAddress;
  readonly tell: TellProgress;
}

/**
 * Moves everything from a file that no daemon serves to an empty database. All of it is one transaction: after any
 * interruption PostgreSQL has everything or nothing. Just before its COMMIT the file is marked, and then no daemon
 * starts on it any more; a move that is broken off at that moment is finished by the next one. Rejects with a {@link
 * MoveError}, or with the error of file or server.
 */
export async function moveToServer({ file, server, tell }: MoveToServer): Promise<MoveReport> {
  if (!existsSync(file)) throw new MoveError(`the file ${file} does not exist`);
  const lock = InstanceLock.acquire(file);
  try {
    const connection = openWriter(file);
    try {
      return await new ToServer(connection, server, tell).move(file);
    } finally {
      connection.close();
    }
  } finally {
    lock.release();
  }
}

class ToServer {
  readonly #file: File;
  readonly #address: ServerAddress;
  readonly #tell: TellProgress;

  constructor(file: File, address: ServerAddress, tell: TellProgress) {
    this.#file = file;
    this.#address = address;
    this.#tell = tell;
  }

  async move(from: string): Promise<MoveReport> {
    const mark = findMoveMark(this.#file);
    if (mark === null) this.#refuseOtherVersion(from);
    this.#refuseForTests(from);
    if (mark !== null && mark.to !== this.#address.shown) {
      throw new MoveError(`${from} was moved to ${mark.to}: name that`);
    }
    const { connection: server } = await reachServer(this.#address, DEADLINE_MS);
    try {
      // An earlier move whose last answer was lost may still be under way: this waits for its end.
      await server.command(LOCK_MOVES);
      if (mark !== null && (await this.#isThere(server, mark.id))) {
        return { ...this.#reportOf(from, 0), wasComplete: true };
      }
      // The move that marked the file committed nothing, so the file can be served in any case.
      if (mark !== null) unmarkMoved(this.#file);
      const isMade = await this.#refuseUsed(server);
      return this.#reportOf(from, await this.#copyAll(server, isMade));
    } finally {
      await server.close();
    }
  }

  async #isThere(server: Server, id: string): Promise<boolean> {
    if (!(await hasTables(server))) return false;
    const found = await server.get<{ movedFrom: string | null }>(FIND_MOVE);
    return found?.movedFrom === id;
  }

  #refuseOtherVersion(file: string): void {
    const version = schemaVersionOf(this.#file);
    if (version === SCHEMA_VERSION) return;
    throw new MoveError(
      version < SCHEMA_VERSION
        ? `${file} ${unreleasedVersion(version)}`
        : `${file} was made by a newer postbackd: move it with that`,
    );
  }

  /** Only 'postbackd dev' serves such a file, and it serves files alone. */
  #refuseForTests(file: string): void {
    const mode = this.#file.prepare<[], string>(FIND_MODE).pluck().get();
    if (mode !== "dev") return;
    throw new MoveError(
      `${file} was made by 'postbackd dev', for tests: no daemon would serve it from a server; move a file of 'postbackd start'`,
    );
  }

  /** Returns true if the tables exist and are empty: `postbackd database migrate` created them. */
  async #refuseUsed(server: Server): Promise<boolean> {
    if (!(await hasTables(server))) return false;
    const found = await server.get<{ isUsed: boolean }>(IS_USED);
    if (found?.isUsed === false) {
      await requireOwnVersion(server, this.#address);
      return true;
    }
    throw new MoveError(
      `${this.#address.shown} is in use already: name an empty database, or another schema with options=-csearch_path%3DNAME`,
    );
  }

  #reportOf(from: string, rows: number): MoveReport {
    const { tasks } = this.#file
      .prepare<[], { tasks: number }>("SELECT count(*) AS tasks FROM tasks")
      .get() ?? { tasks: 0 };
    return { from, to: this.#address.shown, rows, tasks, wasComplete: false };
  }

  /** Returns the number of rows. */
  async #copyAll(server: Server, isMade: boolean): Promise<number> {
    await server.command("SET idle_in_transaction_session_timeout = 0");
    await server.command("BEGIN");
    if (!isMade) await server.command(postgresSchemaSql);
    let rows = 0;
    for (const copy of TO_SERVER) rows += await this.#copy(server, copy);
    for (const table of NUMBERED) await this.#number(server, table);
    await this.#compare(server);
    await continueOnServer(this.#file, server);
    for (const table of FILLED) await server.command(`ANALYZE ${table}`);
    const id = randomUUID();
    await server.run(NOTE_MOVE, [id]);
    markMoved(this.#file, { id, to: this.#address.shown });
    await this.#commit(server);
    return rows;
  }

  async #commit(server: Server): Promise<void> {
    try {
      await server.command("COMMIT");
    } catch (error) {
      if (error instanceof ConnectionLost) {
        throw new MoveError(
          "the connection was lost at the last step: run the same command again, which finds out whether everything is there",
          { cause: error },
        );
      }
      unmarkMoved(this.#file);
      throw error;
    }
  }

  async #copy(server: Server, { table, columns, from }: CopyToServer): Promise<number> {
    const target = new ServerTable(server, { table, columns });
    const { of } = this.#file
      .prepare<[], { of: number }>(`SELECT count(*) AS "of" FROM (${from})`)
      .get() ?? { of: 0 };
    for (const page of pages(this.#file.prepare<[], Scalar[]>(from).raw().iterate())) {
      await target.add(page);
      this.#tell({ part: table, done: target.rows, of });
    }
    const there = await server.get<{ count: number }>(`SELECT count(*) FROM ${table}`);
    if (there?.count !== of) {
      throw new MoveError(`${table} has ${of} rows in the file and ${there?.count} on the server`);
    }
    return of;
  }

  async #number(server: Server, table: string): Promise<void> {
    const erased =
      table === "accounts" ? "UNION ALL SELECT max(last_seq) FROM erased_accounts" : "";
    const { last } = this.#file
      .prepare<[], { last: number | null }>(
        `SELECT max(seq) AS last FROM (SELECT max(seq) AS seq FROM ${table} ${erased})`,
      )
      .get() ?? { last: null };
    if (last === null) return;
    await server.run(`SELECT setval(pg_get_serial_sequence('${table}', 'seq'), $1)`, [last]);
  }

  async #compare(server: Server): Promise<void> {
    const ofFile = this.#file.prepare<[number, number], ComparedTask>(TASKS_OF_FILE);
    const [one, other] = await Promise.all([
      checksumOf((after, max) => Promise.resolve(ofFile.all(after, max))),
      checksumOf((after, max) => server.all(TASKS_OF_SERVER, [after, max])),
    ]);
    if (one !== other) throw new MoveError("the server and the file have different tasks");
  }
}

async function hasTables(server: Server): Promise<boolean> {
  return (await server.get<{ isThere: boolean }>(HAS_TABLES))?.isThere === true;
}

function* pages(rows: Iterable<Scalar[]>): Iterable<Scalar[][]> {
  let page: Scalar[][] = [];
  let characters = 0;
  for (const row of rows) {
    page.push(row);
    for (const value of row) if (typeof value === "string") characters += value.length;
    if (page.length < PAGE_ROWS && characters < PAGE_CHARACTERS) continue;
    yield page;
    page = [];
    characters = 0;
  }
  if (page.length > 0) yield page;
}

// Data exceptions and violated constraints.
const IS_OF_A_VALUE = /^2[23]/;

/** Fills a table on the server, inside the transaction of a move. */
class ServerTable {
  readonly #server: Server;
  readonly #table: string;
  readonly #columns: readonly string[];
  readonly #insert: string;
  #rows = 0;

  constructor(server: Server, { table, columns }: Omit<CopyToServer, "from">) {
    this.#server = server;
    this.#table = table;
    this.#columns = Object.keys(columns);
    this.#insert = insertOf(table, columns);
  }

  /** How many rows were added. */
  get rows(): number {
    return this.#rows;
  }

  /** Adds rows. Rejects with a {@link MoveError} that names the first row that the server refuses. */
  async add(page: readonly Scalar[][]): Promise<void> {
    await this.#server.command("SAVEPOINT page");
    try {
      await this.#run(page);
    } catch (error) {
      throw IS_OF_A_VALUE.test(sqlStateOf(error)) ? await this.#refusal(page, error) : error;
    }
    await this.#server.command("RELEASE SAVEPOINT page");
    this.#rows += page.length;
  }

  #run(rows: readonly Scalar[][]): Promise<number> {
    return this.#server.run(
      this.#insert,
      this.#columns.map((_, i) => rows.map((row) => row[i] ?? null)),
    );
  }

  // PostgreSQL reports which value it refused, but not of which row of the page.
  async #refusal(page: readonly Scalar[][], error: unknown): Promise<MoveError> {
    await this.#server.command("ROLLBACK TO SAVEPOINT page");
    for (const [i, row] of page.entries()) {
      try {
        await this.#run([row]);
      } catch (cause) {
        // Only the first column's number: a text may be a secret.
        const key = typeof row[0] === "number" ? ` (${this.#columns[0]} ${row[0]})` : "";
        return this.#refused(`row ${this.#rows + i + 1}${key}`, cause);
      }
    }
    return this.#refused("rows", error);
  }

  #refused(what: string, cause: unknown): MoveError {
    const message = `table ${this.#table}, ${what}: ${messageOf(cause)}; correct it in the file and move again, nothing was moved`;
    return new MoveError(message, { cause });
  }
}

// `unnest` takes nested arrays apart: those go as text.
function insertOf(table: string, columns: CopyToServer["columns"]): string {
  const entries = Object.entries(columns);
  const isNested = (type: string): boolean => type.endsWith("[]");
  const parameters = entries.map(([, type], i) => `$${i + 1}::${isNested(type) ? "text" : type}[]`);
  const values = entries.map(([name, type]) =>
    isNested(type) ? `a.${name}::${type}` : `a.${name}`,
  );
  const names = entries.map(([name]) => name).join(", ");
  return `
    INSERT INTO ${table} (${names}) SELECT ${values.join(", ")}
    FROM unnest(${parameters.join(", ")}) AS a (${names})`;
}
