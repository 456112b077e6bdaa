import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import pg from "pg";

import { until } from "../../../scripts/kit/until.ts";
import type { NewSession, Store } from "../../../src/store/store.ts";
import { afterwards } from "../../helpers/afterwards.ts";
import { openPatientNode } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  newAccessRequest,
  newAccount,
  newKeyToStore,
  newPost,
  newTask,
  seedAccount,
  T0,
} from "../../helpers/store.ts";

/** What two nodes do at once, or a node and somebody whose transaction takes long. */
describe("limits that nodes share", { skip: reasonToSkipPostgres() }, () => {
  test("an account has as many keys as it may have, though they are made at two nodes at once", async (t) => {
    const { nodes } = await openNodes(t);
    await seedAccount(nodes[0], "ada");
    const create = (node: Store) =>
      node.createKey({ ...newKeyToStore(), login: "ada", createdAt: T0, activeMax: 20 });

    const outcomes = await Promise.all(oneByOne(50, nodes).map(create));

    assert.equal(outcomes.filter((outcome) => outcome === "created").length, 19);
    assert.equal((await nodes[1].listKeys("ada"))?.length, 20);
  });

  test("as many requests wait as may wait, though they come to two nodes at once", async (t) => {
    const { nodes } = await openNodes(t);

    const outcomes = await Promise.all(
      oneByOne(50, nodes).map((node) =>
        node.insertAccessRequest(newAccessRequest({ pendingMax: 20 })),
      ),
    );

    assert.equal(outcomes.filter((outcome) => outcome === "stored").length, 20);
    assert.equal(await nodes[1].countPendingRequests(100), 20);
  });

  test("a key, and the operator, have no more sessions than the most, though they sign in at two nodes at once", async (t) => {
    const { nodes } = await openNodes(t);
    const firstKey = newKeyToStore();
    await nodes[0].createAccount(newAccount({ firstKey }));
    for (const keyId of [firstKey.keyId, null]) {
      for (let round = 0; round < 10; round++) {
        const sessions = nodes.map(() => newSession(keyId));

        await Promise.all(nodes.map((node, i) => node.createSession(sessions[i] ?? assert.fail())));

        const found = await Promise.all(sessions.map(({ hash }) => nodes[0].findSession(hash)));
        assert.equal(found.filter((session) => session !== null).length, 1);
      }
    }
  });

  test("a session does not come about while its account is being disabled", async (t) => {
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

  test("no change of a hold is seen before an earlier one", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const [ada, bob] = [await seedAccount(nodes[0], "ada"), await seedAccount(nodes[0], "bob")];
    await slow.query("BEGIN");
    await slow.query("UPDATE accounts SET disabled_at = 1 WHERE login = 'ada'");
    await slow.query("INSERT INTO hold_changes (account_seq) VALUES ($1)", [ada]);

    const disabled = nodes[0].setAccountDisabled({ login: "bob", disabledAt: T0 });
    await somebodyWaitsFor(slow);
    const before = await nodes[1].listSuspensionChanges({ after: 0 });
    await slow.query("COMMIT");
    await disabled;

    assert.deepEqual(before.accounts, []);
    const { accounts } = await nodes[1].listSuspensionChanges({ after: before.last });
    assert.deepEqual(
      accounts.map(({ accountId }) => accountId),
      [ada, bob],
    );
  });

  test("an answer that another node erases, while its key is used again, is not counted off twice", async (t) => {
    const { nodes, slow } = await openNodes(t);
    const accountId = await seedAccount(nodes[0]);
    const post = (steadyAt: number) => {
      const idempotency = { key: "k", bodyHash: "h", answerText: "{}", steadyAt, eraseAt: T0 + 9 };
      return newPost(accountId, [], { refused: [], idempotency });
    };
    await nodes[0].insertTasks(post(T0));
    const { bytes } = await nodes[0].countWork(accountId);
    await slow.query("BEGIN");
    // Whoever erases it counts it off.
    await slow.query("DELETE FROM idempotency_keys");

    const again = nodes[0].insertTasks(post(T0 + 10));
    await somebodyWaitsFor(slow);
    await slow.query("COMMIT");
    await again;

    assert.equal((await nodes[0].countWork(accountId)).bytes, 2 * bytes);
  });

  test("two nodes that use a key at once give the same answer", async (t) => {
    const { nodes } = await openNodes(t);
    const accountId = await seedAccount(nodes[0]);
    for (let round = 0; round < 20; round++) {
      const outcomes = await Promise.all(
        nodes.map((node, i) => {
          const answerText = `{"by":${i}}`;
          const idempotency = { key: `k${round}`, bodyHash: "h", answerText, steadyAt: T0 };
          return node.insertTasks(
            newPost(accountId, [newTask()], { idempotency: { ...idempotency, eraseAt: T0 + 9 } }),
          );
        }),
      );

      assert.deepEqual(outcomes.map(({ kind }) => kind).toSorted(), ["inserted", "kept"]);
    }
    assert.equal((await nodes[0].countWork(accountId)).queued, 20);
  });
});

type Nodes = readonly [Store, Store];

interface Opened {
  readonly nodes: Nodes;
  /** A connection of somebody else. */
  readonly slow: pg.Client;
}

async function openNodes(t: TestContext): Promise<Opened> {
  const url = await newDatabaseUrl(t);
  const nodes = [await openPatientNode(t, url), await openPatientNode(t, url)] as const;
  const slow = new pg.Client(url);
  await slow.connect();
  afterwards(t, () => slow.end());
  return { nodes, slow };
}

/** So many, of one node and the other in turn. */
function oneByOne(count: number, nodes: Nodes): readonly Store[] {
  return Array.from({ length: count }, (_, i) => nodes[i % 2 === 0 ? 0 : 1]);
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
