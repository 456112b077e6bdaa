import assert from "node:assert/strict";
import { test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import type {
  AccessApproval,
  AuditEntry,
  KeyToStore,
  NewAccessRequest,
  NewAccount,
  Store,
} from "../../src/store/store.ts";
import {
  NO_OWN_LIMITS,
  T0,
  claimAttempt,
  newAccessRequest,
  newAccount,
  newKeyToStore,
  newStale,
  pluck,
  postTask,
  seedAccount,
  seedDelivery,
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
    assert.deepEqual([await create("ada"), await create("ada")], ["created", "limit reached"]);
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
    assert.deepEqual([await revoke(bob, T0 + 2), await revoke(ada, T0 + 3)], [T0 + 2, undefined]);
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

function newApproval(id: string, overrides: Partial<AccessApproval> = {}): AccessApproval {
  return { id, decidedAt: T0 + 1000, account: newAccount(), ...overrides };
}

async function idsOf(store: Store, which: "pending" | "all"): Promise<readonly string[]> {
  return pluck(await store.listAccessRequests({ which, limit: 100 }), "id");
}

async function insertAll(store: Store, requests: readonly NewAccessRequest[]): Promise<void> {
  for (const request of requests) await store.insertAccessRequest(request);
}

export function exerciseAccess(open: OpenStore): void {
  test("an access request keeps its fields to the character", async (t) => {
    const { store } = await open(t);
    const fields = {
      ...{ email: "o'neil@example.org", name: 'Robert"); DROP TABLE keys;--', company: "😀\u2028" },
      message: `${"é".repeat(3999)}\n`,
    };
    const none = { email: "a@b", name: null, company: null, message: null };
    const [full, short] = [newAccessRequest({ fields }), newAccessRequest({ fields: none })];
    await insertAll(store, [full, short]);
    assert.deepEqual(await store.listAccessRequests({ which: "pending", limit: 100 }), [
      { id: full.id, ...fields, createdAt: T0, decision: null },
      { id: short.id, ...none, createdAt: T0, decision: null },
    ]);
  });

  test("50 requests to two processes concurrently leave the allowed number of pending requests", async (t) => {
    const { store, again } = await open(t);
    const stores = [store, await again()];
    const insert = (i: number) =>
      (stores[i % 2] ?? store).insertAccessRequest(newAccessRequest({ pendingMax: 20 }));
    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => insert(i)));
    assert.equal(outcomes.filter((outcome) => outcome === "stored").length, 20);
    assert.equal(outcomes.filter((outcome) => outcome === "limit reached").length, 30);
    assert.equal((await idsOf(store, "all")).length, 20);
  });

  test("the limit of requests counts pending requests", async (t) => {
    const { store } = await open(t);
    const request = () => newAccessRequest({ pendingMax: 1 });
    const [first, second, third] = [request(), request(), request()];
    const insert = (each: NewAccessRequest) => store.insertAccessRequest(each);
    assert.deepEqual([await insert(first), await insert(second)], ["stored", "limit reached"]);
    await store.denyAccessRequest({ id: first.id, decidedAt: T0 });
    assert.equal(await insert(second), "stored");
    await store.approveAccessRequest(newApproval(second.id));
    assert.equal(await insert(third), "stored");
    assert.equal(await insert(newAccessRequest({ pendingMax: 0 })), "limit reached");
  });

  test("a new request replaces the oldest pending one after a day", async (t) => {
    const { store } = await open(t);
    const request = (createdAt: number) => newAccessRequest({ createdAt, pendingMax: 2 });
    const [decided, first, second] = [request(T0), request(T0 + 1), request(T0 + 2)];
    await store.insertAccessRequest(decided);
    await store.denyAccessRequest({ id: decided.id, decidedAt: T0 });
    await insertAll(store, [first, second]);
    const [early, late] = [request(T0 + 1 + DAY_MS), request(T0 + 2 + DAY_MS)];
    assert.equal(await store.insertAccessRequest(early), "limit reached");
    assert.equal(await store.insertAccessRequest(late), "stored");
    assert.deepEqual(await idsOf(store, "all"), [decided.id, second.id, late.id]);
  });

  test("all pending requests from before a time are denied together", async (t) => {
    const { store } = await open(t);
    const requests = [0, 1, 2, 3].map((ms) => newAccessRequest({ createdAt: T0 + ms }));
    await insertAll(store, requests);
    await store.approveAccessRequest(newApproval(requests[0]?.id ?? ""));
    const denial = { madeBefore: T0 + 3, decidedAt: T0 + 9 };
    assert.equal(await store.denyAccessRequests(denial), 2);
    assert.equal(await store.denyAccessRequests(denial), 0);
    assert.deepEqual(await idsOf(store, "pending"), [requests[3]?.id]);
    const all = pluck(await store.listAccessRequests({ which: "all", limit: 10 }), "decision");
    const kinds = all.map((decision) => decision?.kind);
    assert.deepEqual(kinds, ["approved", "denied", "denied", undefined]);
    assert.equal(all[1]?.decidedAt, T0 + 9);
  });

  test("all or only pending requests are listed oldest first, up to the limit", async (t) => {
    const { store } = await open(t);
    // Their ids and times are in reverse order.
    const requests = [4, 3, 2, 1].map((age) => newAccessRequest({ createdAt: T0 + age }));
    await insertAll(store, requests);
    const ids = pluck(requests, "id");
    await store.denyAccessRequest({ id: ids[1] ?? "", decidedAt: T0 });

    for (const [which, expected] of [
      ["all", ids],
      ["pending", [ids[0], ids[2], ids[3]]],
    ] as const) {
      assert.deepEqual(await idsOf(store, which), expected);
      const page = await store.listAccessRequests({ which, limit: 2 });
      assert.deepEqual(pluck(page, "id"), expected.slice(0, 2));
    }
    assert.equal(await store.countPendingRequests(2), 2);
    assert.equal(await store.countPendingRequests(100), 3);
  });

  test("a list of requests ends after the request that exceeds the limit of characters", async (t) => {
    const { store } = await open(t);
    const fields = { email: "a@b", name: null, company: "ш", message: "ш".repeat(6) };
    const listed = async (lettersMax: number): Promise<number> =>
      (await store.listAccessRequests({ which: "all", limit: 10, lettersMax })).length;
    await insertAll(
      store,
      Array.from({ length: 4 }, () => newAccessRequest({ fields })),
    );
    assert.deepEqual(await Promise.all([9, 10, 20, 39, 40].map(listed)), [1, 2, 3, 4, 4]);
  });

  test("an approval creates the account with its key, and the request names it", async (t) => {
    const { store } = await open(t);
    const request = newAccessRequest();
    await store.insertAccessRequest(request);
    const account = newAccount({ login: "grace", webhookSecret: "whsec_g", createdAt: T0 + 7 });

    const approving = store.approveAccessRequest(newApproval(request.id, { account }));
    // A memo of this turn must not keep the unknown key.
    const before = await store.findKeyHolder(account.firstKey.hash);
    assert(before === null || before.login === "grace");
    assert.equal(await approving, "approved");

    const holder = await store.findKeyHolder(account.firstKey.hash);
    const { accountId, login } = holder ?? assert.fail();
    assert.equal(login, "grace");
    assert.equal((await store.findSecrets("grace"))?.webhookSecret, "whsec_g");
    const created = { login: "grace", createdAt: T0 + 7, disabledAt: null };
    assert.deepEqual(await store.listAccounts(), [created]);
    const [listed] = await store.listAccessRequests({ which: "all", limit: 1 });
    const decision = { kind: "approved", decidedAt: T0 + 1000, login: "grace" };
    assert.deepEqual(listed?.decision, decision);
    assert.deepEqual(await idsOf(store, "pending"), []);
    assert.deepEqual(await store.findApprovedRequest(accountId), listed);
    assert.equal(await store.findApprovedRequest(accountId + 1), null);
  });

  test("the first decision of a request is final", async (t) => {
    const { store } = await open(t);
    const [approved, denied] = [newAccessRequest(), newAccessRequest()];
    await insertAll(store, [approved, denied]);
    await store.approveAccessRequest(newApproval(approved.id));
    assert.equal(await store.denyAccessRequest({ id: denied.id, decidedAt: T0 + 5 }), "denied");
    const before = await store.listAccessRequests({ which: "all", limit: 10 });
    assert.deepEqual(before[1]?.decision, { kind: "denied", decidedAt: T0 + 5, login: null });

    for (const { id } of [approved, denied]) {
      const account = newAccount({ login: "another" });
      const approval = newApproval(id, { account, decidedAt: T0 + 9999 });
      assert.equal(await store.approveAccessRequest(approval), "decided");
      assert.equal(await store.denyAccessRequest({ id, decidedAt: T0 + 9999 }), "decided");
    }
    for (const id of ["", "%", denied.id.toUpperCase(), newAccessRequest().id]) {
      assert.equal(await store.approveAccessRequest(newApproval(id)), "unknown");
      assert.equal(await store.denyAccessRequest({ id, decidedAt: T0 }), "unknown");
    }

    assert.deepEqual(await store.listAccessRequests({ which: "all", limit: 10 }), before);
    assert.equal((await store.listAccounts()).length, 1);
  });

  test("a request stays pending if its account cannot be created", async (t) => {
    const { store } = await open(t);
    const firstKey = newKeyToStore();
    await store.createAccount(newAccount({ firstKey }));
    const request = newAccessRequest();
    await store.insertAccessRequest(request);
    const approve = (account: NewAccount) =>
      store.approveAccessRequest(newApproval(request.id, { account }));

    const taken = newAccount();
    assert.equal(await approve(taken), "exists");
    assert.equal(await store.findKeyHolder(taken.firstKey.hash), null);
    await assert.rejects(approve(newAccount({ login: "bob", firstKey })));

    assert.equal((await store.listAccounts()).length, 1);
    assert.deepEqual(await idsOf(store, "pending"), [request.id]);
    assert.equal(await approve(newAccount({ login: "ada2" })), "approved");
  });

  test("two processes that approve a request concurrently create one account", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const request = newAccessRequest();
    await store.insertAccessRequest(request);
    const approve = (from: Store, login: string) =>
      from.approveAccessRequest(newApproval(request.id, { account: newAccount({ login }) }));
    const outcomes = await Promise.all([approve(store, "ada"), approve(other, "bob")]);
    assert.deepEqual(outcomes.toSorted(), ["approved", "decided"]);
    const winner = outcomes[0] === "approved" ? "ada" : "bob";
    assert.deepEqual(pluck(await store.listAccounts(), "login"), [winner]);
    const [listed] = await other.listAccessRequests({ which: "all", limit: 1 });
    assert.equal(listed?.decision?.login, winner);
  });
}

export function exerciseKeptSecrets(open: OpenStore): void {
  test("the first secret of a name is kept", async (t) => {
    const { store, again } = await open(t);
    const keep = (fresh: string) => ({ name: "cursors", fresh }) as const;
    const answers = await Promise.all(["a", "b"].map((fresh) => store.keepSecret(keep(fresh))));
    assert.deepEqual(answers, ["a", "a"]);
    for (const each of [store, await again()]) {
      assert.equal(await each.keepSecret(keep("c")), "a");
    }
  });
}

function newEntry(overrides: Partial<AuditEntry> = {}): AuditEntry {
  const actor = { kind: "user", name: "root", address: null } as const;
  return { at: T0, actor, action: "key.created", subject: "ada", details: null, ...overrides };
}

async function entriesOf(store: Store): Promise<readonly AuditEntry[]> {
  const found = await store.listAudit({ since: null, action: null, limit: 99, before: null });
  return found.map(({ seq: _seq, ...entry }) => entry);
}

export function exerciseAudit(open: OpenStore): void {
  test("every process lists audit entries with all fields, newest first", async (t) => {
    const { store, again } = await open(t);
    const actor = { kind: "account", name: "ada key_1", address: "203.0.113.7" } as const;
    const one = newEntry({
      actor,
      details: { label: 'a "b" \u0000', count: 3, is: true, no: null },
    });
    const other = newEntry({ action: "session.refused", subject: null });
    await store.noteAudit(one);
    await store.noteAudit(other);
    assert.deepEqual(await entriesOf(await again()), [other, one]);
  });

  test("a write records its entry if it has an effect", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store, "ada");
    const key = { ...newKeyToStore(), login: "ada", createdAt: T0 };
    const entry = newEntry();

    assert.equal(await store.createKey({ ...key, activeMax: 0, audit: entry }), "limit reached");
    assert.deepEqual(await entriesOf(store), []);
    assert.equal(await store.createKey({ ...key, activeMax: 9, audit: entry }), "created");
    const revoked = newEntry({ action: "key.revoked" });
    const change = { keyId: key.keyId, accountId };
    await store.revokeKey({ ...change, revokedAt: T0 + 1, audit: revoked });
    await store.revokeKey({ ...change, revokedAt: T0 + 2, audit: revoked });
    await store.revokeKey({ ...change, keyId: "key_none", revokedAt: T0 + 2, audit: revoked });

    assert.deepEqual(await entriesOf(store), [revoked, entry]);
  });

  test("a failed write records no entry", async (t) => {
    const { store } = await open(t);
    await seedAccount(store, "ada");
    const key = { ...newKeyToStore(), login: "ada", createdAt: T0, activeMax: 9 };
    await store.createKey(key);
    await assert.rejects(store.createKey({ ...key, audit: newEntry() }));
    assert.deepEqual(await entriesOf(store), []);
  });

  test("entries are filtered by action and by time, also after the clock was set back, and paged", async (t) => {
    const { store } = await open(t);
    for (const [i, at] of [0, 5, 1, 2, 3].entries()) {
      const action = i % 2 === 0 ? "key.created" : "key.revoked";
      await store.noteAudit(newEntry({ at: T0 + at, action, subject: `${at}` }));
    }
    const every = { since: null, action: null, limit: 99, before: null };
    const subjects = async (query: Partial<Parameters<Store["listAudit"]>[0]>) =>
      pluck(await store.listAudit({ ...every, ...query }), "subject").join("");

    assert.equal(await subjects({}), "32150");
    assert.equal(await subjects({ action: "key.revoked" }), "25");
    assert.equal(await subjects({ action: "key.created", since: T0 + 2 }), "3");
    const since = [2, 4, 6].map((ms) => subjects({ since: T0 + ms }));
    assert.deepEqual(await Promise.all(since), ["325", "5", ""]);
    const page = await store.listAudit({ ...every, limit: 3 });
    assert.equal(await subjects({ before: page.at(-1)?.seq ?? null }), "50");
  });

  test("the oldest entries are erased first, and no entry newer than a kept entry", async (t) => {
    const { store } = await open(t);
    for (const [i, at] of [T0, T0 + 1, T0 + 5, T0 + 2].entries()) {
      await store.noteAudit(newEntry({ at, subject: `${i}` }));
    }
    const erase = (auditBefore: number, max: number) =>
      store.eraseStale({ ...newStale({ auditBefore }), max });
    assert.deepEqual([await erase(T0 + 3, 1), await erase(T0 + 3, 9)], [1, 1]);
    assert.equal(await erase(T0 + 3, 9), 0);
    assert.deepEqual(pluck(await entriesOf(store), "subject"), ["3", "2"]);
  });
}
