import assert from "node:assert/strict";
import { test } from "node:test";

import type { Store } from "../../src/store/store.ts";
import {
  NO_OWN_LIMITS,
  claimAttempt,
  newAccount,
  newKeyToStore,
  newPost,
  newTask,
  seedAccount,
  seedDelivery,
  T0,
  pluck,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** The part of the conformance suite that is about accounts and their keys. */
export function exerciseAccounts(open: OpenStore): void {
  test("makes an account with its first key, and both are there at once", async (t) => {
    const { store } = await open(t);
    const firstKey = newKeyToStore({ label: "first", lastFour: "abcd" });
    const account = newAccount({ login: "ada@example", webhookSecret: "whsec_a", firstKey });

    assert.equal(await store.createAccount(account), "created");

    const holder = await store.findKeyHolder(firstKey.hash);
    assert.deepEqual(holder, {
      accountId: holder?.accountId,
      login: "ada@example",
      keyId: firstKey.keyId,
      keyRevoked: false,
      accountDisabled: false,
      ownLimits: NO_OWN_LIMITS,
    });
    assert.deepEqual(await store.listKeys("ada@example"), [
      {
        keyId: firstKey.keyId,
        lastFour: "abcd",
        label: "first",
        createdAt: T0,
        lastUsedAt: null,
        revokedAt: null,
      },
    ]);
  });

  test("tells how an account is, by its login alone", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store, "ada");
    const fresh = {
      ...{ accountId, login: "ada", createdAt: T0, disabledAt: null, isRotating: false },
      ownLimits: NO_OWN_LIMITS,
    };
    assert.deepEqual(await store.findAccount("ada"), fresh);
    await store.rotateSecret({ login: "ada", next: "whsec_n" });
    await store.setAccountDisabled({ login: "ada", disabledAt: T0 + 5 });
    const changed = { ...fresh, isRotating: true, disabledAt: T0 + 5 };
    assert.deepEqual(await store.findAccount("ada"), changed);
    await store.finishRotation({ login: "ada" });
    assert.equal((await store.findAccount("ada"))?.isRotating, false);
    for (const login of ["", "Ada", "ad", "ada ", "a%"]) {
      assert.equal(await store.findAccount(login), null);
    }
  });

  test("leaves a taken login as it was, and does not store the second key", async (t) => {
    const { store } = await open(t);
    const [first, second] = [newKeyToStore(), newKeyToStore()];
    await store.createAccount(newAccount({ firstKey: first, webhookSecret: "whsec_1" }));

    const again = newAccount({ firstKey: second, webhookSecret: "whsec_2", createdAt: T0 + 1 });
    assert.equal(await store.createAccount(again), "exists");

    assert.notEqual(await store.findKeyHolder(first.hash), null);
    assert.equal((await store.findSecrets("ada"))?.webhookSecret, "whsec_1");
    assert.equal(await store.findKeyHolder(second.hash), null);
    assert.equal((await store.listAccounts())[0]?.createdAt, T0);
  });

  test("makes no account when its key cannot be stored", async (t) => {
    const { store } = await open(t);
    const firstKey = newKeyToStore();
    await store.createAccount(newAccount({ login: "ada", firstKey }));

    await assert.rejects(store.createAccount(newAccount({ login: "bob", firstKey })));

    assert.deepEqual(pluck(await store.listAccounts(), "login"), ["ada"]);
  });

  test("compares logins exactly and lists accounts by login", async (t) => {
    const { store } = await open(t);
    for (const login of ["bob", "Ada", "ada", "carol"]) await seedAccount(store, login);

    const logins = pluck(await store.listAccounts(), "login");

    assert.deepEqual(logins, ["Ada", "ada", "bob", "carol"]);
    assert.equal(await store.listKeys("BOB"), null);
  });

  test("keeps the first time of a disabling, and forgets it with the enabling", async (t) => {
    const { store } = await open(t);
    const account = newAccount();
    await store.createAccount(account);
    const isDisabled = async (): Promise<boolean | undefined> =>
      (await store.findKeyHolder(account.firstKey.hash))?.accountDisabled;
    const disable = (disabledAt: number | null) =>
      store.setAccountDisabled({ login: "ada", disabledAt });

    assert.deepEqual(await disable(T0 + 1), { login: "ada", createdAt: T0, disabledAt: T0 + 1 });
    assert.equal((await disable(T0 + 2))?.disabledAt, T0 + 1);
    assert.equal(await isDisabled(), true);
    assert.equal((await disable(null))?.disabledAt, null);
    assert.equal(await isDisabled(), false);
    assert.equal((await disable(T0 + 3))?.disabledAt, T0 + 3);
    assert.equal(await store.setAccountDisabled({ login: "nobody", disabledAt: T0 }), null);
  });

  test("lists an account's keys oldest first, and none of another account", async (t) => {
    const { store } = await open(t);
    await seedAccount(store, "ada");
    await seedAccount(store, "bob");
    const keys = ["b", "c", "a"].map((label) => newKeyToStore({ label }));
    for (const key of keys) {
      await store.createKey({ ...key, login: "ada", createdAt: T0, activeMax: 20 });
    }

    const labels = pluck(await store.listKeys("ada"), "label");

    assert.deepEqual(labels, [null, "b", "c", "a"]);
    assert.equal((await store.listKeys("bob"))?.length, 1);
    assert.equal(await store.listKeys("nobody"), null);
  });

  test("50 keys made at once by two processes leave the allowed number of active keys", async (t) => {
    const { store, again } = await withAccount(open(t));
    const stores = [store, await again()];
    const create = (i: number) =>
      stores[i % 2]?.createKey({ ...newKeyToStore(), login: "ada", createdAt: T0, activeMax: 20 });

    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => create(i)));

    assert.equal(outcomes.filter((outcome) => outcome === "created").length, 19);
    assert.equal(outcomes.filter((outcome) => outcome === "limit reached").length, 31);
    assert.equal((await store.listKeys("ada"))?.length, 20);
  });

  test("counts only an account's own active keys against the limit", async (t) => {
    const { store } = await open(t);
    await seedAccount(store, "ada");
    await seedAccount(store, "bob");
    const create = (login: string, key = newKeyToStore()) =>
      store.createKey({ ...key, login, createdAt: T0, activeMax: 2 });
    const second = newKeyToStore();

    assert.equal(await create("ada", second), "created");
    assert.equal(await create("ada"), "limit reached");
    assert.equal(await create("bob"), "created");
    await store.revokeKey({ keyId: second.keyId, accountId: null, revokedAt: T0 });
    assert.equal(await create("ada"), "created");
    assert.equal(await create("ada"), "limit reached");
    assert.equal(await create("nobody"), "no account");
  });

  test("keeps the first time of a revocation, which the next look at the key sees", async (t) => {
    const { store } = await open(t);
    const account = newAccount();
    await store.createAccount(account);
    const { hash, keyId } = account.firstKey;

    assert.equal(
      (await store.revokeKey({ keyId, accountId: null, revokedAt: T0 + 5 }))?.revokedAt,
      T0 + 5,
    );
    assert.equal((await store.findKeyHolder(hash))?.keyRevoked, true);
    assert.equal(
      (await store.revokeKey({ keyId, accountId: null, revokedAt: T0 + 9 }))?.revokedAt,
      T0 + 5,
    );
    assert.equal((await store.listKeys("ada"))?.[0]?.revokedAt, T0 + 5);
    assert.equal(
      await store.revokeKey({ keyId: "key_unknown", accountId: null, revokedAt: T0 }),
      null,
    );
    assert.equal(await store.findKeyHolder("unknown"), null);
  });

  test("sees a revocation once it is acknowledged, however often it looks meanwhile", async (t) => {
    const { store } = await open(t);
    const account = newAccount();
    await store.createAccount(account);
    const { hash, keyId } = account.firstKey;
    let isOver = false;
    const look = (): void => {
      if (isOver) return;
      void store.findKeyHolder(hash);
      setImmediate(look);
    };
    look();

    await store.revokeKey({ keyId, accountId: null, revokedAt: T0 });
    isOver = true;

    assert.equal((await store.findKeyHolder(hash))?.keyRevoked, true);
  });

  test("sees at once what another store on the same data has committed", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const account = newAccount();
    const { hash, keyId } = account.firstKey;

    await other.createAccount(account);
    assert.equal((await store.findKeyHolder(hash))?.keyRevoked, false);
    await other.revokeKey({ keyId, accountId: null, revokedAt: T0 });
    assert.equal((await store.findKeyHolder(hash))?.keyRevoked, true);
    await other.setAccountDisabled({ login: "ada", disabledAt: T0 });
    assert.equal((await store.findKeyHolder(hash))?.accountDisabled, true);
  });

  test("revokes a key for its own account only, and any for the operator", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const keyId = (await store.listKeys("bob"))?.[0]?.keyId ?? "";
    const revoke = (accountId: number | null, revokedAt: number) =>
      store.revokeKey({ keyId, accountId, revokedAt });

    assert.equal(await revoke(ada, T0 + 1), null);
    assert.equal((await store.listKeys("bob"))?.[0]?.revokedAt, null);
    assert.equal((await revoke(bob, T0 + 2))?.revokedAt, T0 + 2);
    assert.equal(await revoke(ada, T0 + 3), null);
    assert.equal((await revoke(null, T0 + 4))?.revokedAt, T0 + 2);
  });

  test("notes the last use of each key, and never an earlier one over a later one", async (t) => {
    const { store } = await open(t);
    const accounts = ["ada", "bob", "carol"].map((login) => newAccount({ login }));
    for (const account of accounts) await store.createAccount(account);
    const [ada, bob] = accounts.map(({ firstKey }) => firstKey.keyId);
    assert(ada !== undefined && bob !== undefined);
    const uses = async () =>
      Promise.all(
        accounts.map(async ({ login }) => (await store.listKeys(login))?.[0]?.lastUsedAt),
      );

    await store.touchKeys([]);
    assert.deepEqual(await uses(), [null, null, null]);
    await store.touchKeys([
      { keyId: ada, usedAt: T0 + 20 },
      { keyId: "key_unknown", usedAt: T0 },
      { keyId: bob, usedAt: T0 + 5 },
    ]);
    assert.deepEqual(await uses(), [T0 + 20, T0 + 5, null]);
    await store.touchKeys([
      { keyId: ada, usedAt: T0 + 19 },
      { keyId: bob, usedAt: T0 + 6 },
    ]);
    assert.deepEqual(await uses(), [T0 + 20, T0 + 6, null]);
  });
}

/** The part of the conformance suite that is about what user_data shows. */
export function exerciseAccountData(open: OpenStore): void {
  async function addKeys(store: Store, labels: readonly string[]): Promise<void> {
    for (const label of labels) {
      const key = newKeyToStore({ label, keyId: `key_${label}` });
      await store.createKey({ ...key, login: "ada", createdAt: T0, activeMax: 20 });
    }
  }

  const labelsOf = async (store: Store, accountId: number, revokedMax: number) =>
    (await store.findAccountData({ accountId, revokedMax }))?.keys.map(({ label }) => label);

  test("shows all of an account's data, and nothing of another's", async (t) => {
    const { store } = await open(t);
    const account = newAccount({ webhookSecret: "whsec_1" });
    await store.createAccount(account);
    const accountId = (await store.findKeyHolder(account.firstKey.hash))?.accountId ?? 0;
    const bob = await seedAccount(store, "bob");
    await store.insertTasks(newPost(bob, [newTask()]));
    await store.rotateSecret({ login: "ada", next: "whsec_2" });
    await store.touchKeys([{ keyId: account.firstKey.keyId, usedAt: T0 + 3 }]);

    assert.deepEqual(await store.findAccountData({ accountId, revokedMax: 10 }), {
      login: "ada",
      webhookSecret: "whsec_1",
      webhookSecretNext: "whsec_2",
      keys: [
        {
          keyId: account.firstKey.keyId,
          lastFour: "wxyz",
          label: null,
          createdAt: T0,
          lastUsedAt: T0 + 3,
          revokedAt: null,
        },
      ],
      taskCounts: { queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0 },
      usage: { bytes: 0, openTasks: 0 },
    });
    assert.equal(await store.findAccountData({ accountId: bob + 99, revokedMax: 10 }), null);
  });

  test("shows all active keys and the most recently revoked ones, oldest first", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await addKeys(store, ["a", "b", "c", "d", "e"]);
    // By the time of their revocation, not by their own: b is the oldest of them and revoked last.
    for (const [label, revokedAt] of [
      ["b", T0 + 30],
      ["d", T0 + 10],
      ["e", T0 + 20],
    ] as const) {
      await store.revokeKey({ keyId: `key_${label}`, accountId, revokedAt });
    }

    assert.deepEqual(await labelsOf(store, accountId, 10), [null, "a", "b", "c", "d", "e"]);
    assert.deepEqual(await labelsOf(store, accountId, 2), [null, "a", "b", "c", "e"]);
    assert.deepEqual(await labelsOf(store, accountId, 1), [null, "a", "b", "c"]);
    assert.deepEqual(await labelsOf(store, accountId, 0), [null, "a", "c"]);
    assert.equal((await store.listKeys("ada"))?.length, 6);
  });

  test("takes the later made of two keys that were revoked at the same time", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await addKeys(store, ["a", "b", "c"]);
    for (const label of ["c", "a", "b"]) {
      await store.revokeKey({ keyId: `key_${label}`, accountId, revokedAt: T0 });
    }

    assert.deepEqual(await labelsOf(store, accountId, 2), [null, "b", "c"]);
  });
}

/** The part of the conformance suite that is about the rotation of webhook secrets. */
export function exerciseSecrets(open: OpenStore): void {
  const secretsOf = async (store: Store, login = "ada") => {
    const secrets = await store.findSecrets(login);
    return secrets === null ? null : [secrets.webhookSecret, secrets.webhookSecretNext];
  };

  test("rotates a secret: both are there until the end, then only the next one", async (t) => {
    const { store } = await open(t);
    await store.createAccount(newAccount({ webhookSecret: "whsec_1" }));
    await store.createAccount(newAccount({ login: "bob", webhookSecret: "whsec_b" }));

    assert.deepEqual(await secretsOf(store), ["whsec_1", null]);
    assert.equal(await store.rotateSecret({ login: "ada", next: "whsec_2" }), "rotating");
    assert.deepEqual(await secretsOf(store), ["whsec_1", "whsec_2"]);
    assert.equal(await store.finishRotation({ login: "ada" }), "finished");
    assert.deepEqual(await secretsOf(store), ["whsec_2", null]);
    assert.deepEqual(await secretsOf(store, "bob"), ["whsec_b", null]);
  });

  test("begins exactly one rotation after 20 attempts at once, and ends it once", async (t) => {
    const { store, again } = await open(t);
    const stores = [store, await again()];
    await store.createAccount(newAccount());
    const atOnce = (call: (from: Store, i: number) => Promise<string>) =>
      Promise.all(Array.from({ length: 20 }, (_, i) => call(stores[i % 2] ?? store, i)));

    const begun = await atOnce((from, i) =>
      from.rotateSecret({ login: "ada", next: `whsec_${i}` }),
    );
    const next = (await store.findSecrets("ada"))?.webhookSecretNext;
    const ended = await atOnce((from) => from.finishRotation({ login: "ada" }));

    assert.deepEqual(
      begun.flatMap((outcome, i) => (outcome === "rotating" ? [`whsec_${i}`] : [])),
      [next],
    );
    assert.equal(ended.filter((outcome) => outcome === "finished").length, 1);
    assert.deepEqual(await secretsOf(store), [next, null]);
  });

  test("leaves the secret as it is when nothing is rotating or nobody is there", async (t) => {
    const { store } = await open(t);
    await store.createAccount(newAccount({ webhookSecret: "whsec_1" }));

    assert.equal(await store.finishRotation({ login: "ada" }), "not rotating");
    assert.deepEqual(await secretsOf(store), ["whsec_1", null]);
    assert.equal(await store.rotateSecret({ login: "ADA", next: "whsec_2" }), "no account");
    assert.equal(await store.finishRotation({ login: "nobody" }), "no account");
    assert.equal(await secretsOf(store, "nobody"), null);
  });

  test("hands both secrets to the next attempt, and the new one alone once it is over", async (t) => {
    const { store } = await open(t);
    const account = newAccount({ webhookSecret: "whsec_1" });
    await store.createAccount(account);
    const accountId = (await store.findKeyHolder(account.firstKey.hash))?.accountId ?? 0;

    await store.rotateSecret({ login: "ada", next: "whsec_2" });
    await seedDelivery(store, accountId);
    const during = await claimAttempt(store);
    await store.finishRotation({ login: "ada" });

    assert.deepEqual([during.webhookSecret, during.webhookSecretNext], ["whsec_1", "whsec_2"]);
    await seedDelivery(store, accountId);
    const after = await claimAttempt(store);
    assert.deepEqual([after.webhookSecret, after.webhookSecretNext], ["whsec_2", null]);
  });
}
