import assert from "node:assert/strict";
import { test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import type { AccessApproval, Store } from "../../src/store/store.ts";
import {
  newAccessRequest,
  newAccount,
  newKeyToStore,
  seedAccount,
  T0,
  pluck,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

function newApproval(id: string, overrides: Partial<AccessApproval> = {}): AccessApproval {
  return { id, decidedAt: T0 + 1000, account: newAccount(), ...overrides };
}

async function idsOf(store: Store, which: "pending" | "all"): Promise<readonly string[]> {
  return pluck(await store.listAccessRequests({ which, limit: 100 }), "id");
}

/** The part of the conformance suite that is about requests for access. */
export function exerciseAccess(open: OpenStore): void {
  test("keeps what a request says, to the character", async (t) => {
    const { store } = await open(t);
    const fields = {
      ...{ email: "o'neil@example.org", name: 'Robert"); DROP TABLE keys;--', company: "😀\u2028" },
      message: `${"é".repeat(3999)}\n`,
    };
    const full = newAccessRequest({ fields });
    const short = newAccessRequest({
      fields: { email: "a@b", name: null, company: null, message: null },
      createdAt: T0 + 1,
    });

    assert.equal(await store.insertAccessRequest(full), "stored");
    assert.equal(await store.insertAccessRequest(short), "stored");

    assert.deepEqual(await store.listAccessRequests({ which: "pending", limit: 100 }), [
      { id: full.id, ...fields, createdAt: T0, decision: null },
      { id: short.id, ...short.fields, createdAt: T0 + 1, decision: null },
    ]);
  });

  test("keeps exactly as many requests waiting as may wait after 50 at once", async (t) => {
    const { store, again } = await open(t);
    const stores = [store, await again()];
    const insert = (i: number) =>
      stores[i % 2]?.insertAccessRequest(newAccessRequest({ pendingMax: 20 }));

    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => insert(i)));

    assert.equal(outcomes.filter((outcome) => outcome === "stored").length, 20);
    assert.equal(outcomes.filter((outcome) => outcome === "limit reached").length, 30);
    assert.equal((await idsOf(store, "all")).length, 20);
  });

  test("counts only what waits against the limit", async (t) => {
    const { store } = await open(t);
    const [first, second, third] = [1, 2, 3].map(() => newAccessRequest({ pendingMax: 1 }));
    assert(first !== undefined && second !== undefined && third !== undefined);

    assert.equal(await store.insertAccessRequest(first), "stored");
    assert.equal(await store.insertAccessRequest(second), "limit reached");
    await store.denyAccessRequest({ id: first.id, decidedAt: T0 });
    assert.equal(await store.insertAccessRequest(second), "stored");
    await store.approveAccessRequest(newApproval(second.id));
    assert.equal(await store.insertAccessRequest(third), "stored");
    assert.equal(
      await store.insertAccessRequest(newAccessRequest({ pendingMax: 0 })),
      "limit reached",
    );
  });

  test("erases the oldest request that waits for a new one, after a day", async (t) => {
    const { store } = await open(t);
    const [decided, first, second] = [0, 1, 2].map((ms) =>
      newAccessRequest({ createdAt: T0 + ms, pendingMax: 2 }),
    );
    assert(decided !== undefined && first !== undefined && second !== undefined);
    await store.insertAccessRequest(decided);
    await store.denyAccessRequest({ id: decided.id, decidedAt: T0 });
    for (const each of [first, second]) await store.insertAccessRequest(each);
    const insertAt = async (createdAt: number) => {
      const request = newAccessRequest({ createdAt, pendingMax: 2 });
      return { id: request.id, outcome: await store.insertAccessRequest(request) };
    };

    const early = await insertAt(first.createdAt + DAY_MS);
    const late = await insertAt(first.createdAt + DAY_MS + 1);

    assert.deepEqual([early.outcome, late.outcome], ["limit reached", "stored"]);
    assert.deepEqual(await idsOf(store, "all"), [decided.id, second.id, late.id]);
  });

  test("denies all requests that wait and were made before a time", async (t) => {
    const { store } = await open(t);
    const requests = [0, 1, 2, 3].map((ms) => newAccessRequest({ createdAt: T0 + ms }));
    for (const request of requests) await store.insertAccessRequest(request);
    const [decided, , , late] = requests;
    assert(decided !== undefined && late !== undefined);
    await store.approveAccessRequest(newApproval(decided.id));
    const denial = { madeBefore: T0 + 3, decidedAt: T0 + 9 };

    assert.equal(await store.denyAccessRequests(denial), 2);
    assert.equal(await store.denyAccessRequests(denial), 0);

    assert.deepEqual(await idsOf(store, "pending"), [late.id]);
    const all = await store.listAccessRequests({ which: "all", limit: 10 });
    assert.deepEqual(
      all.map(({ decision }) => decision?.kind),
      ["approved", "denied", "denied", undefined],
    );
    assert.equal(all[1]?.decision?.decidedAt, T0 + 9);
  });

  test("lists requests oldest first, those that wait or all, and no more than asked for", async (t) => {
    const { store } = await open(t);
    // Ids and times against the order in which they come.
    const requests = [4, 3, 2, 1].map((age) => newAccessRequest({ createdAt: T0 + age }));
    for (const request of requests) await store.insertAccessRequest(request);
    const ids = pluck(requests, "id");
    await store.denyAccessRequest({ id: ids[1] ?? "", decidedAt: T0 });

    assert.deepEqual(await idsOf(store, "all"), ids);
    assert.deepEqual(await idsOf(store, "pending"), [ids[0], ids[2], ids[3]]);
    const page = await store.listAccessRequests({ which: "all", limit: 2 });
    assert.deepEqual(pluck(page, "id"), ids.slice(0, 2));
    const pending = await store.listAccessRequests({ which: "pending", limit: 2 });
    assert.deepEqual(pluck(pending, "id"), [ids[0], ids[2]]);
    assert.equal(await store.countPendingRequests(2), 2);
    assert.equal(await store.countPendingRequests(100), 3);
  });

  test("lists no request after the one with which there are more letters than asked for", async (t) => {
    const { store } = await open(t);
    const fields = { email: "a@b", name: null, company: "ш", message: "ш".repeat(6) };
    const listed = async (lettersMax: number): Promise<number> =>
      (await store.listAccessRequests({ which: "all", limit: 10, lettersMax })).length;
    for (let i = 0; i < 4; i++) await store.insertAccessRequest(newAccessRequest({ fields }));

    assert.deepEqual(await Promise.all([9, 10, 20, 39, 40].map(listed)), [1, 2, 3, 4, 4]);
  });

  test("approves a request: its account is there with its key, and the request names it", async (t) => {
    const { store } = await open(t);
    const request = newAccessRequest();
    await store.insertAccessRequest(request);
    const account = newAccount({ login: "grace", webhookSecret: "whsec_g", createdAt: T0 + 7 });

    const approval = newApproval(request.id, { account });
    const approving = store.approveAccessRequest(approval);
    // In the same turn: if the key was unknown, that must not be remembered.
    const before = await store.findKeyHolder(account.firstKey.hash);
    assert(before === null || before.login === "grace");
    assert.equal(await approving, "approved");

    const holder = await store.findKeyHolder(account.firstKey.hash);
    assert.equal(holder?.login, "grace");
    assert.equal((await store.findSecrets("grace"))?.webhookSecret, "whsec_g");
    assert.deepEqual(await store.listAccounts(), [
      { login: "grace", createdAt: T0 + 7, disabledAt: null },
    ]);
    const [listed] = await store.listAccessRequests({ which: "all", limit: 1 });
    const decision = { kind: "approved", decidedAt: T0 + 1000, login: "grace" };
    assert.deepEqual(listed?.decision, decision);
    assert.deepEqual(await idsOf(store, "pending"), []);
    const { accountId } = holder ?? assert.fail("no holder");
    assert.deepEqual(await store.findApprovedRequest(accountId), listed);
    assert.equal(await store.findApprovedRequest(accountId + 1), null);
  });

  test("decides a request once: whatever is decided afterwards changes nothing", async (t) => {
    const { store } = await open(t);
    const requests = [newAccessRequest(), newAccessRequest()];
    for (const request of requests) await store.insertAccessRequest(request);
    const [approved, denied] = pluck(requests, "id");
    assert(approved !== undefined && denied !== undefined);
    await store.approveAccessRequest(newApproval(approved));
    await store.denyAccessRequest({ id: denied, decidedAt: T0 });
    const before = await store.listAccessRequests({ which: "all", limit: 10 });

    for (const id of [approved, denied]) {
      const account = newAccount({ login: "another" });
      const approval = newApproval(id, { account, decidedAt: T0 + 9999 });
      assert.equal(await store.approveAccessRequest(approval), "decided");
      assert.equal(await store.denyAccessRequest({ id, decidedAt: T0 + 9999 }), "decided");
    }

    assert.deepEqual(await store.listAccessRequests({ which: "all", limit: 10 }), before);
    assert.equal((await store.listAccounts()).length, 1);
  });

  test("knows no request by an id that it was not given", async (t) => {
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

  test("leaves a request waiting when the login is taken, to be approved with another", async (t) => {
    const { store } = await open(t);
    await seedAccount(store, "ada");
    const request = newAccessRequest();
    await store.insertAccessRequest(request);
    const account = newAccount({ login: "ada" });

    const taken = newApproval(request.id, { account });
    assert.equal(await store.approveAccessRequest(taken), "exists");

    assert.deepEqual(await idsOf(store, "pending"), [request.id]);
    assert.equal(await store.findKeyHolder(account.firstKey.hash), null);
    const other = newApproval(request.id, { account: newAccount({ login: "ada2" }) });
    assert.equal(await store.approveAccessRequest(other), "approved");
  });

  test("neither makes an account nor decides when the key cannot be stored", async (t) => {
    const { store } = await open(t);
    const firstKey = newKeyToStore();
    await store.createAccount(newAccount({ login: "ada", firstKey }));
    const request = newAccessRequest();
    await store.insertAccessRequest(request);

    const account = newAccount({ login: "bob", firstKey });
    await assert.rejects(store.approveAccessRequest(newApproval(request.id, { account })));

    assert.equal((await store.listAccounts()).length, 1);
    assert.deepEqual(await idsOf(store, "pending"), [request.id]);
  });

  test("makes exactly one account when two processes approve at once", async (t) => {
    const { store, again } = await open(t);
    const other = await again();
    const request = newAccessRequest();
    await store.insertAccessRequest(request);
    const approve = (from: Store, login: string) =>
      from.approveAccessRequest(newApproval(request.id, { account: newAccount({ login }) }));

    const outcomes = await Promise.all([approve(store, "ada"), approve(other, "bob")]);

    assert.deepEqual([...outcomes].sort(), ["approved", "decided"]);
    const winner = outcomes[0] === "approved" ? "ada" : "bob";
    assert.deepEqual(pluck(await store.listAccounts(), "login"), [winner]);
    const [listed] = await other.listAccessRequests({ which: "all", limit: 1 });
    assert.equal(listed?.decision?.login, winner);
  });
}
