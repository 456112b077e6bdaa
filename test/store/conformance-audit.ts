import assert from "node:assert/strict";
import { test } from "node:test";

import type { AuditEntry, Store } from "../../src/store/store.ts";
import { newKeyToStore, newStale, seedAccount, T0, pluck } from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

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

  test("entries since a time are listed, also entries from before the clock was set back", async (t) => {
    const { store } = await open(t);
    for (const at of [0, 5, 1, 2, 3]) {
      await store.noteAudit(newEntry({ at: T0 + at, subject: `${at}` }));
    }
    const since = async (at: number, action: AuditEntry["action"] | null = null) => {
      const found = await store.listAudit({ since: T0 + at, action, limit: 99, before: null });
      return pluck(found, "subject").join("");
    };

    assert.equal(await since(2), "325");
    assert.equal(await since(2, "key.created"), "325");
    assert.equal(await since(4), "5");
    assert.equal(await since(6), "");
    assert.equal(await since(0, "key.revoked"), "");
  });

  test("entries are filtered by action and time, and paged", async (t) => {
    const { store } = await open(t);
    for (let i = 0; i < 6; i++) {
      const action = i % 2 === 0 ? "key.created" : "key.revoked";
      await store.noteAudit(newEntry({ at: T0 + i, action, subject: `${i}` }));
    }
    const every = { since: null, action: null, limit: 99, before: null };
    const subjects = async (query: Partial<Parameters<Store["listAudit"]>[0]>) =>
      pluck(await store.listAudit({ ...every, ...query }), "subject").join("");

    assert.equal(await subjects({}), "543210");
    assert.equal(await subjects({ action: "key.revoked" }), "531");
    assert.equal(await subjects({ since: T0 + 4 }), "54");
    const page = await store.listAudit({ ...every, limit: 4 });
    assert.equal(await subjects({ before: page.at(-1)?.seq ?? null }), "10");
  });

  test("the oldest entries are erased first, and no entry newer than a kept entry", async (t) => {
    const { store } = await open(t);
    for (const [i, at] of [T0, T0 + 1, T0 + 5, T0 + 2].entries()) {
      await store.noteAudit(newEntry({ at, subject: `${i}` }));
    }
    const erase = (auditBefore: number, max: number) =>
      store.eraseStale({ ...newStale({ auditBefore }), max });

    assert.equal(await erase(T0 + 3, 1), 1);
    assert.equal(await erase(T0 + 3, 9), 1);
    assert.equal(await erase(T0 + 3, 9), 0);
    assert.deepEqual(pluck(await entriesOf(store), "subject"), ["3", "2"]);
  });
}
