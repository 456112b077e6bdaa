import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { readAuditPage } from "../../src/domain/audit/audit-entry.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { AuditEntry } from "../../src/store/store.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { signInOperator, type OperatorAnswer } from "./operator-requests.ts";
import { atStore } from "./session-requests.ts";

const T0 = Date.parse("2030-01-31T09:00:00.000Z");

async function start(t: TestContext, entries: readonly Partial<AuditEntry>[] = []) {
  const daemon = await startTestDaemon(t);
  const operator = await signInOperator(daemon);
  const actor = { kind: "user", name: "root", address: null } as const;
  const standard = { at: T0, actor, action: "key.created", subject: null, details: null } as const;
  await atStore(daemon.file, async (store) => {
    for (const entry of entries) await store.noteAudit({ ...standard, ...entry });
  });
  return { daemon, operator };
}

const ENTRY = {
  at: T0,
  actor: { kind: "user", name: "root", address: null },
  action: "key.created",
  details: null,
} as const;

const six = Array.from({ length: 6 }, (_, i) => ({
  at: T0 + i * MINUTE_MS,
  subject: `${i}`,
  action: i % 2 === 0 ? ("key.created" as const) : ("key.revoked" as const),
}));

const subjects = ({ fields }: OperatorAnswer): string =>
  fields.entries.map(({ subject }) => subject ?? "-").join("");

test("a parameter that is wrong, or a cursor of another list, is 40000", async (t) => {
  const { daemon, operator } = await start(t, six);
  const { next_cursor: foreign } = (await operator.get("/accounts?limit=1")).fields;
  await daemon.post([{ type: "none" }, { type: "none" }]);
  const tasks = await daemon.call("/v1/tasks?limit=1");
  const { next_cursor: ofTasks } = (await tasks.json()) as { next_cursor: string | null };
  const queries = [
    ...["limit=0", "limit=201", "limit=-1", "limit=1e1", "limit=", "limit=1&limit=2"],
    ...["action=", "action=key", "action=KEY.CREATED", "action=key.created%00", "action='"],
    ...["since=1h", "since=yesterday", "since=2030-02-30T00:00:00Z", "before=3", "subject=ada"],
    ...["cursor=", "cursor=3", `cursor=${"A".repeat(59)}`, `cursor=${foreign ?? "x"}`],
    `cursor=${ofTasks ?? assert.fail("there is one page of tasks")}`,
  ];
  for (const query of queries)
    assert.equal((await operator.get(`/audit?${query}`)).code, 40000, query);
});

clusterTest(
  "the audit is listed newest first, page by page, of one action and since a time",
  async (t) => {
    const { operator } = await start(t, six);
    const since = encodeURIComponent("2030-01-31T09:03:00+00:00");

    assert.equal(subjects(await operator.get("/audit?limit=6")), "543210");
    assert.equal(subjects(await operator.get("/audit?action=key.revoked")), "531");
    assert.equal(subjects(await operator.get(`/audit?since=${since}`)), "543");
    assert.equal(subjects(await operator.get(`/audit?since=${since}&action=key.created`)), "4");

    const pages: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const more: string = cursor === "" ? "" : `&cursor=${cursor}`;
      const page = await operator.get(`/audit?action=key.created&limit=2${more}`);
      pages.push(subjects(page));
      cursor = page.fields.next_cursor;
    }
    assert.deepEqual(pages, ["42", "0"]);
  },
);

clusterTest(
  "of one account is what it did and what was done to it or its keys, and nothing of a name that is alike",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const operator = await signInOperator(daemon);
    await operator.post("/accounts", { login: "ada" });
    const keys = await atStore(daemon.file, (store) => store.listKeys("ada"));
    const key = keys?.[0]?.keyId ?? assert.fail("it has no key");
    const by = (name: string) => ({ kind: "account", name, address: null }) as const;
    const entries: readonly Partial<AuditEntry>[] = [
      { actor: by("ada key_1"), action: "session.opened", subject: "1" },
      { actor: by("ada.b key_1"), action: "session.opened", subject: "no" },
      { action: "task.erased", subject: "2", details: { account: "ada" } },
      { action: "task.erased", subject: "no", details: { account: "adam" } },
      { action: "key.revoked", subject: key },
      { action: "worker.created", subject: "ada" },
      { action: "secret.shown", subject: "Ada" },
      { actor: { kind: "user", name: "ada", address: null }, subject: "no" },
      { action: "secret.shown", subject: "ada" },
    ];
    const standard = { at: T0, actor: by("bob key_2"), action: "key.created" } as const;
    await atStore(daemon.file, async (store) => {
      for (const entry of entries)
        await store.noteAudit({ ...standard, subject: null, details: null, ...entry });
    });
    const pages: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const more: string = cursor === "" ? "" : `&cursor=${cursor}`;
      const page = await operator.get(`/audit?account=ada&limit=2${more}`);
      pages.push(page.fields.entries.map(({ action, subject }) => `${action} ${subject}`).join());
      cursor = page.fields.next_cursor;
    }

    assert.deepEqual(pages, [
      `secret.shown ada,key.revoked ${key}`,
      "task.erased 2,session.opened 1",
      "account.created ada",
    ]);
    const shown = await operator.get("/audit?account=ada&action=secret.shown");
    assert.equal(shown.fields.entries.length, 1);
    assert.equal((await operator.get("/audit?account=nobody")).fields.entries.length, 0);
    for (const wrong of ["", "a%20b", "%00", "x".repeat(65), "a&account=b"])
      assert.equal((await operator.get(`/audit?account=${wrong}`)).code, 40000, wrong);
  },
);

clusterTest(
  "however far apart an account's entries are, the cursors lead to each of them in bounded steps",
  async () => {
    const others = Array.from({ length: 12_000 }, () => ({ subject: "bob" }));
    const entries = [{ subject: "ada" }, ...others, { subject: "ada" }];
    const read: number[] = [];
    const all = entries.map(({ subject }, i) => ({ ...ENTRY, subject, seq: i + 1 })).toReversed();
    const page = (before: number | null) =>
      readAuditPage(
        async ({ before: from, limit }) => {
          const part = all.filter(({ seq }) => seq < (from ?? Infinity)).slice(0, limit);
          read.push(part.length);
          return part;
        },
        { account: { login: "ada", ids: new Set() }, limit: 50, before, examinedMax: 10_000 },
      );

    const first = await page(null);
    const second = await page(first.next?.seq ?? null);

    assert.deepEqual(
      first.entries.map(({ seq }) => seq),
      [12_002],
    );
    assert.equal(first.next?.seq, 2003);
    assert.deepEqual(
      second.entries.map(({ seq }) => seq),
      [1],
    );
    assert.equal(second.next, null);
    assert.ok(read.every((rows) => rows <= 500));
  },
);

test("an entry is shown as it is kept, whatever is in it, and no secret with it", async (t) => {
  const actor = { kind: "account", name: "ada key_1", address: "203.0.113.7" } as const;
  const details = { label: '<b> "\u202e', count: 3, is: true, no: null, __proto: "x" };
  const { daemon, operator } = await start(t, [{ actor, details, subject: "ада" }]);
  const created = await operator.post("/accounts", { login: "ada" });

  const { response, fields } = await operator.get("/audit");

  const [newest, oldest] = fields.entries;
  assert.deepEqual(oldest, {
    at: "2030-01-31T09:00:00.000Z",
    ...{ actor, action: "key.created", subject: "ада", details },
  });
  assert.deepEqual([newest?.action, newest?.subject], ["account.created", "ada"]);
  assert.deepEqual([newest?.actor.kind, newest?.actor.address], ["operator", "127.0.0.1"]);
  assert.equal(fields.next_cursor, null);
  const text = response.body.toString();
  for (const secret of [created.fields.key, created.fields.webhook_secret, daemon.account.key]) {
    assert.ok(!text.includes(secret));
  }
});
