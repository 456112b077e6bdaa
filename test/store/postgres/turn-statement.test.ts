import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import { Connection } from "../../../src/store/postgres/machine/connection.ts";
import { turnStatement } from "../../../src/store/postgres/turn-reads.ts";
import { afterwards } from "../../helpers/afterwards.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";

describe("reads that share a statement", { skip: reasonToSkipPostgres() }, () => {
  test("are one statement where they are asked for in one turn, and each gets its own rows in its order", async (t) => {
    const { sql, statements } = await openTurns(t);

    const found = await Promise.all([
      sql.all("SELECT n, n > 1 AS big FROM unnest($1::bigint[]) AS u (n) ORDER BY n DESC", [
        [1, 2],
      ]),
      sql.all("SELECT 1 WHERE false"),
      sql.get("SELECT $2::text AS b, $1::text AS a", ["'1'", '"2"']),
      sql.get("SELECT 1 WHERE $1", [false]),
    ]);
    const later = await sql.get("SELECT $1::bigint AS n", [2 ** 52]);

    assert.deepEqual(found, [
      [
        { n: 2, big: true },
        { n: 1, big: false },
      ],
      [],
      { a: "'1'", b: '"2"' },
      undefined,
    ]);
    assert.deepEqual(later, { n: 2 ** 52 });
    assert.equal(statements.length, 2);
  });

  test("are rejected together when the statement fails, and those of the next turn are not", async (t) => {
    const { sql } = await openTurns(t);

    const ends = await Promise.allSettled([sql.all("SELECT 1 / 0 AS n"), sql.get("SELECT 1 AS n")]);

    assert.deepEqual(
      ends.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.deepEqual(await sql.get("SELECT 1 AS n"), { n: 1 });
  });
});

async function openTurns(t: TestContext) {
  const connection = await Connection.open({ connectionString: await newDatabaseUrl(t) }, 5000);
  afterwards(t, () => connection.close());
  const statements: string[] = [];
  const sql = turnStatement({
    all(text, values) {
      statements.push(text);
      return connection.all(text, values);
    },
    get(text, values) {
      statements.push(text);
      return connection.get(text, values);
    },
  });
  return { sql, statements };
}
