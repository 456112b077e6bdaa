import assert from "node:assert/strict";
import { test } from "node:test";

import type { AttemptPage, Store } from "../../src/store/store.ts";
import { endDue, seedDue, seedEnded } from "../helpers/delivery.ts";
import {
  claimAttempt,
  newAttemptRecord,
  T0,
  pluck,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** The place before everything that a test makes. */
async function beginOf(store: Store, accountId: number): Promise<number> {
  return (await store.listAttempts({ accountId, after: null, limit: 1, now: 0 })).next;
}

/** As all nodes have committed what a test has made. */
function list(
  store: Store,
  query: { readonly accountId: number; readonly after: number | null; readonly limit?: number },
): Promise<AttemptPage> {
  return store.listAttempts({ limit: 100, now: T0, ...query });
}

export function exerciseAttemptList(open: OpenStore): void {
  test("lists each attempt of an account once, in the order in which they were scheduled", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const begin = await beginOf(store, ada);
    await seedEnded(store, bob, { hosts: ["b.example"] });
    const [first] = await seedDue(store, ada, ["a.example"]);
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store)));
    const [second] = await seedEnded(store, ada, { hosts: ["c.example"] });
    await seedDue(store, bob, ["d.example"]);

    const { attempts } = await list(store, { accountId: ada, after: begin });
    const pages = [];
    for (let after = begin, isMore = true; isMore;) {
      const page = await list(store, { accountId: ada, after, limit: 1 });
      pages.push(...page.attempts);
      [after, isMore] = [page.next, page.hasMore];
    }

    assert.deepEqual(pluck(attempts, "taskId", "kind", "number", "startedAt"), [
      [first?.id, "postback", 1, T0 + 1000],
      [first?.id, "postback", 2, null],
      [second?.id, "postback", 1, T0 + 1000],
    ]);
    assert.deepEqual(pages, attempts);
  });

  test("lists what is scheduled where no place is given, soonest due first, and nothing of others", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await seedDue(store, bob, ["b.example"]);
    const [retried] = await seedDue(store, ada, ["a.example"]);
    await store.recordAttempt(newAttemptRecord(await claimAttempt(store)));
    await seedEnded(store, ada, { hosts: ["c.example"] });
    const [fresh] = await seedDue(store, ada, ["d.example"]);

    const page = await list(store, { accountId: ada, after: null });
    const soonest = await list(store, { accountId: ada, after: null, limit: 1 });

    assert.deepEqual(pluck(page.attempts, "taskId", "number"), [
      [fresh?.id, 1],
      [retried?.id, 2],
    ]);
    assert.deepEqual(soonest.attempts, page.attempts.slice(0, 1));
    const rest = await list(store, { accountId: ada, after: page.next });
    assert.deepEqual([rest.attempts, rest.hasMore], [[], false]);
  });

  test("finds an attempt again from the place before it, when it has started and when it has ended", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedDue(store, accountId, ["a.example", "b.example"]);
    const scheduled = await list(store, { accountId, after: null });
    const [first] = scheduled.attempts;
    assert.ok(first !== undefined);
    const again = () => list(store, { accountId, after: first.seq - 1, limit: 1 });

    assert.deepEqual((await again()).attempts, [first]);
    await endDue(store, ["a.example", "b.example"], {});
    assert.deepEqual((await again()).attempts, [{ ...first, startedAt: T0 + 1000 }]);
  });
}
