import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import type { AttemptRecord, ClaimedAttempt, Store } from "../../../src/store/store.ts";
import { seedDue } from "../../helpers/delivery.ts";
import { openNode } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  claimAttempt,
  newAttemptRecord,
  newAttemptResult,
  seedAccount,
  seedDelivery,
  T0,
  pluck,
} from "../../helpers/store.ts";

const DUE = T0 + 1000;

/** Opens a database as so many nodes. */
async function openNodes(t: TestContext, nodes: number): Promise<readonly Store[]> {
  const url = await newDatabaseUrl(t);
  return Promise.all(Array.from({ length: nodes }, () => openNode(t, url)));
}

/** The record of an interrupted attempt, due again immediately. */
function interrupted(attempt: ClaimedAttempt): AttemptRecord {
  const result = newAttemptResult({ outcome: "interrupted" });
  const decision = { state: "scheduled", dueAt: DUE + 5, retry: attempt.retry } as const;
  return newAttemptRecord(attempt, { result, decision, endedAt: DUE + 5 });
}

/** The outcome of each attempt of a task's only delivery. */
async function outcomes(store: Store, accountId: number, id: string): Promise<readonly unknown[]> {
  const [delivery] = (await store.listDeliveries({ accountId, id })) ?? [];
  return (delivery?.attempts ?? []).map(({ outcome, startedAt }) =>
    startedAt === null ? "scheduled" : (outcome ?? "in flight"),
  );
}

describe("attempts of several nodes", { skip: reasonToSkipPostgres() }, () => {
  test("attempts in flight of a living node are not listed or recorded by another node", async (t) => {
    const [store, other] = await openNodes(t, 2);
    assert(store !== undefined && other !== undefined);
    const accountId = await seedAccount(store);
    const { id } = await seedDelivery(store, accountId);
    const attempt = await claimAttempt(store);
    for (const whose of ["earlier life", "ended nodes"] as const) {
      assert.deepEqual(await other.listInFlight({ of: whose }), []);
    }
    await other.recordAttempt(interrupted(attempt));
    assert.deepEqual(await outcomes(store, accountId, id), ["in flight"]);
    await store.recordAttempt(newAttemptRecord(attempt, { decision: { state: "given_up" } }));
    assert.deepEqual(await outcomes(store, accountId, id), ["failed"]);
  });

  test("attempts in flight of an ended node are interrupted once", async (t) => {
    const [store, ...others] = await openNodes(t, 3);
    const [first] = others;
    assert(store !== undefined && first !== undefined);
    const accountId = await seedAccount(store);
    const { id } = await seedDelivery(store, accountId);
    const attempt = await claimAttempt(store);
    await store.close();

    const left = await first.listInFlight({ of: "ended nodes" });
    assert.deepEqual(pluck(left, "seq"), [attempt.seq]);
    await first.recordAttempt(newAttemptRecord(attempt, { decision: { state: "delivered" } }));
    assert.deepEqual(await outcomes(first, accountId, id), ["in flight"]);

    await Promise.all(others.map((each) => each.recordAttempt(interrupted(attempt))));

    assert.deepEqual(await outcomes(first, accountId, id), ["interrupted", "scheduled"]);
  });

  test("concurrent claims of nodes from one lane have different attempts", async (t) => {
    const nodes = await openNodes(t, 3);
    const [store] = nodes;
    assert(store !== undefined);
    const accountId = await seedAccount(store);
    await seedDue(store, accountId, Array<string>(60).fill("a.example"));
    const lanes = [{ accountId, host: "a.example", fresh: 7, retries: 0 }];

    const started: number[] = [];
    for (let before = -1; before < started.length;) {
      before = started.length;
      const claims = nodes.map((node) => node.claimAttempts({ lanes, now: DUE }));
      for (const { attempts } of await Promise.all(claims)) {
        started.push(...attempts.map(({ seq }) => seq));
      }
    }

    assert.equal(new Set(started).size, started.length);
    assert.equal(started.length, 60);
  });
});
