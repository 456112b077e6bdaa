import { systemClock, wait } from "../../../domain/clock/clock.ts";
import { DAY_MS, MINUTE_MS } from "../../../domain/clock/duration.ts";
import { StoreError } from "../../store-error.ts";
import { type Connection, ConnectionLost, sqlStateOf } from "./connection.ts";
import { type Reached, reachServer } from "./dialer.ts";
import { endSilent } from "./heartbeat.ts";
import {
  SCHEMA,
  type SchemaPlan,
  type SchemaStep,
  type SchemaVersion,
  type StepPart,
  findSchemaVersion,
  oldestProgramAfter,
  schemaError,
} from "./schema.ts";
import { type ServerAddress, connectError } from "./server-address.ts";

// To make the tables takes a moment.
const MAKE_MS_MAX = MINUTE_MS;
// An index of a large table takes its time.
const STEP_MS_MAX = DAY_MS;
const LOOK_AGAIN_MS = 500;

/** The schema versions before a migration (null for an empty database) and after it. */
export interface Migrated {
  readonly from: number | null;
  readonly to: number;
}

/**
 * Makes the tables of an empty database, and leaves those on which this program works: answers their version. Rejects
 * with a StoreError that names the command or the program that others need.
 */
export async function makeSchema(server: ServerAddress, plan = SCHEMA): Promise<number> {
  return withServer(server, MAKE_MS_MAX, async (reached) => {
    const found = (await findSchemaVersion(reached)) ?? (await makeTables(reached, plan));
    return requireUsable(found, plan, reached);
  });
}

/**
 * Makes the tables, or brings them to this program's version, step by step, while daemons serve. One migration at a time
 * works on a database, the others wait for it. One that was broken off is continued by the next. Rejects with a
 * StoreError where a step has to wait for daemons of an older program, and names them; the steps before it are taken.
 */
export async function migrateDatabase(server: ServerAddress, plan = SCHEMA): Promise<Migrated> {
  const made = await withServer(server, MAKE_MS_MAX, async (reached) => {
    const before = await findSchemaVersion(reached);
    const found = before ?? (await makeTables(reached, plan));
    if (stepsFrom(found, plan).length > 0) return null;
    return { from: before?.version ?? null, to: requireUsable(found, plan, reached) };
  });
  return made ?? takeSteps(server, plan);
}

// On a connection of its own: only a step may leave it without an answer for so long.
function takeSteps(server: ServerAddress, plan: SchemaPlan): Promise<Migrated> {
  return withServer(server, STEP_MS_MAX, async (reached) => {
    await lockMigrations(reached);
    // Another migration may have been faster.
    const found = await findSchemaVersion(reached);
    for (const step of stepsFrom(found, plan)) await takeStep(reached, step);
    const to = requireUsable(await findSchemaVersion(reached), plan, reached);
    return { from: found?.version ?? null, to };
  });
}

async function withServer<T>(
  server: ServerAddress,
  deadlineMs: number,
  use: (reached: Reached) => Promise<T>,
): Promise<T> {
  const reached = await reachServer(server, deadlineMs);
  try {
    return await use(reached);
  } catch (error) {
    const isOfServer = error instanceof ConnectionLost || sqlStateOf(error) !== "";
    throw isOfServer ? connectError(error, reached.host) : error;
  } finally {
    await reached.connection.close();
  }
}

/** Returns the schema version. */
function requireUsable(found: SchemaVersion | null, plan: SchemaPlan, { host }: Reached): number {
  const fault = schemaError(found, plan.version, host);
  if (fault !== null) throw fault;
  return found?.version ?? plan.version;
}

/** Returns the resulting schema, created by this process or by a faster one. */
async function makeTables(reached: Reached, plan: SchemaPlan): Promise<SchemaVersion | null> {
  const { connection } = reached;
  try {
    await connection.command(`BEGIN; ${plan.schemaSql}; COMMIT`);
  } catch (error) {
    await connection.command("ROLLBACK");
    // Nodes of a new cluster start at the same moment: the second one's tables are there already.
    if ((await findSchemaVersion(reached)) === null) throw error;
  }
  return findSchemaVersion(reached);
}

// A lock of the session, so it ends with the session, also if this process crashes. Each schema of a database has its
// own.
const TRY_LOCK = `
  SELECT pg_try_advisory_lock(hashtext('postbackd migrate'), hashtext(coalesce(current_schema(), ''))) AS "isMine"`;

// It asks again and again: a statement that waits has a snapshot, and an index that is made beside the traffic waits
// for the end of all snapshots. The two migrations would then wait for each other.
async function lockMigrations({ connection }: Reached): Promise<void> {
  await connection.command("SET lock_timeout = 0; SET statement_timeout = 0");
  while ((await connection.get<{ isMine: boolean }>(TRY_LOCK))?.isMine !== true) {
    await wait(LOOK_AGAIN_MS, { clock: systemClock });
  }
}

function stepsFrom(found: SchemaVersion | null, plan: SchemaPlan): readonly SchemaStep[] {
  // A database that was moved away never changes again.
  if (found === null || found.movedTo !== null) return [];
  return plan.steps.filter(({ to }) => to > found.version);
}

const SET_VERSION = `UPDATE schema_version SET version = $1 WHERE version = $1 - 1`;

async function takeStep(reached: Reached, step: SchemaStep): Promise<void> {
  const { connection } = reached;
  await refuseOlderPrograms(reached, step);
  for (const part of step.parts) await takePart(connection, part);
  await inShortTransaction(connection, async () => {
    await connection.run(SET_VERSION, [step.to]);
  });
}

// Nodes that join read this row FOR SHARE: a later node waits, and reads the new value.
const RAISE_OLDEST_PROGRAM = `
  UPDATE schema_version SET min_program = GREATEST(min_program, $1) RETURNING version`;

const OLDER_NODES = `
  SELECT name, version FROM nodes WHERE ended_at IS NULL AND schema_max < $1 ORDER BY name`;

/** From now on no program joins that the step would harm. Rejects when one of them is there. */
async function refuseOlderPrograms({ connection }: Reached, step: SchemaStep): Promise<void> {
  // Nodes without recent heartbeats do not matter.
  await endSilent(connection);
  const oldest = oldestProgramAfter(step);
  await inShortTransaction(connection, async () => {
    const row = await connection.get<{ version: number }>(RAISE_OLDEST_PROGRAM, [oldest]);
    const older = await connection.all<{ name: string; version: string }>(OLDER_NODES, [oldest]);
    if (older.length === 0) return;
    const names = older.map(({ name, version }) => `${name} (${version})`).join(", ");
    throw new StoreError(
      "failed",
      `the tables are of version ${row?.version}, and version ${step.to} would take away what daemons of an older ` +
        `program need: ${names}. Start them with the newer one, each in turn, and run 'postbackd database migrate' again`,
    );
  });
}

// A step that waits for a lock blocks all later sessions. LOCK_MS limits that, and PAUSE_MS lets these sessions finish
// before the next try.
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
        "another session locks a table for too long: end old transactions (pg_stat_activity lists them), and run the same " +
          "command again, which continues where this one ended",
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
