import assert from "node:assert/strict";
import { test } from "node:test";

import { PAUSES_MAX } from "../../src/domain/webhook/delivery-pause.ts";
import type { PauseScope, NewDeliveryPause } from "../../src/store/store.ts";
import {
  seedAccount,
  seedDelivery,
  T0,
  pluck,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const EVERYTHING: PauseScope = { accountId: null, host: null };

function newPause(overrides: Partial<NewDeliveryPause> = {}): NewDeliveryPause {
  return { ...EVERYTHING, since: T0, reason: null, pausedBy: "root", ...overrides };
}

export function exerciseDeliveryPauses(open: OpenStore): void {
  test("every process lists a pause with its reason until its own scope is resumed", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const accountId = await seedAccount(store, "ada");
    const lane = { accountId, host: "a.example" };

    assert.equal(await store.pauseDeliveries(newPause({ reason: "a rehearsal" })), "paused");
    assert.equal(await store.pauseDeliveries(newPause({ ...lane, since: T0 + 1 })), "paused");

    const everything = { ...newPause({ reason: "a rehearsal" }), login: null };
    const ofLane = { ...newPause({ ...lane, since: T0 + 1 }), login: "ada" };
    assert.deepEqual(await other.listDeliveryPauses(), [everything, ofLane]);
    assert.equal(await other.resumeDeliveries({ accountId, host: null }), false);
    assert.equal(await other.resumeDeliveries({ accountId: null, host: "a.example" }), false);
    assert.equal(await other.resumeDeliveries(EVERYTHING), true);
    assert.equal(await other.resumeDeliveries(EVERYTHING), false);
    assert.deepEqual(await store.listDeliveryPauses(), [ofLane]);
  });

  test("a scope is paused once and keeps its first time", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const scopes = [
      EVERYTHING,
      { accountId, host: null },
      { accountId: null, host: "a.example" },
      { accountId, host: "a.example" },
    ];
    for (const scope of scopes) {
      assert.equal(await store.pauseDeliveries(newPause(scope)), "paused");
      assert.equal(
        await store.pauseDeliveries(newPause({ ...scope, since: T0 + 9, reason: "again" })),
        "paused already",
      );
    }

    const pauses = await store.listDeliveryPauses();
    assert.deepEqual(
      pluck(pauses, "since", "reason"),
      scopes.map(() => [T0, null]),
    );
  });

  test("the number of pauses has a limit, and existing pauses stay", async (t) => {
    const { store } = await open(t);
    const pauses = Array.from({ length: PAUSES_MAX }, (_, i) =>
      newPause({ host: `h${i}.example` }),
    );
    await Promise.all(pauses.map((pause) => store.pauseDeliveries(pause)));

    assert.equal(await store.pauseDeliveries(newPause()), "too many");
    assert.equal(await store.pauseDeliveries(newPause({ host: "h0.example" })), "paused already");
    assert.equal((await store.listDeliveryPauses()).length, PAUSES_MAX);
  });

  test("scheduled attempts are counted for all lanes, a host, an account and one lane", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await seedDelivery(store, ada, { host: "a.example" });
    await seedDelivery(store, ada, { host: "b.example" });
    await seedDelivery(store, bob, { host: "a.example" });
    await store.pauseDeliveries(newPause());

    const counted = [
      EVERYTHING,
      { accountId: null, host: "a.example" },
      { accountId: ada, host: null },
      { accountId: ada, host: "b.example" },
      { accountId: bob, host: "b.example" },
    ].map((scope) => store.countScheduled(scope));

    assert.deepEqual(await Promise.all(counted), [3, 2, 2, 1, 0]);
  });

  test("the pauses of an account end with it", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store, "ada");
    await store.pauseDeliveries(newPause({ accountId }));
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 });
    while ((await store.eraseAccountPart({ login: "ada" })).kind === "more");

    assert.deepEqual(await store.listDeliveryPauses(), []);
  });
}
