import assert from "node:assert/strict";
import { test } from "node:test";

import type { Lane } from "../../src/store/store.ts";
import {
  claimAttempt,
  newAttemptRecord,
  seedAccount,
  seedDelivery,
  T0,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const DUE = T0 + 1000;
// The account that a test makes first.
const FIRST = 1;

/** A lane of that account without anything due. */
export function lane(overrides: Partial<Lane> = {}): Lane {
  return { accountId: FIRST, host: "a.example", freshDueAt: null, retryDueAt: null, ...overrides };
}

/** The part of the conformance suite that is about which lanes there are, and when something of them is due. */
export function exerciseLanes(open: OpenStore): void {
  test("lists the lanes of which something became due in an interval, a first attempt or a retry", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const bob = await seedAccount(store, "bob");
    await seedDelivery(store, accountId, { host: "retry.example" });
    const attempt = await claimAttempt(store, "retry.example");
    const decision = { state: "scheduled", dueAt: DUE + 800, retry: 1 } as const;
    await store.recordAttempt(newAttemptRecord(attempt, { decision }));
    for (const dueAt of [DUE + 900, DUE + 600, DUE + 5000]) {
      await seedDelivery(store, accountId, { host: "first.example", dueAt });
    }
    await seedDelivery(store, accountId, { host: "later.example", dueAt: DUE + 1001 });
    await seedDelivery(store, bob, { host: "held.example", dueAt: DUE + 700 });
    await store.setAccountDisabled({ login: "bob", disabledAt: T0 });

    const due = await store.listDueLanes({ since: DUE + 500, until: DUE + 1000 });

    assert.deepEqual(
      due.toSorted((x, y) => x.host.localeCompare(y.host)),
      [
        lane({ host: "first.example", freshDueAt: DUE + 600 }),
        lane({ host: "retry.example", retryDueAt: DUE + 800 }),
      ],
    );
    assert.deepEqual(await store.listDueLanes({ since: DUE, until: DUE + 100 }), []);
  });

  test("lists lanes of several accounts and hosts apart, each with its first attempts and its retries", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    for (const [accountId, host] of [
      [ada, "a.example"],
      [ada, "b.example"],
      [bob, "b.example"],
    ] as const) {
      for (const retry of [1, 2]) {
        await seedDelivery(store, accountId, { host });
        const attempt = await claimAttempt(store, host);
        const decision = { state: "scheduled", dueAt: DUE + accountId + retry, retry } as const;
        await store.recordAttempt(newAttemptRecord(attempt, { decision }));
      }
    }
    await seedDelivery(store, ada, { host: "b.example", dueAt: DUE + 9 });
    await seedDelivery(store, bob, { host: "c.example", dueAt: DUE + 8 });
    const [retryOfAda, retryOfBob] = [DUE + ada + 1, DUE + bob + 1];
    const lanesOfBob = [
      lane({ accountId: bob, host: "b.example", retryDueAt: retryOfBob }),
      lane({ accountId: bob, host: "c.example", freshDueAt: DUE + 8 }),
    ];
    const byPlace = (of: readonly Lane[]) =>
      of.toSorted((x, y) => x.accountId - y.accountId || x.host.localeCompare(y.host));

    assert.deepEqual(byPlace(await store.listLanes({ accountId: bob })), lanesOfBob);
    assert.deepEqual(byPlace(await store.listLanes({ accountId: "all" })), [
      lane({ accountId: ada, retryDueAt: retryOfAda }),
      lane({ accountId: ada, host: "b.example", freshDueAt: DUE + 9, retryDueAt: retryOfAda }),
      ...lanesOfBob,
    ]);
  });
}
