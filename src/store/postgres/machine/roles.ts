import { NODE_ROLES, type NodeRole } from "../../cluster.ts";
import type { Connection } from "./connection.ts";
import { SERVER_NOW } from "./sql.ts";

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
    `INSERT INTO roles (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`,
    [names],
  );
}

export function findRoles(connection: Connection): Promise<readonly RoleRow[]> {
  return connection.all<RoleRow>(`
    SELECT r.name, n.seq AS "nodeSeq", CASE WHEN r.node_seq IS DISTINCT FROM n.seq THEN 0 ELSE r.until END AS until
    FROM roles AS r LEFT JOIN nodes AS n ON n.seq = r.node_seq AND n.ended_at IS NULL
    ORDER BY r.name`);
}

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

/**
 * Spreads the roles evenly. A node takes free roles up to its share, and more roles if they stay free for some time. It
 * gives back the roles above its share only when a node has joined: a node that is there and takes none must not make
 * roles change hands. Returns which roles the node claims or renews, and which it gives back.
 */
export function planRoles(view: RoleView) {
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

// Claims and renews. A locked row is another node's, which claims or renews it.
const HOLD = `
  WITH mine AS (
    SELECT name FROM roles AS r
    WHERE name = ANY($2::text[]) AND (node_seq = $1 OR until < ${SERVER_NOW} OR NOT EXISTS (
      SELECT 1 FROM nodes AS n WHERE n.seq = r.node_seq AND n.ended_at IS NULL))
    ORDER BY name FOR UPDATE SKIP LOCKED
  )
  UPDATE roles AS r SET node_seq = $1, until = ${SERVER_NOW} + $3::bigint, term = term + (node_seq IS DISTINCT FROM $1)::int
  FROM mine WHERE r.name = mine.name
  RETURNING r.name`;

const RELEASE = `
  UPDATE roles SET node_seq = NULL, until = ${SERVER_NOW} WHERE node_seq = $1 AND name = ANY($2::text[])`;

/** The roles of a node, renewed with its heartbeats. */
export class RoleHolder {
  held: readonly NodeRole[] = [];
  /** The node gives its roles to others, if there are any. */
  isResigning = false;

  /** Claims, renews and gives back. Roles are held for `liveMs`. */
  async renew(
    connection: Connection,
    view: Omit<RoleView, "isResigning">,
    liveMs: number,
  ): Promise<void> {
    const { hold, release } = planRoles({ ...view, isResigning: this.isResigning });
    const [held] = await Promise.all([
      hold.length === 0 ? [] : connection.all<{ name: NodeRole }>(HOLD, [view.self, hold, liveMs]),
      release.length === 0 ? 0 : connection.run(RELEASE, [view.self, release]),
    ]);
    this.held = NODE_ROLES.filter((role) => held.some(({ name }) => name === role));
  }
}
