import { HOUR_MS } from "../../domain/clock/duration.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

export const LIST_SENDING_ACCOUNTS = `
  SELECT seq FROM accounts INDEXED BY accounts_enabled WHERE disabled_at IS NULL`;

/**
 * Hosts that delivered something for an account and have been answered since: an attempt without an answer in the hour
 * of the last delivery may have come after it. Reads so many of the newest hourly sums; the most used hosts come first.
 */
export const PROVEN_HOSTS = `
  SELECT host
  FROM (
    SELECT host, at, succeeded FROM host_traffic
    WHERE account_seq = @accountId AND at >= @from
    ORDER BY at DESC
    LIMIT @examined
  ) AS t
  WHERE succeeded > 0 AND NOT EXISTS (
    SELECT 1 FROM host_failures AS f
    WHERE f.account_seq = @accountId AND f.host = t.host
      AND f.http_status IS NULL AND f.ended_at >= t.at
  )
  GROUP BY host
  ORDER BY sum(succeeded) DESC, host
  LIMIT @max`;

// The sums that are read for each requested host: most hosts have one in several hours.
const EXAMINED_PER_HOST = 4;

export function provenLaneReads(connection: Connection) {
  const listAccounts = connection.prepare<[], number>(LIST_SENDING_ACCOUNTS).pluck();
  const provenHosts = connection.prepare<[object], string>(PROVEN_HOSTS).pluck();

  return {
    listProvenLanes({ since, max }) {
      const accounts = listAccounts.all();
      const each = Math.ceil(max / Math.max(1, accounts.length));
      const from = since - (since % HOUR_MS);
      const bounds = { from, max: each, examined: EXAMINED_PER_HOST * each };
      return accounts.flatMap((accountId) =>
        provenHosts.all({ accountId, ...bounds }).map((host) => ({ accountId, host })),
      );
    },
  } satisfies Steps;
}
