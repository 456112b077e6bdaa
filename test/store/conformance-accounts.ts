import assert from "node:assert/strict";
import { test } from "node:test";

import type { KeyToStore, Store } from "../../src/store/store.ts";
import {
  NO_OWN_LIMITS,
  claimAttempt,
  newAccount,
  newKeyToStore,
  pluck,
  postTask,
  seedAccount,
  seedDelivery,
  T0,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** An account, whose first key a test knows. */
async function withKey(open: ReturnType<OpenStore>) {
  const opened = await open;
  const account = newAccount({ webhookSecret: "whsec_1" });
  await opened.store.createAccount(account);
  const holder = () => opened.store.findKeyHolder(account.firstKey.hash);
  const accountId = (await holder())?.accountId ?? assert.fail();
  return { ...opened, ...account.firstKey, accountId, holder };
}

type KeyParts = Partial<KeyToStore & { readonly activeMax: number }>;

function createKey(store: Store, login: string, { activeMax = 20, ...key }: KeyParts = {}) {
  return store.createKey({ ...newKeyToStore(key), login, createdAt: T0, activeMax });
}

export function exerciseAccounts(open: OpenStore): void {
  test("an account is created with its first key", async (t) => {
    const { store } = await open(t);
    const firstKey = newKeyToStore({ label: "first", lastFour: "abcd" });
    const { hash, ...key } = firstKey;
    const account = newAccount({ login: "ada@example", webhookSecret: "whsec_a", firstKey });

    assert.equal(await store.createAccount(account), "created");

    const holder = await store.findKeyHolder(hash);
    const { accountId } = holder ?? assert.fail();
    assert.deepEqual(holder, {
      ...{ accountId, login: "ada@example", keyId: key.keyId },
      ...{ keyRevoked: false, accountDisabled: false, ownLimits: NO_OWN_LIMITS },
    });
    const times = { createdAt: T0, lastUsedAt: null, revokedAt: null };
    assert.deepEqual(await store.listKeys("ada@example"), [{ ...key, ...times }]);
  });

  test("an account is found by its exact login, with its state", async (t) => {
    const { store, accountId } = await withAccount(open(t));
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

  test("a taken login keeps its account, and the second key is not stored", async (t) => {
    const { store, holder } = await withKey(open(t));
    const second = newKeyToStore();

    const again = { firstKey: second, webhookSecret: "whsec_2", createdAt: T0 + 1 };
    assert.equal(await store.createAccount(newAccount(again)), "exists");

    assert.notEqual(await holder(), null);
    assert.equal((await store.findSecrets("ada"))?.webhookSecret, "whsec_1");
    assert.equal(await store.findKeyHolder(second.hash), null);
    assert.equal((await store.listAccounts())[0]?.createdAt, T0);
  });

  test("an account whose key cannot be stored is not created", async (t) => {
    const { store } = await open(t);
    const firstKey = newKeyToStore();
    await store.createAccount(newAccount({ firstKey }));

    await assert.rejects(store.createAccount(newAccount({ login: "bob", firstKey })));

    assert.deepEqual(pluck(await store.listAccounts(), "login"), ["ada"]);
  });

  test("accounts are listed by login, in the order of bytes", async (t) => {
    const { store } = await open(t);
    for (const login of ["bob", "Ada", "ada", "carol"]) await seedAccount(store, login);

    assert.deepEqual(pluck(await store.listAccounts(), "login"), ["Ada", "ada", "bob", "carol"]);
    assert.equal(await store.listKeys("BOB"), null);
  });

  test("a disabled account keeps the first time until it is enabled", async (t) => {
    const { store, holder } = await withKey(open(t));
    const disable = (disabledAt: number | null) =>
      store.setAccountDisabled({ login: "ada", disabledAt });

    assert.deepEqual(await disable(T0 + 1), { login: "ada", createdAt: T0, disabledAt: T0 + 1 });
    assert.equal((await disable(T0 + 2))?.disabledAt, T0 + 1);
    assert.equal((await holder())?.accountDisabled, true);
    assert.equal((await disable(null))?.disabledAt, null);
    assert.equal((await holder())?.accountDisabled, false);
    assert.equal((await disable(T0 + 3))?.disabledAt, T0 + 3);
    assert.equal(await store.setAccountDisabled({ login: "nobody", disabledAt: T0 }), null);
  });

  test("the keys of an account are listed oldest first", async (t) => {
    const { store } = await withAccounts(open(t));
    for (const label of ["b", "c", "a"]) await createKey(store, "ada", { label });

    assert.deepEqual(pluck(await store.listKeys("ada"), "label"), [null, "b", "c", "a"]);
    assert.equal((await store.listKeys("bob"))?.length, 1);
    assert.equal(await store.listKeys("nobody"), null);
  });

  test("50 keys created by two processes concurrently leave the allowed number of active keys", async (t) => {
    const { store, again } = await withAccount(open(t));
    const stores = [store, await again()];
    const create = (i: number) => createKey(stores[i % 2] ?? store, "ada");

    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => create(i)));

    assert.equal(outcomes.filter((outcome) => outcome === "created").length, 19);
    assert.equal(outcomes.filter((outcome) => outcome === "limit reached").length, 31);
    assert.equal((await store.listKeys("ada"))?.length, 20);
  });

  test("the limit of keys counts the active keys of the account", async (t) => {
    const { store } = await withAccounts(open(t));
    const { keyId } = newKeyToStore();
    const create = (login: string, key = {}) => createKey(store, login, { activeMax: 2, ...key });

    assert.equal(await create("ada", { keyId }), "created");
    assert.equal(await create("ada"), "limit reached");
    assert.equal(await create("bob"), "created");
    await store.revokeKey({ keyId, accountId: null, revokedAt: T0 });
    assert.equal(await create("ada"), "created");
    assert.equal(await create("ada"), "limit reached");
    assert.equal(await create("nobody"), "no account");
  });

  test("a revoked key keeps the first time, and every later read sees it revoked", async (t) => {
    const { store, keyId, holder } = await withKey(open(t));
    let isOver = false;
    const look = (): void => {
      if (isOver) return;
      void holder();
      setImmediate(look);
    };
    look();
    const revoke = (revokedAt: number, id = keyId) =>
      store.revokeKey({ keyId: id, accountId: null, revokedAt });

    const revoked = await revoke(T0 + 5);
    isOver = true;
    assert.equal((await holder())?.keyRevoked, true);
    assert.equal(revoked?.revokedAt, T0 + 5);
    assert.equal((await revoke(T0 + 9))?.revokedAt, T0 + 5);
    assert.equal((await store.listKeys("ada"))?.[0]?.revokedAt, T0 + 5);
    assert.equal(await revoke(T0, "key_unknown"), null);
    assert.equal(await store.findKeyHolder("unknown"), null);
  });

  test("a commit of another store on the same data is visible immediately", async (t) => {
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

  test("an account revokes only its own keys, the operator any", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const keyId = (await store.listKeys("bob"))?.[0]?.keyId ?? "";
    const revoke = async (accountId: number | null, revokedAt: number) =>
      (await store.revokeKey({ keyId, accountId, revokedAt }))?.revokedAt;

    assert.equal(await revoke(ada, T0 + 1), undefined);
    assert.equal((await store.listKeys("bob"))?.[0]?.revokedAt, null);
    assert.equal(await revoke(bob, T0 + 2), T0 + 2);
    assert.equal(await revoke(ada, T0 + 3), undefined);
    assert.equal(await revoke(null, T0 + 4), T0 + 2);
  });

  test("the last use of a key never goes back", async (t) => {
    const { store } = await open(t);
    const accounts = ["ada", "bob", "carol"].map((login) => newAccount({ login }));
    for (const account of accounts) await store.createAccount(account);
    const [ada = "", bob = ""] = accounts.map(({ firstKey }) => firstKey.keyId);
    const touch = async (...uses: readonly (readonly [string, number])[]) => {
      await store.touchKeys(uses.map(([keyId, ms]) => ({ keyId, usedAt: T0 + ms })));
      const keys = await Promise.all(accounts.map(({ login }) => store.listKeys(login)));
      return keys.map((of) => (of?.[0]?.lastUsedAt ?? T0) - T0);
    };

    assert.deepEqual(await touch(), [0, 0, 0]);
    assert.deepEqual(await touch([ada, 20], ["key_unknown", 1], [bob, 5]), [20, 5, 0]);
    assert.deepEqual(await touch([ada, 19], [bob, 6]), [20, 6, 0]);
  });
}

export function exerciseAccountData(open: OpenStore): void {
  test("the data of an account has its own login, secrets, keys and counts", async (t) => {
    const { store, accountId, keyId } = await withKey(open(t));
    const bob = await seedAccount(store, "bob");
    await postTask(store, bob);
    await store.rotateSecret({ login: "ada", next: "whsec_2" });
    await store.touchKeys([{ keyId, usedAt: T0 + 3 }]);

    const times = { createdAt: T0, lastUsedAt: T0 + 3, revokedAt: null };
    assert.deepEqual(await store.findAccountData({ accountId, revokedMax: 10 }), {
      ...{ login: "ada", webhookSecret: "whsec_1", webhookSecretNext: "whsec_2" },
      keys: [{ keyId, lastFour: "wxyz", label: null, ...times }],
      taskCounts: { queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0 },
      usage: { bytes: 0, openTasks: 0 },
    });
    assert.equal(await store.findAccountData({ accountId: bob + 99, revokedMax: 10 }), null);
  });

  test("the data of an account has all active keys and the last revoked, oldest first", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const label of [..."abcdefg"]) {
      await createKey(store, "ada", { label, keyId: `key_${label}` });
    }
    // By revocation, not by age; of two keys that were revoked together the later is newer.
    for (const [label, ms] of Object.entries({ b: 30, d: 10, e: 20, g: 5, f: 5 })) {
      await store.revokeKey({ keyId: `key_${label}`, accountId, revokedAt: T0 + ms });
    }
    const labels = async (revokedMax: number) =>
      pluck((await store.findAccountData({ accountId, revokedMax }))?.keys, "label").join("");

    const shown = await Promise.all([10, 4, 3, 2, 1, 0].map(labels));
    assert.deepEqual(shown, ["abcdefg", "abcdeg", "abcde", "abce", "abc", "ac"]);
    assert.equal((await store.listKeys("ada"))?.length, 8);
  });
}

export function exerciseSecrets(open: OpenStore): void {
  const secretsOf = async (store: Store, login = "ada") => {
    const secrets = await store.findSecrets(login);
    return secrets === null ? null : [secrets.webhookSecret, secrets.webhookSecretNext];
  };

  test("a rotation keeps both secrets until its end, then only the next", async (t) => {
    const { store } = await withKey(open(t));
    await store.createAccount(newAccount({ login: "bob", webhookSecret: "whsec_b" }));

    assert.equal(await store.finishRotation({ login: "ada" }), "not rotating");
    assert.deepEqual(await secretsOf(store), ["whsec_1", null]);
    assert.equal(await store.rotateSecret({ login: "ada", next: "whsec_2" }), "rotating");
    assert.deepEqual(await secretsOf(store), ["whsec_1", "whsec_2"]);
    assert.equal(await store.finishRotation({ login: "ada" }), "finished");
    assert.deepEqual(await secretsOf(store), ["whsec_2", null]);
    assert.deepEqual(await secretsOf(store, "bob"), ["whsec_b", null]);
    assert.equal(await store.rotateSecret({ login: "ADA", next: "whsec_2" }), "no account");
    assert.equal(await store.finishRotation({ login: "nobody" }), "no account");
    assert.equal(await secretsOf(store, "nobody"), null);
  });

  test("20 concurrent rotations begin one, and 20 concurrent ends end it", async (t) => {
    const { store, again } = await withAccount(open(t));
    const stores = [store, await again()];
    const concurrently = (call: (from: Store, i: number) => Promise<string>) =>
      Promise.all(Array.from({ length: 20 }, (_, i) => call(stores[i % 2] ?? store, i)));

    const begun = await concurrently((from, i) =>
      from.rotateSecret({ login: "ada", next: `whsec_${i}` }),
    );
    const next = (await store.findSecrets("ada"))?.webhookSecretNext;
    const ended = await concurrently((from) => from.finishRotation({ login: "ada" }));

    const winners = begun.flatMap((outcome, i) => (outcome === "rotating" ? [`whsec_${i}`] : []));
    assert.deepEqual(winners, [next]);
    assert.equal(ended.filter((outcome) => outcome === "finished").length, 1);
    assert.deepEqual(await secretsOf(store), [next, null]);
  });

  test("an attempt has both secrets during a rotation, and the next secret after it", async (t) => {
    const { store, accountId } = await withKey(open(t));
    const secrets = async () => {
      await seedDelivery(store, accountId);
      const { webhookSecret, webhookSecretNext } = await claimAttempt(store);
      return [webhookSecret, webhookSecretNext];
    };

    await store.rotateSecret({ login: "ada", next: "whsec_2" });
    assert.deepEqual(await secrets(), ["whsec_1", "whsec_2"]);
    await store.finishRotation({ login: "ada" });
    assert.deepEqual(await secrets(), ["whsec_2", null]);
  });
}
