import { type Clock, wait } from "../../../domain/clock/clock.ts";
import { messageOf } from "../../../domain/error.ts";
import type { Logger } from "../../../domain/log.ts";
import { StoreError } from "../../store-error.ts";
import { Connection } from "./connection.ts";
import {
  type ServerAddress,
  type ServerHostConfig,
  type ServerSettings,
  connectError,
  readOnlyText,
  settingsError,
} from "./server-address.ts";

export interface DialerParts {
  readonly server: ServerAddress;
  /** By which the server's operator knows these connections. */
  readonly applicationName: string;
  readonly clock: Clock;
  readonly log: Logger | undefined;
}

const PAUSE_MS_MIN = 50;
const PAUSE_MS_MAX = 1000;

/** Opens connections to that host of a server which takes writes, and keeps them together. */
export class Dialer {
  readonly #parts: DialerParts;
  readonly #open = new Set<Connection>();
  readonly #closed = new AbortController();
  /** The host that answered last. */
  #first = "";
  #isDown = false;

  constructor(parts: DialerParts) {
    this.#parts = parts;
  }

  /** Connects to the first host that takes writes. Rejects with a StoreError when none does, or this is closed. */
  dial(session: Session): Promise<Connection> {
    const { signal } = this.#closed;
    return new Promise((resolve, reject) => {
      const end = (): void => reject(isClosed());
      if (signal.aborted) end();
      signal.addEventListener("abort", end);
      // One that is closed meanwhile destroys what it opens.
      this.#dial(session)
        .finally(() => signal.removeEventListener("abort", end))
        .then(resolve, reject);
    });
  }

  async #dial(session: Session): Promise<Connection> {
    this.#refuseWhenClosed();
    const { connection, host } = await reachServer(this.#server(), session.deadlineMs);
    this.#first = host.shown;
    this.#open.add(connection);
    connection.lost.addEventListener("abort", () => this.#open.delete(connection));
    try {
      this.#refuseWhenClosed();
      await setUp(connection, session);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    return connection;
  }

  /** Connects as soon as the server can be reached. Rejects once this is closed. */
  async reach(session: Session): Promise<Connection> {
    const { clock } = this.#parts;
    for (let pauseMs = PAUSE_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      try {
        const connection = await this.dial(session);
        this.#noteDown(null);
        return connection;
      } catch (error) {
        this.#refuseWhenClosed();
        this.#noteDown(error);
      }
      // Nodes that lost the server at one moment must not all come back at one.
      const jitterMs = pauseMs * (0.5 + Math.random() / 2);
      await wait(jitterMs, { clock, signal: this.#closed.signal });
    }
  }

  /** Ends every connection immediately, and opens no more. */
  close(): void {
    this.#closed.abort();
    for (const connection of this.#open) connection.destroy("the store is closed");
  }

  #server(): ServerAddress {
    const { applicationName } = this.#parts;
    const server = this.#parts.server.readAgain();
    const hosts = server.hosts
      .map((host) => ({ ...host, application_name: applicationName }))
      // The most recently reached host is tried first: a lost host may cost its whole timeout each time.
      .toSorted((a, b) => Number(b.shown === this.#first) - Number(a.shown === this.#first));
    // A node always writes, also if the address is otherwise used for reads.
    return { ...server, hosts, targetSession: "read-write" };
  }

  #refuseWhenClosed(): void {
    if (this.#closed.signal.aborted) throw isClosed();
  }

  /** Reports once for all connections. */
  #noteDown(error: unknown): void {
    const { log, server } = this.#parts;
    const isDown = error !== null;
    if (isDown === this.#isDown) return;
    this.#isDown = isDown;
    if (isDown) log?.warn({ server: server.shown, reason: messageOf(error) }, "lost the database");
    else log?.info({ server: server.shown }, "reached the database again");
  }
}

function isClosed(): StoreError {
  return new StoreError("closed", "the store is closed");
}

/** A connection, and the host that it leads to. */
export interface Reached {
  readonly connection: Connection;
  readonly host: ServerHostConfig;
}

/**
 * Connects to the first host that answers and, where the address asks for it, takes writes. Rejects with a StoreError
 * that has the fault of each host; its kind is `unreachable` if a host may be reachable later. Refuses a server that
 * may lose acknowledged commits, and a database that is not UTF-8. A statement has `deadlineMs`, see {@link
 * Connection.open}.
 */
export async function reachServer(server: ServerAddress, deadlineMs: number): Promise<Reached> {
  const failures: StoreError[] = [];
  for (const host of server.hosts) {
    try {
      return { connection: await reachHost(host, { server, deadlineMs }), host };
    } catch (error) {
      failures.push(connectError(error, host));
    }
  }
  const [first, ...others] = failures;
  if (first !== undefined && others.length === 0) throw first;
  const isPassing = failures.some((failure) => failure.isPassing);
  const message = failures.map((failure) => failure.message).join("; ");
  throw new StoreError(isPassing ? "unreachable" : "failed", message, { cause: first });
}

const LOOK = `
  SELECT current_setting('transaction_read_only') AS read_only, current_setting('fsync') AS fsync,
    current_setting('server_encoding') AS server_encoding, current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit`;

async function reachHost(
  host: ServerHostConfig,
  { server, deadlineMs }: { readonly server: ServerAddress; readonly deadlineMs: number },
): Promise<Connection> {
  const connection = await Connection.open(host, deadlineMs);
  try {
    const found = await connection.get<ServerSettings & { readonly read_only: string }>(LOOK);
    if (found === undefined) throw new Error("the server reports no settings");
    const { read_only, ...settings } = found;
    const fault = settingsError(settings, host);
    if (fault !== null) throw fault;
    if (server.targetSession === "read-write" && read_only === "on") {
      throw new StoreError("unreachable", readOnlyText(host.shown));
    }
    return connection;
  } catch (error) {
    connection.destroy();
    throw error;
  }
}

/** The settings that a node expects of a session, and of the server that it reached. */

/** How a connection is used. */
export interface Session {
  /** A statement that is not answered for so long costs the connection. */
  readonly deadlineMs: number;
  /** The server breaks a statement off after this time; 0 for never. */
  readonly statementMs: number;
  /** The server breaks a wait for a row off after this time; 0 for never. */
  readonly lockMs: number;
  /**
   * True where a commit may be lost when the server crashes, and need not wait for the disk nor for standbys: a
   * heartbeat must not stop because a standby does.
   */
  readonly mayLose: boolean;
}

export const WRITER: Session = { deadlineMs: 5000, statementMs: 0, lockMs: 4000, mayLose: false };

export const READER: Session = { deadlineMs: 6000, statementMs: 5000, lockMs: 0, mayLose: false };

/**
 * Joins, leaves and ends nodes. To take a dead node's stripes away waits for its batch under way, which the server ends
 * after 10 s. Nodes come and go while no standby answers: who is lost in a failover finds no row of itself, and what
 * they write later is on no disk without this.
 */
export const ENDER: Session = { deadlineMs: 15_000, statementMs: 0, lockMs: 0, mayLose: true };

const OLDEST_VERSION = 140_000;

// A process that was stopped inside a transaction holds its locks no longer than this.
const IDLE_MS_MAX = 10_000;

// A plan outlives what it was made for: one that was made when a table was empty, or by figures from before a burst of
// posts, reads whole tables until the server has counted anew, a minute later at best (measured with 100,000 waiting
// tasks: 140 ms for a claim instead of 1.2). Every statement has an index to go by, mostly one that has its rows in their
// order: a bitmap of it loses that, and then all that is delayed is sorted for the next few (17 ms instead of 0.6 with
// 10,000 delayed tasks). A scan of a whole table that has to be is then given a price at which the server would compile
// its plan: that took 100 ms and more (measured), for a statement that runs in 1.
// Defaults of the role, the database or the URL must not change how texts, arrays and times are read and written, nor end
// a session or a transaction early. Only PostgreSQL 17 and later know transaction_timeout.
const SET_UP = `
  SELECT set_config('client_encoding', 'UTF8', false), set_config('standard_conforming_strings', 'on', false),
    set_config('DateStyle', 'ISO', false), set_config('extra_float_digits', '1', false),
    set_config('array_nulls', 'on', false), set_config('transform_null_equals', 'off', false),
    set_config('idle_session_timeout', '0', false),
    CASE WHEN current_setting('transaction_timeout', true) <> '' THEN set_config('transaction_timeout', '0', false) END,
    set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false), set_config('idle_in_transaction_session_timeout', '${IDLE_MS_MAX}', false),
    set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('synchronous_commit',
      CASE WHEN $3 THEN 'off' WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END,
      false)`;

const FIND_VERSION = `
  SELECT current_setting('server_version_num')::int AS version, current_setting('synchronous_commit') AS commits,
    current_setting('client_encoding') AS encoding`;

/**
 * Sets a session up, and reads back what the server makes of it. Rejects with a StoreError of kind `failed` when the
 * server is too old, or keeps less than it acknowledges.
 */
export async function setUp(
  connection: Connection,
  { statementMs, lockMs, mayLose }: Session,
): Promise<void> {
  const [, state] = await Promise.all([
    connection.run(SET_UP, [String(statementMs), String(lockMs), mayLose]),
    connection.get<{ version: number; commits: string; encoding: string }>(FIND_VERSION),
  ]);
  const { version = 0, commits = "", encoding = "" } = state ?? {};
  if (version < OLDEST_VERSION) {
    const major = Math.floor(version / 10_000);
    throw new StoreError("failed", `the server is PostgreSQL ${major}: 14 is the oldest known`);
  }
  // A pooler in between may not have passed the settings on.
  if (encoding !== "UTF8") {
    const message = `client_encoding stays ${encoding}: set it to UTF8 in the pooler`;
    throw new StoreError("failed", message);
  }
  if (!mayLose && commits !== "on" && commits !== "remote_apply") {
    const message = `synchronous_commit stays ${commits}, so acknowledged tasks could be lost`;
    throw new StoreError("failed", message);
  }
}

const FIND_TIMELINE = `SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline`;

/**
 * The identity of the server after a failover: each promotion of a standby has another timeline. Null where this user
 * may not see it.
 */
export async function findTimeline(connection: Connection): Promise<string | null> {
  const row = await connection.get<{ timeline: string }>(FIND_TIMELINE);
  return row?.timeline ?? null;
}
