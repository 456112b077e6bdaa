import pg from "pg";

import { DatabaseView } from "./database-view.ts";
import { until } from "./until.ts";

/** Looks into a daemon's database from outside, whichever it is: what a script verifies must not be what the program says of itself. */
export interface OutsideView {
  /** Settles once no task waits or runs, and no attempt is scheduled or in flight. Rejects after `msMax`. */
  quiet(wait: { readonly msMax: number }): Promise<void>;
  /** Settles once no attempt is in flight: what has arrived is on record. Rejects after `msMax`. */
  recorded(wait: { readonly msMax: number }): Promise<void>;
  /** How many deliveries are not delivered. */
  countUndelivered(): Promise<number>;
  [Symbol.asyncDispose](): Promise<void>;
}

const UNFINISHED = `SELECT EXISTS (SELECT 1 FROM queue) OR EXISTS (SELECT 1 FROM outbox) AS "isBusy"`;
const IN_FLIGHT = `SELECT EXISTS (SELECT 1 FROM outbox WHERE started_at IS NOT NULL) AS "isBusy"`;
const UNDELIVERED = `SELECT count(*)::int AS count FROM deliveries WHERE ended IS DISTINCT FROM 'delivered'`;
const POLL_MS = 10;

/** Opens a view of a file or of a server, by the path or the URL. */
export async function openOutsideView(database: string): Promise<OutsideView> {
  return database.startsWith("postgres:") ? openServerView(database) : openFileView(database);
}

function openFileView(file: string): OutsideView {
  const view = new DatabaseView(file);
  return {
    quiet: (wait) => view.quiet(wait),
    recorded: (wait) => view.recorded(wait),
    countUndelivered: async () =>
      view.number("SELECT count(*) FROM deliveries WHERE state <> 'delivered'"),
    [Symbol.asyncDispose]: async () => view[Symbol.dispose](),
  };
}

async function openServerView(url: string): Promise<OutsideView> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const untilNot = async (busySql: string, msMax: number): Promise<void> => {
    const isDone = async (): Promise<boolean> => {
      const { rows } = await client.query<{ isBusy: boolean }>(busySql);
      return rows[0]?.isBusy === false;
    };
    const fault = (): string => `not everything was done within ${msMax} ms`;
    await until(isDone, { msMax, everyMs: POLL_MS, fault });
  };
  return {
    quiet: ({ msMax }) => untilNot(UNFINISHED, msMax),
    recorded: ({ msMax }) => untilNot(IN_FLIGHT, msMax),
    async countUndelivered() {
      const { rows } = await client.query<{ count: number }>(UNDELIVERED);
      return rows[0]?.count ?? 0;
    },
    [Symbol.asyncDispose]: () => client.end(),
  };
}
