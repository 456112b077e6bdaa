import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { inspect } from "node:util";

import type pg from "pg";

import { StoreError } from "../../../src/store/store.ts";
import { askDatabase, openNode, openSession } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  newLeaseClaim,
  newPost,
  newTask,
  newTaskCancels,
  RETENTION_MS,
  retainedUntil,
  seedAccount,
  seedWorker,
  T0,
} from "../../helpers/store.ts";

// A client waits half of this time for a write.
const BEAT_MS = 20_000;

/** A process that was stopped in the middle of a transaction. */
async function openOther(t: TestContext, url: string): Promise<pg.Client> {
  const client = await openSession(t, url);
  await client.query("BEGIN");
  return client;
}

describe("rows that another session locks for long", { skip: reasonToSkipPostgres() }, () => {
  test("locked rows make their own operations busy, not their batch", async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openNode(t, url, { beatMs: BEAT_MS });
    const accountId = await seedAccount(store);
    const [held, free] = [newTask({ type: "held" }), newTask({ type: "free" })];
    await store.insertTasks(newPost(accountId, [held, free]));
    const other = await openOther(t, url);
    await other.query("SELECT FROM queue WHERE type = 'held' FOR UPDATE");
    const end = { accountId, cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) };
    const cancel = (id: string) => store.cancelTask({ ...end, id });
    const refused = async (id: string): Promise<void> => {
      await assert.rejects(cancel(id), (error) => {
        assert(error instanceof StoreError);
        return error.kind === "busy";
      });
    };

    // Of one turn, so they are one batch.
    const posts = Array.from({ length: 9 }, () => newPost(accountId, [newTask()]));
    const answers = await Promise.all([
      refused(held.id),
      cancel(free.id),
      store.cancelTasks(newTaskCancels(accountId, { ids: [] })),
      ...posts.map((post) => store.insertTasks(post)),
    ]);

    assert.equal(answers[1], "cancelled");
    assert.deepEqual(
      answers.slice(3),
      posts.map(() => ({ kind: "inserted" })),
    );
    await refused(held.id);
    await other.query("ROLLBACK");
    assert.equal(await cancel(held.id), "cancelled");
  });

  test("a claim of a type that is locked is busy, and succeeds afterwards", async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openNode(t, url, { beatMs: BEAT_MS });
    const workerId = await seedWorker(store);
    const claim = newLeaseClaim(workerId);
    await store.insertTasks(newPost(await seedAccount(store), [newTask()]));
    assert.equal((await store.claimLeases({ ...claim, max: 0 })).length, 0);
    const other = await openOther(t, url);
    await other.query("LOCK TABLE lease_types");

    const claims = await Promise.allSettled([store.claimLeases(claim), store.claimLeases(claim)]);

    assert.deepEqual(claims.map(kindOf), ["busy", "busy"]);
    await other.query("ROLLBACK");
    assert.equal((await store.claimLeases(claim)).length, 1);
  });

  for (const table of ["tasks", "accounts", "idempotency_keys"]) {
    test(`a post during maintenance of ${table} is busy, and succeeds afterwards`, async (t) => {
      const url = await newDatabaseUrl(t);
      const store = await openNode(t, url, { beatMs: BEAT_MS });
      const accountId = await seedAccount(store);
      const other = await openOther(t, url);
      await other.query(`LOCK TABLE ${table}`);
      const idempotency = { key: "k", bodyHash: "h", answerText: "{}", steadyAt: T0 };
      const kept = { idempotency: { ...idempotency, eraseAt: T0 + 9 } };
      const post = () => store.insertTasks(newPost(accountId, [newTask()], kept));

      const [ended] = await Promise.allSettled([post()]);

      assert.equal(kindOf(ended), "busy");
      await other.query("ROLLBACK");
      assert.deepEqual(await post(), { kind: "inserted" });
    });
  }

  const conflicts = {
    "a serialization failure": "RAISE SQLSTATE '40001'",
    "a deadlock": "RAISE SQLSTATE '40P01'",
    "a cancelled statement": "RAISE SQLSTATE '57014'",
    "a full work memory": "RAISE SQLSTATE '53400'",
    "another node's change": "RETURN NULL",
  };
  for (const [conflict, effect] of Object.entries(conflicts)) {
    test(`a post with ${conflict} at each try is busy, and other posts succeed`, async (t) => {
      const url = await newDatabaseUrl(t);
      const store = await openNode(t, url, { beatMs: BEAT_MS });
      const accountId = await seedAccount(store);
      await askDatabase(
        url,
        `CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${effect}; END $$;
        CREATE TRIGGER meet BEFORE INSERT ON idempotency_keys FOR EACH ROW
          WHEN (NEW.key = 'unlucky') EXECUTE FUNCTION meet()`,
      );
      const post = (key: string) => {
        const idempotency = { key, bodyHash: "h", answerText: "{}", steadyAt: T0, eraseAt: T0 + 9 };
        return store.insertTasks(newPost(accountId, [newTask()], { idempotency }));
      };

      const posts = await Promise.allSettled(["a", "unlucky", "b"].map(post));

      assert.deepEqual(
        posts.map((ended) => (ended.status === "fulfilled" ? ended.value.kind : kindOf(ended))),
        ["inserted", "busy", "inserted"],
      );
      assert.equal(store.fault(), null);
    });
  }
});

/** The kind of a write's StoreError. */
function kindOf(ended: PromiseSettledResult<unknown>): string {
  assert(ended.status === "rejected" && ended.reason instanceof StoreError, inspect(ended));
  return ended.reason.kind;
}
