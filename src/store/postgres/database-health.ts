import type {
  DatabaseHealth,
  HeldSnapshot,
  SnapshotHolder,
  Standby,
} from "../../domain/stats/health.ts";
import type { ReadSql } from "./machine/sql.ts";

const FACTS = `
  SELECT split_part(current_setting('server_version'), ' ', 1) AS version,
    pg_database_size(current_database()) AS bytes,
    current_setting('max_connections')::int AS "maxConnections",
    current_setting('synchronous_standby_names') <> '' AS "commitsWait",
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS "nextTransaction"`;

// A session's kind, as most of what is its own, is hidden from other users without pg_monitor; its user is not, which
// only sessions of clients and their helpers have.
const CONNECTIONS = `
  SELECT count(*) AS used
  FROM pg_stat_activity
  WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'`;

/**
 * The oldest holder, by number of transactions, that prevents the removal of old row versions. A session without a
 * database serves a standby, which reports the snapshots of its own readers. A VACUUM does not hold up another. A slot
 * that retains only catalog rows does not slow claims.
 */
const OLDEST_SNAPSHOT = `
  SELECT holder, name, pid, transactions, (extract(epoch FROM clock_timestamp() - since) * 1000)::bigint AS "ageMs"
  FROM (
    SELECT 'session' AS holder, application_name AS name, pid, xact_start AS since,
      greatest(age(backend_xmin), age(backend_xid)) AS transactions
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
      AND (datid IS NULL OR datname = current_database())
      AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
    UNION ALL
    SELECT 'slot', slot_name, active_pid, NULL, age(xmin) FROM pg_replication_slots WHERE xmin IS NOT NULL
    UNION ALL
    SELECT 'prepared transaction', gid, NULL, prepared, age(transaction)
    FROM pg_prepared_xacts WHERE database = current_database()
  ) AS held
  ORDER BY transactions DESC, since NULLS LAST
  LIMIT 1`;

// A base backup in progress is not a standby yet.
const STANDBYS = `
  SELECT application_name AS name, state, sync_state AS "syncState",
    pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS "lagBytes",
    (extract(epoch FROM replay_lag) * 1000)::bigint AS "lagMs"
  FROM pg_stat_replication
  WHERE state IS DISTINCT FROM 'backup'
  ORDER BY application_name, pid`;

const DEAD_ROWS = `
  SELECT relname AS name, n_dead_tup AS dead
  FROM pg_stat_user_tables
  WHERE schemaname = current_schema() AND relname IN ('queue', 'outbox')`;

interface Facts extends Pick<DatabaseHealth, "version" | "bytes" | "commitsWait"> {
  readonly maxConnections: number;
  readonly nextTransaction: number;
}

interface Held extends Omit<HeldSnapshot, "holder" | "name"> {
  readonly holder: SnapshotHolder;
  readonly name: string | null;
}

interface Follower extends Omit<Standby, "name"> {
  readonly name: string | null;
}

export function databaseHealthReads(sql: ReadSql) {
  return {
    /** Learns from each read when which transactions began. */
    async readDatabaseHealth(times: TransactionTimes): Promise<DatabaseHealth | null> {
      const [facts, connections, held, standbys, dead] = await Promise.all([
        sql.get<Facts>(FACTS),
        sql.get<{ used: number }>(CONNECTIONS),
        sql.get<Held>(OLDEST_SNAPSHOT),
        sql.all<Follower>(STANDBYS),
        sql.all<{ name: "queue" | "outbox"; dead: number }>(DEAD_ROWS),
      ]);
      if (facts === undefined) return null;
      const { version, bytes, commitsWait, maxConnections, nextTransaction } = facts;
      times.note(nextTransaction);
      const ageOf = ({ ageMs, transactions }: Held): number | null =>
        ageMs ?? times.sinceMs(nextTransaction - transactions);
      const deadOf = (table: "queue" | "outbox"): number =>
        dead.find(({ name }) => name === table)?.dead ?? 0;
      return {
        version,
        bytes,
        connections: { used: connections?.used ?? 0, max: maxConnections },
        oldestSnapshot:
          held === undefined ? null : { ...held, name: held.name ?? "", ageMs: ageOf(held) },
        standbys: standbys.map((standby) => ({ ...standby, name: standby.name ?? "" })),
        commitsWait,
        deadRows: { queue: deadOf("queue"), outbox: deadOf("outbox") },
      };
    },
  };
}

const EVERY_MS = 1000;
// An hour of looks each second, or days of one each minute.
const KEPT_MAX = 3600;

/**
 * Remembers when which transaction was the next one: nothing else tells how long ago a slot was used last, and the times
 * of other users' sessions are hidden from all but monitors.
 */
export class TransactionTimes {
  readonly #now: () => number;
  /** The oldest first. */
  readonly #looks: { readonly next: number; readonly at: number }[] = [];

  /** `now` returns monotonic milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** At this moment `next` is the number of the next transaction. */
  note(next: number): void {
    const at = this.#now();
    const last = this.#looks.at(-1);
    // Another server, whose numbers begin elsewhere.
    if (last !== undefined && next < last.next) this.#looks.length = 0;
    else if (last !== undefined && at - last.at < EVERY_MS) return;
    this.#looks.push({ next, at });
    if (this.#looks.length > KEPT_MAX) this.#looks.shift();
  }

  /** How long ago the transaction had begun, at least; null when no look before the last one was after that. */
  sinceMs(transaction: number): number | null {
    const after = this.#looks.find(({ next }) => next > transaction);
    if (after === undefined || after === this.#looks.at(-1)) return null;
    return Math.round(this.#now() - after.at);
  }
}
