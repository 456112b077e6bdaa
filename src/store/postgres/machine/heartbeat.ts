import { type Clock, systemClock, wait } from "../../../domain/clock/clock.ts";
import { DAY_MS } from "../../../domain/clock/duration.ts";
import { NODE_ROLES, type NodeFacts, type NodeRole, type NodeSummary } from "../../cluster.ts";
import { StoreError } from "../../store-error.ts";
import type { Connection } from "./connection.ts";
import type { ClockSample } from "./database-clock.ts";
import { type RoleRow, addRoles, findRoles } from "./roles.ts";
import { SCHEMA } from "./schema.ts";
import { SERVER_NOW, type Sql } from "./sql.ts";

/** The rows that nodes write of themselves, and see of one another. All of it goes by the database's clock. */

/** Time between heartbeats. */
export const BEAT_MS = 2000;
/** How many of them a node is taken for alive. */
export const BEATS_TO_LIVE = 5;

/** How a node is known to people. */
export interface NodeName {
  readonly name: string;
  readonly url: string | null;
  readonly version: string;
}

/** Who joins. */
export interface Joining extends NodeName {
  /** `tool` for a process that takes a few steps and ends: the nodes do not count it among them. */
  readonly kind: "node" | "tool";
  /** How long it is taken for alive after a heartbeat. */
  readonly liveMs: number;
}

/** The life that a node has got by joining. */
export interface Joined {
  readonly nodeSeq: number;
  /** The first of its stripes. */
  readonly stripe: number;
  /** No row of the database has a greater number. */
  readonly lastSeq: number;
  /** The reading of its clocks that a node kept last. */
  readonly reading: { readonly wallAt: number; readonly uptimeMs: number } | null;
}

const JOIN = `
  INSERT INTO nodes (name, url, version, schema_min, schema_max, joined_at, expires_at, is_tool)
  SELECT $1, $2, $3, $6, $7, at, at + $4::bigint, $5 FROM (SELECT ${SERVER_NOW} AS at) AS clock
  RETURNING seq`;

const FREE_STRIPE = `
  SELECT stripe FROM stripes WHERE stripe % 2 = 0 AND node_seq IS NULL
  ORDER BY stripe LIMIT 1 FOR UPDATE SKIP LOCKED`;

const TAKE_STRIPES = `UPDATE stripes SET node_seq = $1 WHERE stripe IN ($2, $2 + 1)`;

// A move to a file holds this row until it is over, and a migration while it looks for older programs: no node joins
// meanwhile, nor afterwards who must not.
const LOCK_SCHEMA = `
  SELECT moved_to AS "movedTo", min_program AS "minProgram" FROM schema_version FOR SHARE`;

// The database's clock may have been set back since, and no number is ever given again.
const FIND_LAST_SEQ = `
  SELECT GREATEST((SELECT max(seq) FROM tasks), (SELECT max(seq) FROM outbox), (SELECT max(seq) FROM attempts), 0) AS seq`;

const FIND_READING = `SELECT wall_at AS "wallAt", uptime_ms AS "uptimeMs" FROM clock_readings`;

// Their work was taken over long ago; a seq without a row belongs to an ended node.
const FORGET = `
  DELETE FROM nodes WHERE ended_at < ${SERVER_NOW} - 7 * 86400000::bigint
    AND NOT EXISTS (SELECT 1 FROM stripes WHERE node_seq = nodes.seq)`;

interface SchemaState {
  readonly movedTo: string | null;
  readonly minProgram: number;
}

/** Why this program may not join; null where it may. */
function refusalOf(found: SchemaState | undefined): StoreError | null {
  if (found === undefined) return null;
  const { movedTo, minProgram } = found;
  if (movedTo !== null) return new StoreError("failed", `this database was moved to ${movedTo}`);
  if (minProgram <= SCHEMA.version) return null;
  return new StoreError(
    "failed",
    `this database needs a program of version ${minProgram}, and this one is of ${SCHEMA.version}: start the newer one`,
  );
}

/**
 * Inserts the row of a new incarnation, and takes stripes for its writers: immediately if some are free, else when the
 * nodes that crashed count as dead. Rejects when no stripes are free then either.
 */
export async function join(connection: Connection, who: Joining): Promise<Joined> {
  const joined = await joinNow(connection, who);
  if (joined !== null) return joined;
  await endSilent(connection, who.liveMs);
  const late = await joinNow(connection, who);
  if (late === null) throw new Error("too many nodes share this database: 32 may");
  return late;
}

/** Returns null if no stripes are free. */
async function joinNow(connection: Connection, who: Joining): Promise<Joined | null> {
  const { name, url, version, kind, liveMs } = who;
  await connection.command("BEGIN");
  const refusal = refusalOf(await connection.get<SchemaState>(LOCK_SCHEMA));
  if (refusal !== null) {
    await connection.command("ROLLBACK");
    throw refusal;
  }
  const schemas = [Math.max(1, SCHEMA.version - 1), SCHEMA.version];
  const [node, free] = await Promise.all([
    connection.get<{ seq: number }>(JOIN, [
      ...[name, url, version, liveMs, kind === "tool"],
      ...schemas,
    ]),
    connection.get<{ stripe: number }>(FREE_STRIPE),
  ]);
  if (node === undefined || free === undefined) {
    await connection.command("ROLLBACK");
    return null;
  }
  const [last, reading] = await Promise.all([
    connection.get<{ seq: number }>(FIND_LAST_SEQ),
    connection.get<{ wallAt: number; uptimeMs: number }>(FIND_READING),
    connection.run(TAKE_STRIPES, [node.seq, free.stripe]),
    addRoles(connection, NODE_ROLES),
    connection.run(FORGET),
  ]);
  await commit(connection);
  return {
    nodeSeq: node.seq,
    stripe: free.stripe,
    lastSeq: last?.seq ?? 0,
    reading: reading ?? null,
  };
}

const END = `
  UPDATE nodes SET ended_at = ${SERVER_NOW} WHERE seq = ANY($1::bigint[]) AND ended_at IS NULL`;
const FREE_STRIPES = `UPDATE stripes SET node_seq = NULL WHERE node_seq = ANY($1::bigint[])`;

/** Ends a life in good order: the others need not wait until it is taken for dead. */
export async function leave(connection: Connection, nodeSeq: number): Promise<void> {
  await connection.command("BEGIN");
  await Promise.all([connection.run(FREE_STRIPES, [[nodeSeq]]), connection.run(END, [[nodeSeq]])]);
  await commit(connection);
}

const FIND_EXPIRED = `
  SELECT seq, name FROM nodes
  WHERE ended_at IS NULL
    AND (seq = ANY($1::bigint[]) OR expires_at < ${SERVER_NOW} AND seq = ANY($2::bigint[]))
  ORDER BY seq FOR UPDATE SKIP LOCKED`;

/** Which nodes to end. */
interface Ending {
  /** These, however long they have yet. */
  readonly now: readonly number[];
  /** Of these the ones whose time is over. */
  readonly expired: readonly number[];
}

/** A node that was taken for dead. */
export interface EndedNode {
  readonly seq: number;
  readonly name: string;
}

/**
 * Ends nodes. First it takes their stripes away, which waits for a batch under way: so when a node is seen to have ended,
 * nothing of it can be committed any more.
 */
export async function endExpired(
  connection: Connection,
  { now, expired: among }: Ending,
): Promise<readonly EndedNode[]> {
  await connection.command("BEGIN");
  const expired = await connection.all<EndedNode>(FIND_EXPIRED, [now, among]);
  const seqs = expired.map(({ seq }) => seq);
  if (seqs.length > 0) {
    await connection.run(FREE_STRIPES, [seqs]);
    await connection.run(END, [seqs]);
  }
  await commit(connection);
  return expired;
}

const FIND_SILENT = `SELECT seq FROM nodes WHERE ended_at IS NULL AND expires_at < ${SERVER_NOW}`;

/**
 * Ends expired nodes for a process without earlier heartbeats of them: only nodes that also send no heartbeat for
 * `liveMs`. Until their next heartbeats all seem dead after the database's clock was set forward.
 */
export async function endSilent(
  connection: Connection,
  liveMs = BEATS_TO_LIVE * BEAT_MS,
): Promise<void> {
  const silent = await connection.all<{ seq: number }>(FIND_SILENT);
  if (silent.length === 0) return;
  await wait(liveMs, { clock: systemClock });
  await endExpired(connection, { now: [], expired: silent.map(({ seq }) => seq) });
}

// After a failed statement a COMMIT succeeds, and has rolled back.
async function commit(connection: Connection): Promise<void> {
  if ((await connection.command("COMMIT")) !== "COMMIT") throw new Error("rolled back");
}

const BEAT = `
  WITH beat AS (
    UPDATE nodes SET expires_at = ${SERVER_NOW} + $2::bigint, facts_text = coalesce($3, facts_text)
    WHERE seq = $1 AND ended_at IS NULL RETURNING 1
  )
  SELECT EXISTS (SELECT 1 FROM beat) AS "isAlive", extract(epoch FROM clock_timestamp()) * 1000 AS shown`;

const FIND_NODES = `
  SELECT seq, expires_at AS "expiresAt", is_tool AS "isTool",
    coalesce(facts_text::json ->> 'isLeaving', 'false') = 'true' AS "isLeaving"
  FROM nodes WHERE ended_at IS NULL ORDER BY seq`;

/** A node that has not ended. */
export interface NodeRow {
  readonly seq: number;
  /** It is taken for dead after that. */
  readonly expiresAt: number;
  readonly isTool: boolean;
  /** It has resigned and sends nothing more: its share is the others'. */
  readonly isLeaving: boolean;
}

/** The answer to a node's heartbeat. */
export interface BeatAnswer {
  /** False when it was taken for dead. */
  readonly isAlive: boolean;
  readonly sample: ClockSample;
  readonly nodes: readonly NodeRow[];
  readonly roles: readonly RoleRow[];
}

/** Shows that a node is alive, and its facts unless null. All three statements cross the wire together. */
export async function beat(
  connection: Connection,
  of: { readonly nodeSeq: number; readonly liveMs: number; readonly factsText: string | null },
  clock: Clock,
): Promise<BeatAnswer> {
  const sentAt = clock.monotonic();
  let heardAt = sentAt;
  const own = connection
    .get<{ isAlive: boolean; shown: number }>(BEAT, [of.nodeSeq, of.liveMs, of.factsText])
    .finally(() => (heardAt = clock.monotonic()));
  const [answer, nodes, roles] = await Promise.all([
    own,
    connection.all<NodeRow>(FIND_NODES),
    findRoles(connection),
  ]);
  const { isAlive = false, shown = 0 } = answer ?? {};
  return { isAlive, sample: { shown, sentAt, heardAt }, nodes, roles };
}

/** The nodes among which work is divided, in the same order at each of them. If all are leaving, all of them. */
export function membersOf({ nodes }: BeatAnswer): readonly string[] {
  const daemons = nodes.filter(({ isTool }) => !isTool);
  const staying = daemons.filter(({ isLeaving }) => !isLeaving);
  return (staying.length > 0 ? staying : daemons).map(({ seq }) => String(seq));
}

/** The time until the next node counts as dead without a heartbeat. */
export function nextExpiryMs({ nodes, sample }: BeatAnswer): number {
  const inMs = nodes.map(({ expiresAt }) => expiresAt - sample.shown).filter((ms) => ms >= 0);
  // It has to be over by then.
  return Math.min(Infinity, ...inMs) + 20;
}

const LIST = `
  SELECT seq, name, version, joined_at AS "joinedAt", expires_at AS "expiresAt", ended_at AS "endedAt",
    facts_text AS "factsText",
    ARRAY(
      SELECT r.name FROM roles AS r
      WHERE r.node_seq = nodes.seq AND nodes.ended_at IS NULL AND r.until > $2 ORDER BY r.name
    ) AS roles
  FROM nodes
  WHERE (ended_at IS NULL OR ended_at > $1) AND NOT is_tool
  ORDER BY seq DESC`;

interface Row extends Pick<NodeSummary, "name" | "version" | "joinedAt" | "endedAt"> {
  readonly seq: number;
  readonly expiresAt: number;
  readonly factsText: string | null;
  readonly roles: readonly NodeRole[];
}

/** Lists the nodes that are alive and those that ended within the last day. */
export async function listNodes(
  sql: Sql,
  { now, liveMs }: { readonly now: number; readonly liveMs: number },
): Promise<readonly NodeSummary[]> {
  const rows = await sql.all<Row>(LIST, [now - DAY_MS, now]);
  return rows.map(({ seq, expiresAt, endedAt, factsText, ...row }) => ({
    ...row,
    id: String(seq),
    lastSeenAt: expiresAt - liveMs,
    endedAt,
    // A node that leaves ends before its time is over.
    isLost: endedAt !== null && endedAt > expiresAt,
    facts: toFacts(factsText),
  }));
}

// Only nodes write this column: their facts, and whether they are leaving, which nodes without facts also write.
function toFacts(factsText: string | null): NodeFacts | null {
  if (factsText === null) return null;
  const { isLeaving: _, ...facts } = JSON.parse(factsText) as NodeFacts & { isLeaving?: boolean };
  return "sending" in facts ? facts : null;
}
