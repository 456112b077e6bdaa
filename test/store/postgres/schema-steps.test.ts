import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import { makeSchema, migrateDatabase } from "../../../src/store/postgres/machine/migrate.ts";
import {
  FIRST_VERSION,
  SCHEMA,
  type SchemaPlan,
  type SchemaStep,
  type StepPart,
  schemaError,
} from "../../../src/store/postgres/machine/schema.ts";
import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { askDatabase, eventually, openNode, openSession } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { seedAccount, pluck } from "../../helpers/store.ts";

const PLACE = { shown: "db:5432", database: "jobs" };
const NEXT = SCHEMA.version + 1;

/** The schema of a later version: the current tables and steps from them. */
function later(...steps: readonly Pick<SchemaStep, "kind" | "parts">[]): SchemaPlan {
  const numbered = steps.map(({ kind, parts }, i) => ({ to: NEXT + i, kind, parts }));
  return { ...SCHEMA, version: SCHEMA.version + steps.length, steps: numbered };
}

const change = (sql: string): StepPart => ({ kind: "change", sql });
const ADD = change("ALTER TABLE accounts ADD COLUMN IF NOT EXISTS colour text");
const expand = (...parts: readonly StepPart[]) => ({ kind: "expand", parts }) as const;
const contract = (...parts: readonly StepPart[]) => ({ kind: "contract", parts }) as const;

/** The error of this version for later tables. */
function needs(version: number): RegExp {
  return new RegExp(`need a program of version ${version}, and this one is of ${SCHEMA.version}`);
}

async function newServer(t: TestContext) {
  const url = await newDatabaseUrl(t);
  return { url, server: parseServerAddress(url) };
}

async function versionOf(url: string): Promise<readonly [number, number]> {
  const [row] = await askDatabase<{ version: number; oldest: number }>(
    url,
    "SELECT version, min_program AS oldest FROM schema_version",
  );
  return [row?.version ?? 0, row?.oldest ?? 0];
}

test("the error names the version or the command that the tables need", () => {
  const first = FIRST_VERSION;
  const found = { version: first, minProgram: first - 1, movedTo: null };

  assert.match(
    String(schemaError({ ...found, version: first - 1 }, first, PLACE)),
    new RegExp(
      `before 0\\.1\\.0 \\(version ${first - 1}, .* on ${first} or later\\).*: start with an empty`,
    ),
  );
  for (const program of [first - 1, first, first + 1]) {
    assert.equal(schemaError(found, program, PLACE), null);
  }
  assert.match(String(schemaError(null, first, PLACE)), /no tables .*'postbackd database migrate'/);
  assert.match(
    String(schemaError(found, first + 2, PLACE)),
    new RegExp(
      `\\(${first}, this program works on ${first + 1} and .*run 'postbackd database migrate'`,
    ),
  );
  assert.match(
    String(schemaError(found, first - 2, PLACE)),
    new RegExp(
      `\\(${first}\\) that need .* version ${first - 1}, and this one is of .*: start the newer`,
    ),
  );
  assert.match(
    String(schemaError({ ...found, movedTo: "/a.db" }, first, PLACE)),
    /moved to \/a\.db/,
  );
});

describe("the tables on a server", { skip: reasonToSkipPostgres() }, () => {
  test("concurrent starts create the tables once", async (t) => {
    const { server } = await newServer(t);
    const made = await Promise.all([1, 2, 3, 4].map(() => migrateDatabase(server)));
    assert.deepEqual(new Set(pluck(made, "to")), new Set([SCHEMA.version]));
    assert.deepEqual(await migrateDatabase(server), { from: SCHEMA.version, to: SCHEMA.version });
    assert.equal(await makeSchema(server), SCHEMA.version);
  });

  test("an expansion works with daemons of the version before", async (t) => {
    const { url, server } = await newServer(t);
    const node = await openNode(t, url);
    await seedAccount(node, "before");
    const parts: readonly StepPart[] = [
      ADD,
      { kind: "index", name: "accounts_by_colour", on: "accounts (colour)" },
      {
        kind: "backfill",
        sql: `UPDATE accounts SET colour = 'red' WHERE seq IN (
          SELECT seq FROM accounts WHERE colour IS NULL ORDER BY seq LIMIT 1)`,
      },
    ];
    await seedAccount(node, "beside");

    const done = await migrateDatabase(server, later(expand(...parts)));

    assert.deepEqual(done, { from: SCHEMA.version, to: NEXT });
    await seedAccount(node, "after");
    const other = await openNode(t, url);
    const logins = pluck(await other.listAccounts(), "login").toSorted();
    assert.deepEqual(logins, ["after", "before", "beside"]);
    const rows = await askDatabase<{ colour: string | null }>(
      url,
      "SELECT colour FROM accounts ORDER BY seq",
    );
    assert.deepEqual(pluck(rows, "colour"), ["red", "red", null]);
    assert.deepEqual(await migrateDatabase(server), { from: NEXT, to: NEXT });
  });

  test("a contraction waits for old daemons, which it names, and later refuses them", async (t) => {
    const { url, server } = await newServer(t);
    const node = await openNode(t, url, { node: { name: "old-1", url: null, version: "0.9" } });
    const plan = later(expand(ADD), contract(change("ALTER TABLE accounts DROP COLUMN colour")));

    await assert.rejects(migrateDatabase(server, plan), {
      kind: "failed",
      message: new RegExp(
        String.raw`are of version ${NEXT}, and version ${NEXT + 1} would take away .*: old-1 \(0\.9\)\. Start them`,
      ),
    });
    assert.deepEqual(await versionOf(url), [NEXT, SCHEMA.version]);
    await seedAccount(node, "still");

    await node.close();
    assert.deepEqual(await migrateDatabase(server, plan), { from: NEXT, to: NEXT + 1 });
    assert.deepEqual(await versionOf(url), [NEXT + 1, NEXT + 1]);
    await assert.rejects(openNode(t, url), needs(NEXT + 1));
    await assert.rejects(migrateDatabase(server), /start the newer postbackd/);
  });

  test("a second expansion waits for daemons two versions behind", async (t) => {
    const { url, server } = await newServer(t);
    const node = await openNode(t, url);
    const plan = later(expand(ADD), expand());
    await assert.rejects(
      migrateDatabase(server, plan),
      new RegExp(`are of version ${NEXT}, and version ${NEXT + 1} would`),
    );
    await node.close();
    assert.deepEqual(await migrateDatabase(server, plan), { from: NEXT, to: NEXT + 1 });
    assert.deepEqual(await versionOf(url), [NEXT + 1, NEXT]);
  });

  test("a broken contraction refuses daemons of the old version", async (t) => {
    const { url, server } = await newServer(t);
    await migrateDatabase(server);
    const failing = later(contract(change("SELECT 1 / 0")));
    await assert.rejects(migrateDatabase(server, failing), /division by zero/);
    assert.deepEqual(await versionOf(url), [SCHEMA.version, NEXT]);
    await assert.rejects(openNode(t, url), needs(NEXT));
    // It is broken off, and so is continued.
    assert.equal((await migrateDatabase(server, later(contract()))).to, NEXT);
  });

  test("concurrent migrations change the tables once", async (t) => {
    const { url, server } = await newServer(t);
    await migrateDatabase(server);
    const plan = later(
      expand(change("CREATE TABLE taken (n int)"), change("INSERT INTO taken VALUES (1)")),
    );
    const done = await Promise.all([1, 2, 3].map(() => migrateDatabase(server, plan)));
    assert.deepEqual(new Set(pluck(done, "to")), new Set([NEXT]));
    assert.equal(done.filter(({ from }) => from === SCHEMA.version).length, 1);
    assert.deepEqual(await askDatabase(url, "SELECT n FROM taken"), [{ n: 1 }]);
  });

  test("a broken index is created again", async (t) => {
    const { url, server } = await newServer(t);
    const node = await openNode(t, url);
    await seedAccount(node, "one");
    await seedAccount(node, "two");
    // Two rows have the same secret: what is made of the index stays behind.
    const broken = "CREATE UNIQUE INDEX CONCURRENTLY made_up ON accounts (webhook_secret)";
    await assert.rejects(askDatabase(url, broken), /could not create unique index/);

    const part = { kind: "index", name: "made_up", on: "accounts (webhook_secret)" } as const;
    await migrateDatabase(server, later(expand(part)));

    const valid = await askDatabase(
      url,
      "SELECT indisvalid, indisunique FROM pg_index WHERE indexrelid = to_regclass('made_up')",
    );
    assert.deepEqual(valid, [{ indisvalid: true, indisunique: false }]);
  });

  test("a step that waits for a lock does not block other sessions", async (t) => {
    const { url, server } = await newServer(t);
    await migrateDatabase(server);
    const holder = await openSession(t, url);
    await holder.query("BEGIN; SELECT count(*) FROM accounts");

    const migration = migrateDatabase(server, later(expand(ADD)));
    const isWaiting = async (): Promise<boolean> => {
      const waiting = await askDatabase(
        url,
        `SELECT 1 FROM pg_locks
         WHERE relation = 'accounts'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted`,
      );
      return waiting.length > 0;
    };
    await eventually("the step waits for its lock", isWaiting, 60_000);
    // It queues behind the step, which must give way.
    assert.equal((await askDatabase(url, "SELECT seq FROM accounts")).length, 0);

    await holder.query("COMMIT");
    assert.equal((await migration).to, NEXT);
  });
});
