import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

const INSERT_SECRET = `INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`;

const FIND_SECRET = `SELECT value FROM secrets WHERE name = ?`;

export function secretWrites(connection: Connection) {
  const insert = connection.prepare<[string, string]>(INSERT_SECRET);
  const find = connection.prepare<[string], string>(FIND_SECRET).pluck();

  return {
    keepSecret({ name, fresh }) {
      insert.run(name, fresh);
      return find.get(name) ?? fresh;
    },
  } satisfies Steps;
}
