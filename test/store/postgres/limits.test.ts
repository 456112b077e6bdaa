import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import type pg from "pg";

import { until } from "../../../scripts/kit/until.ts";
import type { NewSession, Store } from "../../../src/store/store.ts";
import { openPatientNode, openSession } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { T0, newAccount, newKeyToStore, newPost, pluck, seedAccount } from "../../helpers/store.ts";

/** Concurrent writes of two nodes, or of a node and a long transaction. */
describe("limits that nodes share", { skip: reasonToSkipPostgres() }, () => {
  test("a session is refused while its account is being disabled", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const firstKey = newKeyToStore();
    await nodes[0].createAccount(newAccount({ firstKey }));
    await slow.query("BEGIN");
    await slow.query("UPDATE accounts SET disabled_at = 1");
    await slow.query("DELETE FROM sessions");
    const session = newSession(firstKey.keyId);

    const created = nodes[0].createSession(session);
    await somebodyWaitsFor(slow);
    await slow.query("COMMIT");

    assert.equal(await created, "refused");
    await nodes[0].setAccountDisabled({ login: "ada", disabledAt: null });
    assert.equal(await nodes[0].findSession(session.hash), null);
  });

  test("suspension changes are visible in order", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const [ada, bob] = [await seedAccount(nodes[0], "ada"), await seedAccount(nodes[0], "bob")];
    await slow.query("BEGIN");
    await slow.query("UPDATE accounts SET disabled_at = 1 WHERE login = 'ada'");
    await slow.query("INSERT INTO suspension_changes (account_seq) VALUES ($1)", [ada]);

    const disabled = nodes[0].setAccountDisabled({ login: "bob", disabledAt: T0 });
    await somebodyWaitsFor(slow);
    const before = await nodes[1].listSuspensionChanges({ after: 0 });
    await slow.query("COMMIT");
    await disabled;

    assert.deepEqual(before.accounts, []);
    const { accounts } = await nodes[1].listSuspensionChanges({ after: before.last });
    assert.deepEqual(pluck(accounts, "accountId"), [ada, bob]);
  });

  test("a response erased by another node during a new post is subtracted once", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const accountId = await seedAccount(nodes[0]);
    const post = (steadyAt: number) => {
      const idempotency = { key: "k", bodyHash: "h", answerText: "{}", steadyAt, eraseAt: T0 + 9 };
      return newPost(accountId, [], { refused: [], idempotency });
    };
    await nodes[0].insertTasks(post(T0));
    const { bytes } = await nodes[0].countWork(accountId);
    await slow.query("BEGIN");
    // The erasing session subtracts it.
    await slow.query("DELETE FROM idempotency_keys");

    const again = nodes[0].insertTasks(post(T0 + 10));
    await somebodyWaitsFor(slow);
    await slow.query("COMMIT");
    await again;

    assert.equal((await nodes[0].countWork(accountId)).bytes, 2 * bytes);
  });
});

type Nodes = readonly [Store, Store];

interface Opened {
  readonly nodes: Nodes;
  /** Another connection. */
  readonly slow: pg.Client;
}

async function openNodes(t: TestContext): Promise<Opened> {
  const url = await newDatabaseUrl(t);
  const nodes = [await openPatientNode(t, url), await openPatientNode(t, url)] as const;
  const slow = await openSession(t, url);
  return { nodes, slow };
}

async function somebodyWaitsFor(slow: pg.Client): Promise<void> {
  const waits = `
    SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)) LIMIT 1`;
  await until(async () => (await slow.query(waits)).rowCount === 1, {
    msMax: 10_000,
    everyMs: 5,
    fault: () => "nobody waits",
  });
}

let sessionsMade = 0;

function newSession(keyId: string | null): NewSession {
  return { hash: `hash-${++sessionsMade}`, keyId, createdAt: T0, sessionsMax: 1 };
}
