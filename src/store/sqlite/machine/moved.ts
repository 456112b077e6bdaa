import type { Connection } from "./connection.ts";

/** Where a file was moved to. */
export interface MoveMark {
  /** Names the move, on both sides. */
  readonly id: string;
  /** The database that has everything now, without its password. */
  readonly to: string;
}

// Above every version of the schema: programs of any version refuse such a file.
const MOVED = 1_000_000;

/** Marks a file whose data is in another database from now on: no daemon starts on it any more. */
export function markMoved(connection: Connection, { id, to }: MoveMark): void {
  const version = Number(connection.pragma("user_version", { simple: true }));
  connection
    .transaction(() => {
      connection.exec("CREATE TABLE moved (id TEXT NOT NULL, database TEXT NOT NULL) STRICT");
      connection.prepare("INSERT INTO moved VALUES (?, ?)").run(id, to);
      connection.pragma(`user_version = ${MOVED + version}`);
    })
    .immediate();
}

/** Takes the mark away, when the move came to nothing. */
export function unmarkMoved(connection: Connection): void {
  const version = Number(connection.pragma("user_version", { simple: true }));
  connection
    .transaction(() => {
      connection.exec("DROP TABLE moved");
      connection.pragma(`user_version = ${version - MOVED}`);
    })
    .immediate();
}

/** Where the file was moved to; null for one that was not. */
export function findMoveMark(connection: Connection): MoveMark | null {
  const version = Number(connection.pragma("user_version", { simple: true }));
  if (version < MOVED) return null;
  const mark = connection.prepare<[], MoveMark>("SELECT id, database AS 'to' FROM moved").get();
  return mark ?? null;
}
