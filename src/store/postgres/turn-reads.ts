import { setImmediate } from "../../domain/clock/timers.ts";
import { rewriteParameters } from "../common/row.ts";
import type { ReadSql, SqlValue } from "./machine/sql.ts";

interface Asked extends PromiseWithResolvers<readonly unknown[]> {
  readonly text: string;
  readonly values: readonly SqlValue[];
}

/**
 * Combines the reads of one turn of the event loop into one statement, so they read one state of the database. It is
 * for the few that are always asked for together, because each set of them is a statement to prepare. Their rows cross
 * as JSON: columns are texts, numbers and booleans.
 */
export function turnStatement(sql: ReadSql): ReadSql {
  let asked: Asked[] | null = null;

  function all<Row>(text: string, values: readonly SqlValue[] = []): Promise<readonly Row[]> {
    if (asked === null) {
      asked = [];
      setImmediate(send);
    }
    const one = { text, values, ...Promise.withResolvers<readonly unknown[]>() };
    asked.push(one);
    // The statement's text says which columns its rows have.
    return one.promise as Promise<readonly Row[]>;
  }

  function send(): void {
    const together = asked ?? [];
    asked = null;
    readTogether(sql, together).then(
      (found) => together.forEach(({ resolve }, place) => resolve(found[place] ?? [])),
      (error: unknown) => together.forEach(({ reject }) => reject(error)),
    );
  }

  return { all, get: async <Row>(...of: Parameters<ReadSql["all"]>) => (await all<Row>(...of))[0] };
}

type Statement = Pick<Asked, "text" | "values">;

/** The rows of each, in their order; null without rows. */
async function readTogether(
  sql: ReadSql,
  statements: readonly Statement[],
): Promise<readonly (readonly unknown[] | null)[]> {
  const [only] = statements;
  if (only !== undefined && statements.length === 1) return [await sql.all(only.text, only.values)];
  const columns: string[] = [];
  const values: SqlValue[] = [];
  for (const { text, values: own } of statements) {
    const before = values.length;
    const renumbered = rewriteParameters(
      text,
      /\$\d+/,
      (parameter) => `$${before + Number(parameter.slice(1))}`,
    );
    columns.push(`(SELECT json_agg(r) FROM (${renumbered}) AS r)`);
    values.push(...own);
  }
  const row = await sql.get<{ found: (readonly unknown[] | null)[] }>(
    `SELECT json_build_array(${columns.join(", ")}) AS found`,
    values,
  );
  return row?.found ?? [];
}

/** A row that was looked for by a key. */
export interface Keyed {
  readonly key: string;
}

/**
 * Combines the look-ups of one turn of the event loop into one statement: `find` gets their keys, each once, and
 * returns the existing rows. Not a cache: each look-up reads what is committed after it was asked for.
 */
export function turnLookUp<Row extends Keyed>(
  find: (keys: readonly string[]) => Promise<readonly Row[]>,
): (key: string) => Promise<Row | undefined> {
  let asked: { readonly keys: Set<string>; readonly rows: Promise<Map<string, Row>> } | null = null;

  // Requests that came in together are all read from their sockets before the first immediate runs.
  function begin() {
    const keys = new Set<string>();
    const rows = new Promise<readonly Row[]>((resolve) => {
      setImmediate(() => {
        asked = null;
        resolve(find([...keys]));
      });
    });
    return { keys, rows: rows.then((found) => new Map(found.map((row) => [row.key, row]))) };
  }

  return async (key) => {
    asked ??= begin();
    asked.keys.add(key);
    return (await asked.rows).get(key);
  };
}
