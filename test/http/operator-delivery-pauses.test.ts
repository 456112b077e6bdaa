import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { fieldsOf } from "./account.ts";
import { ask, codeOf } from "./answer.ts";
import {
  OPERATOR,
  operatorPost,
  signInOperator,
  type Operator,
  type OperatorFields,
} from "./operator-requests.ts";
import { startRing } from "./ring.ts";
import { FROM_PAGE } from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const PAUSES = "/delivery_pauses";
const RESUME = `${PAUSES}/resume`;
const TOML = '[types.echo]\nrunner = "echo"\n[webhooks]\nallow = ["127.0.0.1", "127.0.0.2"]\n';

async function start(t: TestContext) {
  const daemon = await startTestDaemon(t, { toml: TOML });
  return { daemon, operator: await signInOperator(daemon) };
}

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
