import assert from "node:assert/strict";
import { test } from "node:test";

import type { ReadSql } from "../../src/store/postgres/machine/sql.ts";
import { turnLookUp } from "../../src/store/postgres/turn-reads.ts";
import { runOn } from "../../src/store/postgres/use-cases.ts";
import { statement } from "../../src/store/sql/statement.ts";
import { all, within } from "../../src/store/sql/use-case.ts";
import { openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { bindUseCases } from "../../src/store/sqlite/use-cases.ts";
import { newDatabaseFile, pluck } from "../helpers/store.ts";

test("PostgreSQL numbers the parameters of a statement, each name once", () => {
  const { postgres } = statement("SELECT @b::int WHERE @a::int = 1 OR @b < @c_1");
  assert.equal(postgres?.text, "SELECT $1::int WHERE $2::int = 1 OR $1 < $3");
  assert.deepEqual(postgres.names, ["b", "a", "c_1"]);
});

test("a statement without a value that it names is refused", async () => {
  const sql: ReadSql = { all: async () => [], get: async () => undefined };
  await assert.rejects(runOn(sql, all(statement("SELECT @a"), { b: 1 })), /parameter a/);
});

test("a statement keeps what looks like a parameter in a literal, a quoted name or a comment", () => {
  const text = `SELECT 'a@b', "c@d", 'it''s @e' -- not @f
    /* nor
    '@g */ FROM t WHERE h = `;

  assert.equal(statement(`${text}@h`).postgres?.text, `${text}$1`);
});

test("SQLite computes no size of a row that a step does not erase", (t) => {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  // To compute the size of the third row throws.
  const sizes = statement(`
    WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n LIMIT 9)
    SELECT seq, CASE WHEN seq < 3 THEN 1500000 ELSE json('no JSON') END AS bytes FROM n`);
  const { erase } = bindUseCases(connection, { erase: () => within<{ bytes: number }>(sizes) });

  assert.deepEqual(erase(), [{ seq: 1, bytes: 1_500_000 }]);
});

test("look-ups of one turn share a statement with each key once", async () => {
  const asked: (readonly string[])[] = [];
  const lookUp = turnLookUp(async (keys) => {
    asked.push(keys);
    return keys.filter((key) => key !== "none").map((key) => ({ key }));
  });
  // Requests of one turn come in by themselves, each with its own microtasks.
  const found = ["a", "b", "a", "none"].map((key) => lookUp(key));
  await Promise.resolve();
  found.push(lookUp("b"));
  const expected = [{ key: "a" }, { key: "b" }, { key: "a" }, undefined, { key: "b" }];
  assert.deepEqual(await Promise.all(found), expected);
  assert.deepEqual(asked, [["a", "b", "none"]]);
});

test("a look-up of a later turn has its own statement", async () => {
  const answers: ((value: number) => void)[] = [];
  const lookUp = turnLookUp(async ([key = ""]) => {
    const value = await new Promise<number>((resolve) => answers.push(resolve));
    return [{ key, value }];
  });

  const first = lookUp("a");
  await new Promise(setImmediate);
  const second = lookUp("a");
  await new Promise(setImmediate);
  answers.forEach((answer, i) => answer(i));

  assert.deepEqual(await Promise.all([first, second]), [
    { key: "a", value: 0 },
    { key: "a", value: 1 },
  ]);
});

test("a statement that fails rejects the look-ups of its turn, and none of the next", async () => {
  let isLost = true;
  const lookUp = turnLookUp(async (keys) => {
    if (isLost) throw new Error("lost");
    return keys.map((key) => ({ key }));
  });
  const outcomes = await Promise.allSettled([lookUp("a"), lookUp("b")]);
  isLost = false;
  assert.deepEqual(pluck(outcomes, "status"), ["rejected", "rejected"]);
  assert.deepEqual(await lookUp("a"), { key: "a" });
});
