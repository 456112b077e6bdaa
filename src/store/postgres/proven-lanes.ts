import { HOUR_MS } from "../../domain/clock/duration.ts";
import type { LaneRef, Store } from "../store.ts";
import type { Sql } from "./machine/sql.ts";

const COUNT_SENDING_ACCOUNTS = `SELECT count(*) AS accounts FROM accounts WHERE disabled_at IS NULL`;

/**
 * Hosts that delivered something for an account and have been answered since, in the sense of src/store/sqlite: an
 * attempt without an answer in the hour of the last delivery may have come after it. Reads $3 of the newest sums of each
 * account; the most used hosts come first, up to $2.
 */
const LIST_PROVEN = `
  SELECT c.seq AS "accountId", p.host
  FROM accounts AS c CROSS JOIN LATERAL (
    SELECT t.host, sum(t.succeeded) AS succeeded
    FROM (
      SELECT host, at, succeeded FROM host_traffic
      WHERE account_seq = c.seq AND at >= $1
      ORDER BY at DESC
      LIMIT $3
    ) AS t
    WHERE t.succeeded > 0 AND NOT coalesce((
      SELECT f.http_status IS NULL AND f.ended_at >= t.at FROM host_failures AS f
      WHERE f.account_seq = c.seq AND f.host = t.host
      ORDER BY f.ended_at DESC LIMIT 1
    ), false)
    GROUP BY t.host
    ORDER BY succeeded DESC, t.host
    LIMIT $2
  ) AS p
  WHERE c.disabled_at IS NULL
  ORDER BY c.seq, p.succeeded DESC, p.host`;

// The sums that are read for each requested host: most hosts have one in several hours, of each connection that writes.
const EXAMINED_PER_HOST = 8;

export function provenLaneReads(sql: Sql) {
  return {
    async listProvenLanes({ since, max }) {
      const counted = await sql.get<{ accounts: number }>(COUNT_SENDING_ACCOUNTS);
      const each = Math.ceil(max / Math.max(1, counted?.accounts ?? 0));
      const from = since - (since % HOUR_MS);
      return await sql.all<LaneRef>(LIST_PROVEN, [from, each, EXAMINED_PER_HOST * each]);
    },
  } satisfies Partial<Store>;
}
