import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, createTestAccount } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { USER_DATA, userDataOf, fieldsOf } from "./account.ts";
import { bearer, codeOf, ask } from "./answer.ts";
import { startRing } from "./ring.ts";
import {
  FROM_PAGE,
  OPERATOR,
  type Operator,
  type OperatorAnswer,
  type OperatorFields,
  operatorPost,
  pageGet,
  signInByKey,
  signInOperator,
} from "./session-requests.ts";
import { openHeldTasks } from "./task-requests.ts";

async function start(t: TestContext) {
  const daemon = await startTestDaemon(t);
  const operator = await signInOperator(daemon);
  const keyCode = () => codeOf(daemon.url, { target: USER_DATA, headers: [bearer(daemon)] });
  return { daemon, operator, keyCode };
}

const loginsOf = ({ fields }: OperatorAnswer) => fields.accounts.map(({ login }) => login);

clusterTest(
  "a new account's response has its key and secret, which work and are not logged",
  async (t) => {
    const { daemon, operator } = await start(t);
    const { response, fields } = await operator.post("/accounts", { login: "ada+1@example.com" });

    assert.equal(headerOf(response, "cache-control"), "no-store");
    const { login, key, webhook_secret: secret } = fields;
    const shown = await userDataOf({ url: daemon.url, account: { login, key, secret } });
    assert.deepEqual([shown.login, shown.webhook_secret], ["ada+1@example.com", secret]);
    const log = daemon.logLines.join("");
    assert.ok(!log.includes(key) && !log.includes(secret));
  },
);

test("an account with a taken login, or one that no path can name, is 40501", async (t) => {
  const { operator } = await start(t);
  for (const login of ["tester", ".", "..", "a/b", "a\u0000", "<b>", "é"]) {
    const { code, body } = await operator.post("/accounts", { login });
    assert.deepEqual([code, body.errors?.[0]?.pointer], [40501, "/login"], login);
  }
  assert.deepEqual(loginsOf(await operator.get("/accounts")), ["tester"]);
});

clusterTest(
  "a disabled account's key is 40102 and its session over, and both disabling and enabling may be repeated",
  async (t) => {
    const { daemon, operator, keyCode } = await start(t);
    const secret = await signInByKey(daemon);
    assert.equal(await codeOf(daemon.url, pageGet(daemon, secret)), 20000);

    const first = await operator.post("/accounts/disable/tester");
    assert.ok(first.fields.account.disabled_at !== null);
    assert.deepEqual(first.fields.account.held, { queued: 0, running: 0, webhooks: 0 });
    assert.equal(await keyCode(), 40102);
    assert.equal(await codeOf(daemon.url, pageGet(daemon, secret)), 40100);
    const again = await operator.post("/accounts/disable/tester");
    assert.deepEqual(again.fields.account, first.fields.account);

    for (let i = 0; i < 2; i++) {
      const { fields } = await operator.post("/accounts/enable/tester");
      assert.deepEqual(fields.account, {
        ...{ login: "tester", disabled_at: null, is_rotating: false, held: null },
      });
    }
    assert.equal(await keyCode(), 20000);
  },
);

test("a disabled account shows its suspended tasks, which run after it is enabled", async (t) => {
  const held = await openHeldTasks(t);
  // The clock stands still: the operation itself wakes what has to happen.
  const clock = createFakeClock({ now: Date.now() });
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const operator = await signInOperator(daemon);
  const { tasks } = await daemon.post([{ type: "hold" }, { type: "hold" }]);
  const first = await held.next();

  const disabled = await operator.post("/accounts/disable/tester");
  await first.ended;
  await daemon.daemon.idle();
  const { fields } = await operator.get("/accounts");
  await operator.post("/accounts/enable/tester");

  assert.deepEqual(disabled.fields.account.held, { queued: 1, running: 1, webhooks: 0 });
  assert.deepEqual(fields.accounts[0]?.held, { queued: 2, running: 0, webhooks: 0 });
  for (let i = 0; i < tasks.length; i++) (await held.next()).socket.end();
  await daemon.daemon.idle();
  for (const { id } of tasks) {
    const { state, runs } = await daemon.get(id);
    assert.deepEqual([state, runs], ["completed", 1]);
  }
});

clusterTest(
  "a secret has one rotation at a time, during which the account sees both secrets",
  async (t) => {
    const { daemon, operator } = await start(t);
    const secrets = async () => {
      const { webhook_secret: current, webhook_secret_next: next } = await userDataOf(daemon);
      return [current, next];
    };
    assert.equal((await operator.post("/accounts/finish/tester")).code, 40000);

    const rotating = await operator.post("/accounts/rotate/tester");
    assert.deepEqual(rotating.fields.account, {
      ...{ login: "tester", disabled_at: null, is_rotating: true, held: null },
    });
    assert.ok(!rotating.response.body.toString().includes("whsec_"));
    const [current, next] = await secrets();
    assert.equal(current, daemon.account.secret);
    assert.match(String(next), /^whsec_/);
    assert.equal((await operator.post("/accounts/rotate/tester")).code, 40000);

    const finished = await operator.post("/accounts/finish/tester");
    assert.equal(finished.fields.account.is_rotating, false);
    assert.deepEqual(await secrets(), [next, null]);
  },
);

clusterTest("accounts are listed by login, page by page, and by a part of it", async (t) => {
  const { operator } = await start(t);
  for (const login of ["a_1", "axb", "A.2", "zoe@x"]) await operator.post("/accounts", { login });
  const logins: string[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    const page: OperatorAnswer = await operator.get(`/accounts?limit=2${cursor}`);
    logins.push(...loginsOf(page));
    const { next_cursor: next } = page.fields;
    cursor = next === null ? null : `&cursor=${next}`;
  }
  assert.deepEqual(logins, ["A.2", "a_1", "axb", "tester", "zoe@x"]);

  const part = async (q: string) =>
    loginsOf(await operator.get(`/accounts?q=${encodeURIComponent(q)}`));
  assert.deepEqual(await part("test"), ["tester"]);
  assert.deepEqual(await part("a_"), ["a_1"]);
  assert.equal((await part("")).length, 5);
  for (const nothing of ["%", "*", "'", "\\", "\u0000", "t_ster", "é"]) {
    assert.deepEqual(await part(nothing), [], nothing);
  }
});

clusterTest("an account is listed with its keys, tasks and the traffic of a day", async (t) => {
  const { daemon, operator } = await start(t);
  const later = { type: "echo", start_at: farStart() };
  await daemon.post([{ type: "echo", input: 1 }, later]);
  await daemon.daemon.idle();
  const [shown] = (await operator.get("/accounts")).fields.accounts;
  assert.equal(shown?.keys_active, 1);
  assert.deepEqual(shown.tasks, {
    ...{ waiting: 0, delayed: 1, running: 0, ready: 1, retrying: 0, undelivered: 0 },
  });
  assert.deepEqual(shown.day, { posted: 2, delivered: 0, given_up: 0, refused: 0, success: null });
});

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const PAUSES = "/delivery_pauses";
const RESUME = `${PAUSES}/resume`;
const TOML = '[types.echo]\nrunner = "echo"\n[webhooks]\nallow = ["127.0.0.1", "127.0.0.2"]\n';

/** The accounts and hosts of all pauses. */
async function listed(operator: Operator) {
  const { pauses } = (await operator.get(PAUSES)).fields;
  return pauses.map(({ login, host }) => [login, host]);
}

test("a bad account, host or reason neither pauses nor resumes deliveries, and nor does a missing body", async (t) => {
  const { operator } = await start(t);
  await operator.post(PAUSES, { host: "kept.example.com" });
  const faults: readonly (readonly [field: string, values: readonly unknown[]])[] = [
    ["login", ["nobody", "", "a b", "__proto__", "\u0000"]],
    ["host", ["", "a b", "http://a.example", "a.example:80", "a..b", "x".repeat(256), "*"]],
    ["reason", ["\u0000", "\u001b[2J", "\ud800", "x".repeat(201)]],
  ];
  for (const path of [PAUSES, RESUME]) {
    for (const [field, values] of faults) {
      for (const value of values) {
        const { code, body } = await operator.post(path, { [field]: value });
        const label = `${path} ${field} ${JSON.stringify(value)}`;
        assert.deepEqual([code, body.errors?.[0]?.pointer], [40501, `/${field}`], label);
      }
    }
    // All deliveries are named by an object without members.
    assert.equal((await operator.post(path)).code, 41500);
  }
  assert.deepEqual(await listed(operator), [[null, "kept.example.com"]]);
});

test("deliveries to a paused host wait, are counted, and are sent after the resume", async (t) => {
  const paused = await startReceiver(t);
  const free = await startReceiver(t, { host: "127.0.0.2" });
  const daemon = await startTestDaemon(t, { clock: createFakeClock({ now: NOW }), toml: TOML });
  const operator = await signInOperator(daemon, NOW);

  const made = await operator.post(PAUSES, { host: "127.1", reason: "maintenance" });
  await daemon.daemon.idle();
  const pause = {
    ...{ login: null, host: "127.0.0.1", since: "2030-01-31T09:00:00.000Z" },
    ...{ reason: "maintenance", paused_by: "operator" },
  };
  assert.deepEqual(made.fields.pause, { ...pause, waiting: 0 });
  await daemon.post([
    { type: "echo", postback_url: paused.url("/a") },
    { type: "echo", postback_url: free.url("/b") },
  ]);
  await free.next();
  await daemon.daemon.idle();

  assert.deepEqual((await operator.get(PAUSES)).fields.pauses, [{ ...pause, waiting: 1 }]);
  assert.equal(paused.requests.length, 0);

  const { host, waiting, pauses_left } = (await operator.post(RESUME, { host: "127.0.0.1" }))
    .fields;
  assert.deepEqual([host, waiting, pauses_left], ["127.0.0.1", 1, 0]);
  assert.equal((await paused.next()).url, "/a");
});

clusterTest("pauses of an account, a host, both or everything are separate", async (t) => {
  const { daemon, operator } = await start(t);
  await createTestAccount(daemon.file, "ada");
  const [ada, host] = [{ login: "ada" }, { host: "a.example.com" }];
  const scopes = [{}, ada, host, { ...ada, ...host }];
  const shown = [
    [null, null],
    ["ada", null],
    [null, "a.example.com"],
    ["ada", "a.example.com"],
  ];
  for (const scope of scopes) assert.equal((await operator.post(PAUSES, scope)).code, 20000);
  assert.deepEqual(await listed(operator), shown);

  for (const [i, scope] of scopes.entries()) {
    assert.equal((await operator.post(RESUME, scope)).fields.pauses_left, 3 - i);
    assert.deepEqual(await listed(operator), shown.slice(i + 1));
    assert.equal((await operator.post(RESUME, scope)).code, 40400);
  }
});

clusterTest(
  "a second pause of the same account keeps the first reason and adds no audit entry",
  async (t) => {
    const { operator } = await start(t);
    const first = await operator.post(PAUSES, { login: "tester", reason: "incident" });
    const second = await operator.post(PAUSES, { login: "tester", reason: "another" });
    await operator.post(RESUME, { login: "tester" });

    assert.deepEqual(second.fields.pause, first.fields.pause);
    const { entries } = (await operator.get("/audit")).fields;
    assert.deepEqual(
      entries.map(({ actor, action, subject, details }) => [actor.kind, action, subject, details]),
      [
        ["operator", "delivery.resumed", "tester", { host: null }],
        ["operator", "delivery.paused", "tester", { host: null, reason: "incident" }],
        ["operator", "session.opened", null, null],
      ],
    );
  },
);

test("of more than 100 pauses the first 100 have a count, and a pause too many is 40000", async (t) => {
  const pause = { since: NOW, reason: null, pausedBy: "ada", accountId: null, login: null };
  const pauses = Array.from({ length: 101 }, (_, i) => ({ ...pause, host: `h${i}.example.com` }));
  const { url, cookie } = await startRing(t, {
    store: {
      listDeliveryPauses: async () => pauses,
      countScheduled: async () => 7,
      pauseDeliveries: async () => "too many",
    },
  });

  const list = await ask(url, { target: OPERATOR + PAUSES, headers: [...FROM_PAGE, cookie] });

  const counts = fieldsOf<OperatorFields>(list).pauses.map(({ waiting }) => waiting);
  assert.deepEqual(counts, [...Array(100).fill(7), null]);
  const refused = operatorPost(PAUSES, { body: {}, credentials: [cookie] });
  assert.equal(await codeOf(url, refused), 40000);
});
