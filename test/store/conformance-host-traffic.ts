import assert from "node:assert/strict";
import { test } from "node:test";

import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import type { AttemptOutcome, DeliveryDecision } from "../../src/domain/webhook/delivery.ts";
import type { HostTraffic, Scope, Store } from "../../src/store/store.ts";
import {
  pluck,
  claimAttempt,
  newAttemptRecord,
  newAttemptResult,
  RETENTION_MS,
  seedAccount,
  seedDelivery,
  T0,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseHostTraffic(open: OpenStore): void {
  test("hosts are listed by lost deliveries, then by failed attempts", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store);
    await send(store, ada, { host: "good.example", outcome: "delivered" });
    await send(store, ada, { host: "busy.example", outcome: "delivered" });
    await send(store, ada, { host: "busy.example", outcome: "delivered" });
    for (const _ of [1, 2, 3]) await send(store, ada, { host: "bad.example", outcome: "failed" });
    await send(store, ada, { host: "worse.example", outcome: "refused" });
    await send(store, ada, { host: "again.example", outcome: "timed_out", isRetried: true });
    await send(store, ada, { host: "cut.example", outcome: "interrupted", isRetried: true });

    const hosts = await list(store, ada);

    // Two hosts have one refusal or one retry each, and no success.
    assert.deepEqual(hosts.map(summary), [
      ["bad.example", 3, 0, 3, 0, 0],
      ["again.example", 1, 0, 0, 0, 1],
      ["worse.example", 1, 0, 0, 1, 0],
      ["busy.example", 2, 2, 0, 0, 0],
      ["good.example", 1, 1, 0, 0, 0],
    ]);
    assert.deepEqual(hosts[0]?.durations, new Map([[12, 3]]));
  });

  test("hosts with failed deliveries are listed without recent attempts, unless only sent ones are wanted", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const lost = { host: "a.example", outcome: "failed" } as const;
    for (const accountId of [ada, bob, bob]) await send(store, accountId, lost);
    await send(store, ada, { ...lost, outcome: "refused" });
    const later = T0 + HOUR_MS;
    const failed = async (scope: Scope) => {
      const hosts = await list(store, scope, later);
      return pluck(hosts, "host", "givenUp", "refused");
    };

    assert.deepEqual(await failed(ada), [["a.example", 1, 1]]);
    assert.deepEqual(await failed(null), [["a.example", 3, 1]]);
    const query = { scope: ada, limit: 9, only: "sent" } as const;
    const { hosts } = await store.listHostTraffic({ ...query, since: T0 });
    assert.deepEqual(pluck(hosts, "host", "givenUp", "refused"), [["a.example", 1, 1]]);
    const none = { hosts: [], hasMore: false };
    assert.deepEqual(await store.listHostTraffic({ ...query, since: later }), none);
  });

  test("an erased account leaves no host of its own and no share in the counts of others", async (t) => {
    const { store } = await open(t);
    const names = ["ada", "bob", "eve"];
    const [ada = 0, bob = 0, eve = 0] = await Promise.all(
      names.map((name) => seedAccount(store, name)),
    );
    const sent = [
      ...[
        [ada, "own.example"],
        [ada, "all.example"],
        [bob, "all.example"],
        [bob, "all.example"],
      ],
      ...[
        [eve, "all.example"],
        [ada, "gone.example"],
        [eve, "gone.example"],
        [ada, "last.example"],
      ],
    ] as const;
    for (const [accountId, host] of sent) await send(store, accountId, { host, outcome: "failed" });
    await send(store, bob, { host: "last.example", outcome: "failed" });
    for (const login of ["ada", "eve"]) {
      await store.setAccountDisabled({ login, disabledAt: T0 });
      while ((await store.eraseAccountPart({ login })).kind === "more") continue;
    }

    const all = await list(store, null);

    assert.deepEqual(all.map(summary), (await list(store, bob)).map(summary));
    assert.deepEqual(
      all.map(({ host, attempts, durations }) => [host, attempts, [...durations.values()]]),
      [
        ["all.example", 2, [2]],
        ["last.example", 1, [1]],
      ],
    );
    // The failure of the erased task is gone, the last failure of others stays.
    assert.deepEqual(
      all.map(({ lastFailure }) => lastFailure !== null),
      [false, true],
    );
    await store.setAccountDisabled({ login: "bob", disabledAt: T0 });
    while ((await store.eraseAccountPart({ login: "bob" })).kind === "more") continue;
    assert.deepEqual(await list(store, null), []);
  });

  test("the last failure within the time is listed with its task until the task is erased", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const lost = { host: "a.example", outcome: "failed" } as const;
    await send(store, accountId, lost);
    const id = await send(store, accountId, { ...lost, at: T0 + 2000 });
    await send(store, accountId, { ...lost, outcome: "delivered", at: T0 + 3000 });

    const [host] = await list(store, accountId);
    assert.deepEqual(host?.lastFailure, {
      ...{ endedAt: T0 + 2050, error: "connection refused", httpStatus: null, taskId: id },
    });

    // The seq of the erased task is used again.
    while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 9 })).looked > 0) continue;
    const bob = await seedAccount(store, "bob");
    for (const _ of [1, 2, 3]) {
      await send(store, bob, { ...lost, host: "b.example", at: T0 + 2000 });
    }
    const [left] = await list(store, accountId);
    assert.deepEqual([left?.lastFailure?.endedAt, left?.lastFailure?.taskId], [T0 + 2050, null]);
    assert.deepEqual(await list(store, accountId, T0 + HOUR_MS), []);
  });

  test("the last failure is the last one recorded, also after one of a clock in the future", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const lost = { host: "a.example", outcome: "failed" } as const;
    await send(store, accountId, { ...lost, at: T0 + 1000 * HOUR_MS });
    const id = await send(store, accountId, { ...lost, at: T0 + 2000 });

    assert.equal((await list(store, accountId))[0]?.lastFailure?.taskId, id);
  });

  test("hosts are counted by the hour, and the list reports further hosts", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const [hour, host] of ["a.example", "b.example", "c.example", "a.example"].entries()) {
      await send(store, accountId, { host, outcome: "delivered", at: T0 + hour * HOUR_MS });
    }

    const since = T0 + HOUR_MS + 1;
    const page = await store.listHostTraffic({ scope: accountId, since, limit: 2 });
    const all = await store.listHostTraffic({ scope: accountId, since, limit: 3 });

    assert.deepEqual(all.hosts.map(summary), [
      ["a.example", 1, 1, 0, 0, 0],
      ["b.example", 1, 1, 0, 0, 0],
      ["c.example", 1, 1, 0, 0, 0],
    ]);
    assert.equal(all.hasMore, false);
    assert.deepEqual([page.hosts, page.hasMore], [all.hosts.slice(0, 2), true]);
  });
}

/** Makes a task of an account, and sends its postback; its attempt takes 50 ms. */
async function send(
  store: Store,
  accountId: number,
  {
    host,
    outcome,
    isRetried = false,
    at = T0 + 1000,
  }: { host: string; outcome: AttemptOutcome; isRetried?: boolean; at?: number },
): Promise<string> {
  const { id } = await seedDelivery(store, accountId, { host, dueAt: at });
  const attempt = await claimAttempt(store, host, at);
  const result = newAttemptResult({ outcome });
  const endedAt = at + 50;
  const retry = outcome === "interrupted" ? 0 : 1;
  const later: DeliveryDecision = { state: "scheduled", dueAt: at + 9 * HOUR_MS, retry };
  const state = outcome === "delivered" || outcome === "refused" ? outcome : "given_up";
  const decision: DeliveryDecision = isRetried ? later : { state };
  await store.recordAttempt(newAttemptRecord(attempt, { result, endedAt, decision }));
  return id;
}

async function list(store: Store, scope: Scope, since = T0): Promise<readonly HostTraffic[]> {
  const { hosts, hasMore } = await store.listHostTraffic({ scope, since, limit: 100 });
  assert.equal(hasMore, false);
  return hosts;
}

function summary(traffic: HostTraffic): readonly unknown[] {
  const { host, attempts, succeeded, givenUp, refused, retrying } = traffic;
  return [host, attempts, succeeded, givenUp, refused, retrying];
}
