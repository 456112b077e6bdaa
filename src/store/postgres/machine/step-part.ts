import { systemClock, wait } from "../../../domain/clock/clock.ts";
import { StoreError } from "../../store-error.ts";
import { ConnectionLost, sqlStateOf, type Connection } from "./connection.ts";
import type { StepPart } from "./schema-steps.ts";

// Whoever needs a table that is in use waits, and all who come later wait behind: so nobody is held up for longer than
// this, and then everybody has the pause to catch up.
const LOCK_MS = 1000;
const PAUSE_MS = 2000;
const TRIES_MAX = 100;

const LOCK_NOT_AVAILABLE = "55P03";
const DEADLOCK = "40P01";

/**
 * Does work in a transaction that waits for no lock longer than a second, and repeats it until its locks are to be had.
 * Rejects with a StoreError of kind `busy` when they never are.
 */
export async function inShortTransaction(
  connection: Connection,
  work: () => Promise<void>,
): Promise<void> {
  for (let tries = 1; !(await isDone(connection, work)); tries++) {
    if (tries === TRIES_MAX) {
      throw new StoreError(
        "busy",
        "somebody holds a table for too long: end old transactions (pg_stat_activity lists them), and run the same " +
          "command again, which goes on where this one ended",
      );
    }
    await wait(PAUSE_MS, { clock: systemClock });
  }
}

/** False where a lock was not to be had, and nothing has happened. */
async function isDone(connection: Connection, work: () => Promise<void>): Promise<boolean> {
  try {
    await connection.command(`BEGIN; SET LOCAL lock_timeout = ${LOCK_MS}`);
    await work();
    await connection.command("COMMIT");
    return true;
  } catch (error) {
    if (error instanceof ConnectionLost) throw error;
    await connection.command("ROLLBACK");
    const state = sqlStateOf(error);
    if (state === LOCK_NOT_AVAILABLE || state === DEADLOCK) return false;
    throw error;
  }
}

/** Takes a part of a step. After a part that was broken off it begins again. */
export async function takePart(connection: Connection, part: StepPart): Promise<void> {
  switch (part.kind) {
    case "change":
      return inShortTransaction(connection, async () => {
        await connection.command(part.sql);
      });
    case "index":
      return makeIndex(connection, part);
    case "backfill":
      return fill(connection, part.sql);
  }
}

const FIND_INDEX = `
  SELECT indisvalid AS "isValid" FROM pg_index WHERE indexrelid = to_regclass($1)`;

async function makeIndex(
  connection: Connection,
  { name, on }: Extract<StepPart, { kind: "index" }>,
): Promise<void> {
  const found = await connection.get<{ readonly isValid: boolean }>(FIND_INDEX, [name]);
  if (found?.isValid === true) return;
  // One that was broken off stays behind, is never used, and costs every write.
  if (found !== undefined) await connection.command(`DROP INDEX CONCURRENTLY ${name}`);
  await connection.command(`CREATE INDEX CONCURRENTLY ${name} ON ${on}`);
}

async function fill(connection: Connection, sql: string): Promise<void> {
  for (let changed = 1; changed > 0;) {
    await inShortTransaction(connection, async () => {
      changed = await connection.run(sql);
    });
  }
}
