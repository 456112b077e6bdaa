import type { NodeRole } from "../../cluster.ts";
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
