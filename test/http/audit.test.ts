import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { newKey } from "../../src/domain/account/key.ts";
import { readAuditPage } from "../../src/domain/audit/audit-entry.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { AuditEntry } from "../../src/store/store.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { keyDelete, makeKey } from "./account.ts";
import { ask, codeOf } from "./answer.ts";
import {
  type OperatorFields,
  SESSION,
  atStore,
  keySignIn,
  pagePost,
  signInByKey,
  signInOperator,
} from "./session-requests.ts";

const T0 = Date.parse("2030-01-31T09:00:00.000Z");

const ENTRY: AuditEntry = {
  at: T0,
  actor: { kind: "user", name: "root", address: null },
  action: "key.created",
  subject: null,
  details: null,
};

const byAccount = (name: string) => ({ kind: "account", name, address: null }) as const;

/** A daemon whose audit has these entries, and its operator. */
async function start(t: TestContext, entries: readonly Partial<AuditEntry>[] = []) {
  const daemon = await startTestDaemon(t);
  const operator = await signInOperator(daemon);
  await atStore(daemon.file, async (store) => {
    for (const entry of entries) await store.noteAudit({ ...ENTRY, ...entry });
  });
  const read = async (query: string): Promise<OperatorFields> =>
    (await operator.get(`/audit?${query}`)).fields;
  /** The subjects of each page, pages of two entries. */
  const pagesOf = async (query: string): Promise<readonly string[]> => {
    const pages: string[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const { entries, next_cursor: next }: OperatorFields = await read(
        `${query}&limit=2${cursor}`,
      );
      pages.push(entries.map(({ subject }) => subject).join());
      cursor = next === null ? null : `&cursor=${next}`;
    }
    return pages;
  };
  return { daemon, operator, read, pagesOf };
}

const SIX = Array.from({ length: 6 }, (_, i) => ({
  ...{ at: T0 + i * MINUTE_MS, subject: `${i}` },
  action: i % 2 === 0 ? ("key.created" as const) : ("key.revoked" as const),
}));

test("a malformed cursor and a cursor of another list are 40000", async (t) => {
  const { daemon, operator } = await start(t, SIX);
  await daemon.post([{ type: "none" }, { type: "none" }]);
  const tasks = await daemon.call("/v1/tasks?limit=1");
  const { next_cursor: foreign } = (await tasks.json()) as { next_cursor: string | null };
  assert.ok(foreign !== null);
  for (const cursor of ["", "3", "A".repeat(59), foreign]) {
    assert.equal((await operator.get(`/audit?cursor=${cursor}`)).code, 40000, cursor);
  }
});

clusterTest("the audit is listed newest first, by pages, by action and since a time", async (t) => {
  const { read, pagesOf } = await start(t, SIX);
  const since = `since=${encodeURIComponent("2030-01-31T09:03:00+00:00")}`;
  for (const [query, subjects] of [
    ["limit=6", "543210"],
    ["action=key.revoked", "531"],
    [since, "543"],
    [`${since}&action=key.created`, "4"],
  ] as const) {
    const { entries } = await read(query);
    assert.equal(entries.map(({ subject }) => subject ?? "-").join(""), subjects, query);
  }
  assert.deepEqual(await pagesOf("action=key.created"), ["4,2", "0"]);
});

clusterTest(
  "the entries of an account are by it, of it or of its keys, and not of similar names",
  async (t) => {
    const { daemon, operator, read, pagesOf } = await start(t);
    await operator.post("/accounts", { login: "ada" });
    const keys = await atStore(daemon.file, (store) => store.listKeys("ada"));
    const key = keys?.[0]?.keyId ?? assert.fail();
    const entries: readonly Partial<AuditEntry>[] = [
      { actor: byAccount("ada key_1"), action: "session.opened", subject: "1" },
      { actor: byAccount("ada.b key_1"), action: "session.opened", subject: "no" },
      { action: "task.erased", subject: "2", details: { account: "ada" } },
      { action: "task.erased", subject: "no", details: { account: "adam" } },
      { action: "key.revoked", subject: key },
      { action: "worker.created", subject: "ada" },
      { action: "secret.shown", subject: "Ada" },
      { actor: { kind: "user", name: "ada", address: null }, subject: "no" },
      { action: "secret.shown", subject: "ada" },
    ];
    await atStore(daemon.file, async (store) => {
      for (const entry of entries)
        await store.noteAudit({ ...ENTRY, actor: byAccount("bob key_2"), ...entry });
    });

    assert.deepEqual(await pagesOf("account=ada"), [`ada,${key}`, "2,1", "ada"]);
    assert.equal((await read("account=ada&action=secret.shown")).entries.length, 1);
    assert.equal((await read("account=nobody")).entries.length, 0);
  },
);

test("the entries of an account that are far apart are found in reads of at most 500 rows", async () => {
  const others = Array.from({ length: 12_000 }, () => "bob");
  const all = ["ada", ...others, "ada"]
    .map((subject, i) => ({ ...ENTRY, subject, seq: i + 1 }))
    .toReversed();
  const page = async (before: number | null) => {
    const { entries, next } = await readAuditPage(
      async ({ before: from, limit }) => {
        const part = all.filter(({ seq }) => seq < (from ?? Infinity)).slice(0, limit);
        assert.ok(part.length <= 500);
        return part;
      },
      { account: { login: "ada", ids: new Set() }, limit: 50, before, examinedMax: 10_000 },
    );
    return { seqs: entries.map(({ seq }) => seq), next: next?.seq ?? null };
  };

  assert.deepEqual(await page(null), { seqs: [12_002], next: 2003 });
  assert.deepEqual(await page(2003), { seqs: [1], next: null });
});

test("an entry is shown exactly as stored", async (t) => {
  const actor = { kind: "account", name: "ada key_1", address: "203.0.113.7" } as const;
  const details = { label: '<b> "\u202e', count: 3, is: true, no: null, __proto: "x" };
  const { read } = await start(t, [{ actor, details, subject: "ада" }]);

  const { entries, next_cursor: next } = await read("limit=1");

  const at = "2030-01-31T09:00:00.000Z";
  assert.deepEqual(entries, [{ at, actor, action: "key.created", subject: "ада", details }]);
  assert.equal(next !== null, true);
});

clusterTest(
  "requests of accounts and the operator are audited with actor and address, without secrets",
  async (t) => {
    const { daemon, operator, read } = await start(t);
    const { login, key } = daemon.account;
    const added = await makeKey(daemon);
    await ask(daemon.url, keyDelete(daemon, added.key_id));
    await signInByKey(daemon);
    const ada = (await operator.post("/accounts", { login: "ada" })).fields;
    await operator.post(`/accounts/disable/${login}`);

    const { entries } = await read("");

    assert.deepEqual(
      entries.map(({ actor, action, subject }) => [actor.kind, action, subject]),
      [
        ["operator", "account.disabled", login],
        ["operator", "account.created", "ada"],
        ["account", "session.opened", login],
        ["account", "key.revoked", added.key_id],
        ["account", "key.created", login],
        ["operator", "session.opened", null],
      ],
    );
    assert.ok(entries.every(({ actor }) => actor.address === "127.0.0.1"));
    assert.ok(entries.slice(2, 5).every(({ actor }) => actor.name?.startsWith(`${login} key_`)));
    const text = JSON.stringify(entries);
    for (const each of [key, added.key, ada.key, ada.webhook_secret])
      assert.ok(!text.includes(each));
  },
);

test("of the refused sign-ins of an hour at most 60 are audited, with the login and no key", async (t) => {
  const toml = "[limits]\nfailed_authentications_per_minute = 100\n";
  const daemon = await startTestDaemon(t, { toml });
  const { login, key } = daemon.account;
  await ask(daemon.url, keySignIn({ account: { login, key: newKey().key, secret: "" } }));
  for (let i = 0; i < 80; i++) await codeOf(daemon.url, pagePost(SESSION, { login: key, key }));

  const query = { since: null, action: null, limit: 99, before: null };
  const entries = await atStore(daemon.file, (store) => store.listAudit(query));

  assert.ok(entries.length > 5 && entries.length <= 60, `${entries.length}`);
  const kinds = new Set(entries.map(({ actor, action }) => `${actor.kind} ${action}`));
  assert.deepEqual([...kinds], ["nobody session.refused"]);
  assert.deepEqual([...new Set(entries.map(({ subject }) => subject))], [null, login]);
  assert.ok(!JSON.stringify(entries).includes(key));
});
