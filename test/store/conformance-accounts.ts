import assert from "node:assert/strict";
import { test } from "node:test";

import { newAccount, newKeyToStore, seedAccount, T0 } from "../helpers/store.ts";
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
      webhookSecret: "whsec_a",
      keyId: firstKey.keyId,
      keyRevoked: false,
      accountDisabled: false,
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

  test("leaves a taken login as it was, and does not store the second key", async (t) => {
    const { store } = await open(t);
    const [first, second] = [newKeyToStore(), newKeyToStore()];
    await store.createAccount(newAccount({ firstKey: first, webhookSecret: "whsec_1" }));

    const again = newAccount({ firstKey: second, webhookSecret: "whsec_2", createdAt: T0 + 1 });
    assert.equal(await store.createAccount(again), "exists");

    assert.equal((await store.findKeyHolder(first.hash))?.webhookSecret, "whsec_1");
    assert.equal(await store.findKeyHolder(second.hash), null);
    assert.equal((await store.listAccounts())[0]?.createdAt, T0);
  });

  test("makes no account when its key cannot be stored", async (t) => {
    const { store } = await open(t);
    const firstKey = newKeyToStore();
    await store.createAccount(newAccount({ login: "ada", firstKey }));

    await assert.rejects(store.createAccount(newAccount({ login: "bob", firstKey })));

    assert.deepEqual(
      (await store.listAccounts()).map(({ login }) => login),
      ["ada"],
    );
  });

  test("compares logins exactly and lists accounts by login", async (t) => {
    const { store } = await open(t);
    for (const login of ["bob", "Ada", "ada", "carol"]) await seedAccount(store, login);

    const logins = (await store.listAccounts()).map(({ login }) => login);

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

    const labels = (await store.listKeys("ada"))?.map(({ label }) => label);

    assert.deepEqual(labels, [null, "b", "c", "a"]);
    assert.equal((await store.listKeys("bob"))?.length, 1);
    assert.equal(await store.listKeys("nobody"), null);
  });

  test("leaves exactly the allowed number of active keys after 50 attempts at once", async (t) => {
    const { store } = await open(t);
    await seedAccount(store);
    const create = () =>
      store.createKey({ ...newKeyToStore(), login: "ada", createdAt: T0, activeMax: 20 });

    const outcomes = await Promise.all(Array.from({ length: 50 }, create));

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
    await store.revokeKey({ keyId: second.keyId, revokedAt: T0 });
    assert.equal(await create("ada"), "created");
    assert.equal(await create("ada"), "limit reached");
    assert.equal(await create("nobody"), "no account");
  });

  test("keeps the first time of a revocation, which the next look at the key sees", async (t) => {
    const { store } = await open(t);
    const account = newAccount();
    await store.createAccount(account);
    const { hash, keyId } = account.firstKey;

    assert.equal((await store.revokeKey({ keyId, revokedAt: T0 + 5 }))?.revokedAt, T0 + 5);
    assert.equal((await store.findKeyHolder(hash))?.keyRevoked, true);
    assert.equal((await store.revokeKey({ keyId, revokedAt: T0 + 9 }))?.revokedAt, T0 + 5);
    assert.equal((await store.listKeys("ada"))?.[0]?.revokedAt, T0 + 5);
    assert.equal(await store.revokeKey({ keyId: "key_unknown", revokedAt: T0 }), null);
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

    await store.revokeKey({ keyId, revokedAt: T0 });
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
    await other.revokeKey({ keyId, revokedAt: T0 });
    assert.equal((await store.findKeyHolder(hash))?.keyRevoked, true);
    await other.setAccountDisabled({ login: "ada", disabledAt: T0 });
    assert.equal((await store.findKeyHolder(hash))?.accountDisabled, true);
  });
}
