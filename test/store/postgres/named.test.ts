import assert from "node:assert/strict";
import { test } from "node:test";

import { type Sql, type SqlValue, named } from "../../../src/store/postgres/machine/sql.ts";

/** A server that remembers what it was asked. */
function newSql() {
  const asked: (readonly [string, readonly SqlValue[] | undefined])[] = [];
  const ask = async (text: string, values?: readonly SqlValue[]): Promise<void> =>
    void asked.push([text, values]);
  const sql: Sql = {
    all: (text, values) => ask(text, values).then(() => []),
    get: (text, values) => ask(text, values).then(() => undefined),
    run: (text, values) => ask(text, values).then(() => 0),
  };
  return { sql, asked };
}

test("a statement takes the values that it names, each once, in whatever order they are given", async () => {
  const { sql, asked } = newSql();
  const select = named("SELECT @b::int WHERE @a::int = 1 OR @b < @c_1");

  await select.all(sql, { a: 1, unused: [], b: 2, c_1: null });
  await select.get(sql, { b: [], c_1: "x", a: false });

  const text = "SELECT $1::int WHERE $2::int = 1 OR $1 < $3";
  assert.deepEqual(asked, [
    [text, [2, 1, null]],
    [text, [[], false, "x"]],
  ]);
});

test("a statement without a value that it names is refused", async () => {
  const { sql, asked } = newSql();
  await assert.rejects(async () => named("SELECT @a").all(sql, { b: 1 }), /parameter a/);
  assert.deepEqual(asked, []);
});

test("a statement keeps what looks like a parameter in a literal, a quoted name or a comment", async () => {
  const { sql, asked } = newSql();
  const text = `SELECT 'a@b', "c@d", 'it''s @e' -- not @f
    /* nor
    '@g */ FROM t WHERE h = `;

  await named(`${text}@h`).get(sql, { h: 1 });

  assert.deepEqual(asked, [[`${text}$1`, [1]]]);
});
