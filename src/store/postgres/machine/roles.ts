import { NODE_ROLES, type NodeRole } from "../../cluster.ts";
import type { Connection } from "./connection.ts";
import type { BeatAnswer } from "./heartbeat.ts";
import { SERVER_NOW } from "./sql.ts";

/** The view of a node of the others when it decides which roles to hold. */
export interface RoleView {
  readonly roles: readonly RoleRow[];
  readonly self: number;
  readonly members: number;
  /** True at the first look after a node has joined. */
  readonly hasGrown: boolean;
  /** It gives its roles to others, if there are any. */
  readonly isResigning: boolean;
  readonly now: number;
  /** False for a while after the database's clock was set: then no role of another is taken for free. */
  readonly isClockTrusted: boolean;
  /** How long a role is left to those who have less than their share. */
  readonly patienceMs: number;
}

/** Which roles a node claims or renews, and which it gives back. */
export interface RolePlan {
  readonly hold: readonly NodeRole[];
  readonly release: readonly NodeRole[];
}

/**
 * Spreads the roles evenly. A node takes free roles up to its share, and more roles if they stay free for some time. It
 * gives back the roles above its share only when a node has joined: a node that is there and takes none must not make
 * roles change hands.
 */
export function planRoles(view: RoleView): RolePlan {
  const { roles, self, members, now, patienceMs } = view;
  const own = roles.filter(({ nodeSeq }) => nodeSeq === self).map(({ name }) => name);
  if (view.isResigning && members > 1) return { hold: [], release: own };
  const share = Math.ceil(roles.length / Math.max(1, members));
  const kept = view.hasGrown ? own.slice(0, share) : own;
  const isFree = ({ nodeSeq, until }: RoleRow): boolean =>
    nodeSeq !== self && until < now && (nodeSeq === null || view.isClockTrusted);
  const free = roles.filter(isFree);
  const taken = free.slice(0, Math.max(0, share - kept.length));
  const leftOver = free.filter((role) => !taken.includes(role) && role.until < now - patienceMs);
  return {
    hold: [...kept, ...[...taken, ...leftOver].map(({ name }) => name)],
    release: own.filter((name) => !kept.includes(name)),
  };
}

/** A role as the database has it. */
export interface RoleRow {
  readonly name: NodeRole;
  /** Null if no node that has not ended holds it. */
  readonly nodeSeq: number | null;
  /** The holder has it until then, unless it renews it. 0 once the holder has ended. */
  readonly until: number;
}

/** Adds the rows of roles that no program knew before. */
export async function addRoles(connection: Connection, names: readonly NodeRole[]): Promise<void> {
  await connection.run(
    `INSERT INTO duties (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`,
    [names],
  );
}

export function findRoles(connection: Connection): Promise<readonly RoleRow[]> {
  return connection.all<RoleRow>(`
    SELECT r.name, n.seq AS "nodeSeq", CASE WHEN r.node_seq IS DISTINCT FROM n.seq THEN 0 ELSE r.until END AS until
    FROM duties AS r LEFT JOIN nodes AS n ON n.seq = r.node_seq AND n.ended_at IS NULL
    ORDER BY r.name`);
}

/** Roles that a node holds or gives up. */
interface NamedRoles {
  readonly nodeSeq: number;
  readonly names: readonly NodeRole[];
}

/** Claims and renews roles for so many milliseconds. Returns the roles that the node holds now. */
export async function holdRoles(
  connection: Connection,
  { nodeSeq, names, ms }: NamedRoles & { readonly ms: number },
): Promise<readonly NodeRole[]> {
  if (names.length === 0) return [];
  // A locked row is another node's, which claims or renews it.
  const rows = await connection.all<{ name: NodeRole }>(
    `WITH mine AS (
       SELECT name FROM duties AS r
       WHERE name = ANY($2::text[]) AND (node_seq = $1 OR until < ${SERVER_NOW} OR NOT EXISTS (
         SELECT 1 FROM nodes AS n WHERE n.seq = r.node_seq AND n.ended_at IS NULL))
       ORDER BY name FOR UPDATE SKIP LOCKED
     )
     UPDATE duties AS r SET node_seq = $1, until = ${SERVER_NOW} + $3::bigint, term = term + (node_seq IS DISTINCT FROM $1)::int
     FROM mine WHERE r.name = mine.name
     RETURNING r.name`,
    [nodeSeq, names, ms],
  );
  return rows.map(({ name }) => name);
}

/** Gives up roles, for other nodes. */
export async function releaseRoles(
  connection: Connection,
  { nodeSeq, names }: NamedRoles,
): Promise<void> {
  if (names.length === 0) return;
  await connection.run(
    `UPDATE duties SET node_seq = NULL, until = ${SERVER_NOW} WHERE node_seq = $1 AND name = ANY($2::text[])`,
    [nodeSeq, names],
  );
}

/** The view of a node that renews its roles. */
export interface RoleTurn {
  readonly nodeSeq: number;
  readonly answer: BeatAnswer;
  readonly members: readonly string[];
  /** True at the first look after a node has joined. */
  readonly hasGrown: boolean;
  /** False for a while after the database's clock was set. */
  readonly isClockTrusted: boolean;
}

/** The roles of a node, renewed with its heartbeats. */
export class RoleHolder {
  readonly #beatMs: number;
  readonly #liveMs: number;
  #isResigning = false;
  #held: readonly NodeRole[] = [];

  constructor({ beatMs, liveMs }: { readonly beatMs: number; readonly liveMs: number }) {
    this.#beatMs = beatMs;
    this.#liveMs = liveMs;
  }

  get held(): readonly NodeRole[] {
    return this.#held;
  }

  get isResigning(): boolean {
    return this.#isResigning;
  }

  /** From now on it gives its roles to others, if there are any. */
  resign(): void {
    this.#isResigning = true;
  }

  /** It is no member any more. */
  drop(): void {
    this.#held = [];
  }

  async renew(
    connection: Connection,
    { nodeSeq, answer, members, hasGrown, isClockTrusted }: RoleTurn,
  ): Promise<void> {
    const { hold, release } = planRoles({
      roles: answer.roles,
      self: nodeSeq,
      // One that is leaving is no longer among them.
      members: new Set([...members, String(nodeSeq)]).size,
      hasGrown,
      isClockTrusted,
      isResigning: this.#isResigning,
      now: answer.sample.shown,
      patienceMs: 2.5 * this.#beatMs,
    });
    const [held] = await Promise.all([
      holdRoles(connection, { nodeSeq, names: hold, ms: this.#liveMs }),
      releaseRoles(connection, { nodeSeq, names: release }),
    ]);
    this.#held = NODE_ROLES.filter((role) => held.includes(role));
  }
}
