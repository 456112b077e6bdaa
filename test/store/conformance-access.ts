import assert from "node:assert/strict";
import { test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import type { AccessApproval, NewAccessRequest, NewAccount, Store } from "../../src/store/store.ts";
import { newAccessRequest, newAccount, newKeyToStore, T0, pluck } from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

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
      stores[i % 2]?.insertAccessRequest(newAccessRequest({ pendingMax: 20 }));

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

    assert.deepEqual(await store.listAccessRequests({ which: "all", limit: 10 }), before);
    assert.equal((await store.listAccounts()).length, 1);
  });

  test("a decision of an unknown request has no effect", async (t) => {
    const { store } = await open(t);
    const request = newAccessRequest();
    await store.insertAccessRequest(request);

    for (const id of ["", "%", request.id.toUpperCase(), newAccessRequest().id]) {
      assert.equal(await store.approveAccessRequest(newApproval(id)), "unknown");
      assert.equal(await store.denyAccessRequest({ id, decidedAt: T0 }), "unknown");
    }

    assert.deepEqual(await store.listAccounts(), []);
    assert.deepEqual(await idsOf(store, "pending"), [request.id]);
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
