import assert from "node:assert/strict";
import { test } from "node:test";

import { HOLDS_MAX } from "../../src/domain/webhook/delivery-hold.ts";
import type { HoldScope, NewDeliveryHold } from "../../src/store/store.ts";
import { seedAccount, seedDelivery, T0 } from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const EVERYTHING: HoldScope = { accountId: null, host: null };

function newHold(overrides: Partial<NewDeliveryHold> = {}): NewDeliveryHold {
  return { ...EVERYTHING, since: T0, reason: null, heldBy: "root", ...overrides };
}

/** The part of the conformance suite that is about webhooks that the operator holds. */
export function exerciseDeliveryHolds(open: OpenStore): void {
  test("what is held is known to every process, with its reason, until exactly that is released", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const accountId = await seedAccount(store, "ada");
    const lane = { accountId, host: "a.example" };

    assert.equal(await store.holdDeliveries(newHold({ reason: "a rehearsal" })), "held");
    assert.equal(await store.holdDeliveries(newHold({ ...lane, since: T0 + 1 })), "held");

    const everything = { ...newHold({ reason: "a rehearsal" }), login: null };
    const ofLane = { ...newHold({ ...lane, since: T0 + 1 }), login: "ada" };
    assert.deepEqual(await other.listDeliveryHolds(), [everything, ofLane]);
    assert.equal(await other.releaseDeliveries({ accountId, host: null }), false);
    assert.equal(await other.releaseDeliveries({ accountId: null, host: "a.example" }), false);
    assert.equal(await other.releaseDeliveries(EVERYTHING), true);
    assert.equal(await other.releaseDeliveries(EVERYTHING), false);
    assert.deepEqual(await store.listDeliveryHolds(), [ofLane]);
  });

  test("the same is held once, since the first time", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const scopes = [
      EVERYTHING,
      { accountId, host: null },
      { accountId: null, host: "a.example" },
      { accountId, host: "a.example" },
    ];
    for (const scope of scopes) {
      assert.equal(await store.holdDeliveries(newHold(scope)), "held");
      assert.equal(
        await store.holdDeliveries(newHold({ ...scope, since: T0 + 9, reason: "again" })),
        "held already",
      );
    }

    const holds = await store.listDeliveryHolds();
    assert.deepEqual(
      holds.map(({ since, reason }) => [since, reason]),
      scopes.map(() => [T0, null]),
    );
  });

  test("there is a limit to the number of holds, which is no hindrance to those that are there", async (t) => {
    const { store } = await open(t);
    const holds = Array.from({ length: HOLDS_MAX }, (_, i) => newHold({ host: `h${i}.example` }));
    await Promise.all(holds.map((hold) => store.holdDeliveries(hold)));

    assert.equal(await store.holdDeliveries(newHold()), "too many");
    assert.equal(await store.holdDeliveries(newHold({ host: "h0.example" })), "held already");
    assert.equal((await store.listDeliveryHolds()).length, HOLDS_MAX);
  });

  test("counts what is scheduled in all lanes, in those of a host, of an account, and in one", async (t) => {
    const { store } = await open(t);
    const [ada, bob] = [await seedAccount(store, "ada"), await seedAccount(store, "bob")];
    await seedDelivery(store, ada, { host: "a.example" });
    await seedDelivery(store, ada, { host: "b.example" });
    await seedDelivery(store, bob, { host: "a.example" });
    await store.holdDeliveries(newHold());

    const counted = [
      EVERYTHING,
      { accountId: null, host: "a.example" },
      { accountId: ada, host: null },
      { accountId: ada, host: "b.example" },
      { accountId: bob, host: "b.example" },
    ].map((scope) => store.countScheduled(scope));

    assert.deepEqual(await Promise.all(counted), [3, 2, 2, 1, 0]);
  });

  test("the holds of an account end with it", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store, "ada");
    await store.holdDeliveries(newHold({ accountId }));
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
    while ((await store.eraseAccountPart({ login: "ada" })).kind === "more");

    assert.deepEqual(await store.listDeliveryHolds(), []);
  });
}
