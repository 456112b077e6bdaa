import assert from "node:assert/strict";
import { test } from "node:test";

import type { NewSession, Store } from "../../src/store/store.ts";
import {
  NO_OWN_LIMITS,
  T0,
  leaseOne,
  newAccount,
  newKeyToStore,
  newPost,
  newStale,
  newTask,
  newWorker,
  pluck,
  seedWorker,
  withAccount,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

let made = 0;

/** A session of the operator. */
function newSession(overrides: Partial<NewSession> = {}): NewSession {
  return { hash: `hash-${++made}`, keyId: null, createdAt: T0, sessionsMax: 10, ...overrides };
}

async function seedKey(store: Store, login = "ada"): Promise<string> {
  const firstKey = newKeyToStore();
  assert.equal(await store.createAccount(newAccount({ login, firstKey })), "created");
  return firstKey.keyId;
}

export function exerciseSessions(open: OpenStore): void {
  test("sessions of a key and of the operator are found by their hashes", async (t) => {
    const { store, again } = await open(t);
    const keyId = await seedKey(store);
    const [account, operator] = [newSession({ keyId }), newSession({ createdAt: T0 + 1 })];

    assert.equal(await store.createSession(account), "created");
    assert.equal(await store.createSession(operator), "created");

    for (const each of [store, await again()]) {
      const found = await each.findSession(account.hash);
      assert.deepEqual(found, {
        sessionId: found?.sessionId,
        holder: {
          ...{ accountId: found?.holder?.accountId, login: "ada", keyId },
          ownLimits: NO_OWN_LIMITS,
        },
        createdAt: T0,
        lastSeenAt: T0,
      });
      const theirs = await each.findSession(operator.hash);
      assert.equal(theirs?.holder, null);
      assert.equal(theirs.createdAt, T0 + 1);
      assert.deepEqual([await each.findSession("hash-"), await each.findSession("")], [null, null]);
    }
  });

  test("a session of an unknown, revoked or disabled key is refused", async (t) => {
    const { store } = await open(t);
    const revoked = await seedKey(store);
    const disabled = await seedKey(store, "bob");
    await store.revokeKey({ keyId: revoked, accountId: null, revokedAt: T0 });
    await store.setAccountDisabled({ login: "bob", disabledAt: T0 });
    for (const keyId of [revoked, disabled, "key_x", ""]) {
      const session = newSession({ keyId });
      assert.equal(await store.createSession(session), "refused");
      assert.equal(await store.findSession(session.hash), null);
    }
  });

  test("a revoked key is erased after its time and after its sessions", async (t) => {
    const { store } = await open(t);
    const [used, unused, late, active] = await Promise.all(
      [1, 2, 3, 4].map(async (n) => seedKey(store, `account ${n}`)),
    );
    assert(used !== undefined && unused !== undefined && late !== undefined);
    const session = newSession({ keyId: used, createdAt: T0 });
    await store.createSession(session);
    for (const [i, keyId] of [used, unused, late].entries()) {
      await store.revokeKey({ keyId, accountId: null, revokedAt: T0 + i });
    }
    const left = async (): Promise<readonly (string | undefined)[]> => {
      const lists = await Promise.all([1, 2, 3, 4].map((n) => store.listKeys(`account ${n}`)));
      const ids = new Set(lists.flatMap((keys) => (keys ?? []).map(({ keyId }) => keyId)));
      return [used, unused, late, active].filter((keyId) => keyId !== undefined && ids.has(keyId));
    };

    assert.equal(await store.eraseStale(newStale({ decidedBefore: T0 + 2 })), 1);
    assert.deepEqual(await left(), [used, late, active]);
    await store.eraseStale(newStale({ sessionsBefore: T0 + 1, decidedBefore: 0 }));
    assert.equal(await store.eraseStale(newStale({ decidedBefore: T0 + 2 })), 1);
    assert.deepEqual(await left(), [late, active]);
    assert.equal(await store.eraseStale(newStale({ recordsAfter: T0 + 1 })), 1);
    assert.deepEqual(await left(), [active]);
  });

  test("a revoked key or a disabled account ends its sessions in every process for ever", async (t) => {
    const { store, again } = await open(t);
    const second = await again();
    const keys = [
      await seedKey(store),
      await seedKey(store, "bob"),
      await seedKey(store, "eve"),
      null,
    ];
    const sessions = keys.map((keyId) => newSession({ keyId }));
    for (const each of sessions) await store.createSession(each);
    const areOpen = async () => {
      const found = await Promise.all(sessions.map(({ hash }) => store.findSession(hash)));
      return found.map((each) => each !== null);
    };

    await second.revokeKey({ keyId: keys[0] ?? "", accountId: null, revokedAt: T0 + 1 });
    assert.deepEqual(await areOpen(), [false, true, true, true]);
    await second.setAccountDisabled({ login: "bob", disabledAt: T0 + 1 });
    assert.deepEqual(await areOpen(), [false, false, true, true]);
    await second.setAccountDisabled({ login: "bob", disabledAt: null });
    assert.deepEqual(await areOpen(), [false, false, true, true]);
  });

  test("sign-ins at two processes end the oldest sessions beyond the limit of their key or of the operator", async (t) => {
    const { store, again } = await open(t);
    const stores = [store, await again()];
    const keyId = await seedKey(store);
    const otherKey = await seedKey(store, "bob");
    for (const owner of [keyId, null]) {
      const bystander = newSession({ keyId: otherKey, sessionsMax: 3 });
      await store.createSession(bystander);
      const sessions = Array.from({ length: 15 }, () =>
        newSession({ keyId: owner, sessionsMax: 3 }),
      );
      const create = (from: number, to?: number) =>
        Promise.all(
          sessions.slice(from, to).map((each, i) => (stores[i % 2] ?? store).createSession(each)),
        );
      await create(0, 10);
      for (let i = 10; i < 15; i++) assert.deepEqual(await create(i, i + 1), ["created"]);

      const found = await Promise.all(sessions.map(({ hash }) => store.findSession(hash)));
      const open = found.map((each) => each !== null);
      assert.deepEqual(open, [...Array<boolean>(12).fill(false), true, true, true]);
      assert.notEqual(await store.findSession(bystander.hash), null);
    }
  });

  test("the last use of a session never goes back", async (t) => {
    const { store } = await open(t);
    const session = newSession();
    await store.createSession(session);
    const sessionId = (await store.findSession(session.hash))?.sessionId ?? -1;
    const unknown = { sessionId: 12_345, seenAt: T0 + 9 };
    for (const ms of [5, 4]) {
      await store.touchSessions([{ sessionId, seenAt: T0 + ms }, unknown]);
      assert.equal((await store.findSession(session.hash))?.lastSeenAt, T0 + 5);
    }
  });

  test("a session ends once", async (t) => {
    const { store } = await open(t);
    const [ended, other] = [newSession(), newSession()];
    for (const each of [ended, other]) await store.createSession(each);
    await store.endSession(ended.hash);
    await store.endSession(ended.hash);
    await store.endSession("hash-x");
    assert.equal(await store.findSession(ended.hash), null);
    assert.notEqual(await store.findSession(other.hash), null);
  });

  test("one of concurrent uses of a sign-in link opens a session", async (t) => {
    const { store, again } = await open(t);
    const second = await again();
    const link = { hash: "link-1", expiresAt: T0 + 10 };
    await store.createSignInLink(link);
    const use = (by: Store, session: NewSession, now = T0) =>
      by.useSignInLink({ hash: link.hash, now, session });

    const sessions = Array.from({ length: 10 }, () => newSession());
    const outcomes = await Promise.all(
      sessions.map((session, i) => use(i % 2 === 0 ? store : second, session)),
    );

    assert.deepEqual(outcomes.toSorted(), ["created", ...Array(9).fill("refused")]);
    for (const [i, { hash }] of sessions.entries()) {
      const isOpen = (await store.findSession(hash)) !== null;
      assert.equal(isOpen, outcomes[i] === "created");
    }
    assert.equal(await use(store, newSession()), "refused");
  });

  test("an unknown or expired sign-in link opens no session", async (t) => {
    const { store } = await open(t);
    await store.createSignInLink({ hash: "link-1", expiresAt: T0 + 10 });
    const late = { hash: "link-1", now: T0 + 10, session: newSession() };

    assert.equal(await store.useSignInLink(late), "refused");
    assert.equal(
      await store.useSignInLink({ hash: "link-2", now: T0, session: newSession() }),
      "refused",
    );
    assert.equal(await store.findSession(late.session.hash), null);
    assert.equal(
      await store.useSignInLink({ hash: "link-1", now: T0 + 9, session: newSession() }),
      "created",
    );
  });
}

export function exerciseWorkers(open: OpenStore): void {
  test("a worker is found by the hash of its token", async (t) => {
    const { store } = await open(t);
    const worker = newWorker({ name: "resizer", types: ["b", "a", "b c"] });

    assert.equal(await store.createWorker(worker), "created");

    const holder = await store.findWorkerHolder(worker.hash);
    assert.deepEqual(holder, {
      workerId: holder?.workerId,
      name: "resizer",
      types: ["b", "a", "b c"],
      isRevoked: false,
    });
    assert.equal(await store.findWorkerHolder(newWorker().hash), null);
    assert.equal(await store.findWorkerHolder("resizer"), null);
    assert.equal(await store.findWorkerHolder(""), null);
  });

  test("a name has one active worker, and is free after a revocation", async (t) => {
    const { store } = await open(t);
    const [first, second, third] = [newWorker(), newWorker({ createdAt: T0 + 1 }), newWorker()];
    assert.equal(await store.createWorker(first), "created");
    assert.equal(await store.createWorker(second), "exists");
    assert.equal(await store.findWorkerHolder(second.hash), null);
    await store.revokeWorker({ name: "w", revokedAt: T0 + 5 });
    assert.equal(await store.createWorker(second), "created");
    assert.equal(await store.createWorker(third), "exists");
    assert.equal((await store.findWorkerHolder(first.hash))?.isRevoked, true);
    assert.equal((await store.findWorkerHolder(second.hash))?.isRevoked, false);
  });

  test("a revocation is visible immediately, also in the turn of an earlier read", async (t) => {
    const { store } = await open(t);
    const worker = newWorker();
    await store.createWorker(worker);
    const before = store.findWorkerHolder(worker.hash);
    const revoked = store.revokeWorker({ name: "w", revokedAt: T0 + 5 });
    // PostgreSQL may run the read after the change.
    assert.equal((await before)?.name, "w");
    const { hash: _, ...shown } = worker;
    const workerId = (await store.findWorkerHolder(worker.hash))?.workerId;
    const expected = { ...shown, workerId, lastSeenAt: null, revokedAt: T0 + 5, leases: 0 };
    assert.deepEqual(await revoked, expected);
    assert.equal((await store.findWorkerHolder(worker.hash))?.isRevoked, true);
  });

  test("a second revocation returns the worker of the last one, with its time", async (t) => {
    const { store } = await open(t);
    for (const [i, lastFour] of ["aaaa", "bbbb"].entries()) {
      await store.createWorker(newWorker({ lastFour }));
      // The clock was set back meanwhile.
      await store.revokeWorker({ name: "w", revokedAt: T0 + 9 - i });
    }
    const again = await store.revokeWorker({ name: "w", revokedAt: T0 + 99 });
    assert.equal(again?.lastFour, "bbbb");
    assert.equal(again.revokedAt, T0 + 8);
    assert.equal(await store.revokeWorker({ name: "W", revokedAt: T0 }), null);
  });

  test("workers are listed by name, revoked workers newest first, with their leases", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const lastFour of ["old1", "old2"]) {
      await store.createWorker(newWorker({ name: "b", lastFour }));
      await store.revokeWorker({ name: "b", revokedAt: T0 + 1 });
    }
    const [b, a] = [await seedWorker(store, "b"), await seedWorker(store, "a")];
    for (const workerId of [b, b, a]) {
      await store.insertTasks(newPost(accountId, [newTask()]));
      await leaseOne(store, workerId);
    }
    await store.insertTasks(newPost(accountId, [newTask()]));
    const ended = await leaseOne(store, a);
    const sequel = { kind: "requeue", isRunCounted: false } as const;
    const ends = [{ ...ended, how: "released", sequel }] as const;
    await store.endLeases({ ends, workerId: a, now: T0 });

    const listed = await store.listWorkers();

    assert.deepEqual(pluck(listed, "name", "lastFour", "leases", "revokedAt"), [
      ["a", "wxyz", 1, null],
      ["b", "wxyz", 2, null],
      ["b", "old2", 0, T0 + 1],
      ["b", "old1", 0, T0 + 1],
    ]);
    assert.deepEqual(listed[0]?.types, ["echo"]);
  });

  test("the last request of a worker never goes back", async (t) => {
    const { store } = await open(t);
    const [a, b] = [await seedWorker(store, "a"), await seedWorker(store, "b")];
    const seen = async () => pluck(await store.listWorkers(), "lastSeenAt");

    assert.deepEqual(await seen(), [null, null]);
    await store.touchWorkers([
      { workerId: a, seenAt: T0 + 5 },
      { workerId: 99_999, seenAt: T0 + 5 },
    ]);
    await store.touchWorkers([
      { workerId: a, seenAt: T0 + 4 },
      { workerId: b, seenAt: T0 + 7 },
    ]);

    assert.deepEqual(await seen(), [T0 + 5, T0 + 7]);
  });
}
