import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { ask } from "./answer.ts";
import { OPERATOR, operatorPost, signInOperator } from "./operator-requests.ts";
import { startRing } from "./ring.ts";
import { FROM_PAGE } from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const AT = "2030-01-31T09:00:00.000Z";
const PAUSES = "/delivery_pauses";
const RESUME = `${PAUSES}/resume`;
const TOML = '[types.echo]\nrunner = "echo"\n[webhooks]\nallow = ["127.0.0.1", "127.0.0.2"]\n';

async function start(t: TestContext) {
  const daemon = await startTestDaemon(t, { toml: TOML });
  return { daemon, operator: await signInOperator(daemon) };
}

test("the paths of holds do not exist", async (t) => {
  const { operator } = await start(t);

  for (const path of ["/delivery_holds", "/delivery_holds/release"]) {
    assert.equal((await operator.post(path, {})).code, 40400, path);
  }
});

test("a bad account, host or reason is 40501, and a body that is not an object 40503: nothing is paused or resumed", async (t) => {
  const { operator } = await start(t);
  await operator.post(PAUSES, { host: "kept.example.com" });
  const faults: readonly (readonly [field: string, values: readonly unknown[]])[] = [
    [
      "login",
      ["nobody", "", "a b", "x".repeat(65), "__proto__", "\u0000", 7, ["tester"], {}, true],
    ],
    [
      "host",
      ["", "a b", "http://a.example", "a.example:80", "a..b", "x".repeat(256), "*", 7, [], {}],
    ],
    ["reason", ["\u0000", "\u001b[2J", "\ud800", "x".repeat(201), 7, {}]],
    ["logins", ["tester"]],
    ["__proto__x", [null]],
  ];
  for (const [field, values] of faults) {
    for (const value of values) {
      for (const path of [PAUSES, RESUME]) {
        const { code, body } = await operator.post(path, { [field]: value });
        assert.equal(code, 40501, `${path} ${field} ${JSON.stringify(value)}`);
        assert.equal(body.errors?.[0]?.pointer, `/${field}`);
      }
    }
  }
  for (const path of [PAUSES, RESUME]) {
    for (const [text, code] of [
      ["", 40502],
      ["[]", 40503],
      ["null", 40503],
      ["{", 40503],
    ] as const) {
      assert.equal((await operator.post(path, text)).code, code, `${path} ${text}`);
    }
    // All webhooks are named by an object without members, and never by nothing.
    assert.equal((await operator.post(path)).code, 41500);
  }

  const { pauses } = (await operator.get(PAUSES)).fields;
  assert.deepEqual(
    pauses.map(({ login, host }) => [login, host]),
    [[null, "kept.example.com"]],
  );
  const { entries } = (await operator.get("/audit?action=delivery.paused")).fields;
  assert.equal(entries.length, 1);
});

test("nothing goes out to a host that is paused, what waits is counted, and it goes out after the resume", async (t) => {
  const paused = await startReceiver(t);
  const free = await startReceiver(t, { host: "127.0.0.2" });
  const daemon = await startTestDaemon(t, { clock: createFakeClock({ now: NOW }), toml: TOML });
  const operator = await signInOperator(daemon, NOW);

  const made = await operator.post(PAUSES, { host: "127.1", reason: "maintenance" });
  await daemon.daemon.idle();
  const pause = { login: null, host: "127.0.0.1", since: AT, reason: "maintenance" };
  assert.deepEqual(made.fields.pause, { ...pause, paused_by: "operator", waiting: 0 });
  await daemon.post([
    { type: "echo", postback_url: paused.url("/a") },
    { type: "echo", postback_url: free.url("/b") },
  ]);
  await free.next();
  await daemon.daemon.idle();

  const { pauses } = (await operator.get(PAUSES)).fields;
  assert.deepEqual(pauses, [{ ...pause, paused_by: "operator", waiting: 1 }]);
  assert.equal(paused.requests.length, 0);

  const { fields } = await operator.post(RESUME, { host: "127.0.0.1" });
  const { login, host, waiting, pauses_left } = fields;
  assert.deepEqual(
    { login, host, waiting, pauses_left },
    {
      login: null,
      host: "127.0.0.1",
      waiting: 1,
      pauses_left: 0,
    },
  );
  assert.equal((await paused.next()).url, "/a");
});

clusterTest(
  "pauses of an account, a host, both and all are apart: each is resumed by naming it exactly",
  async (t) => {
    const { daemon, operator } = await start(t);
    await createTestAccount(daemon.file, "ada");
    const [ada, host] = [{ login: "ada" }, { host: "a.example.com" }];
    const scopes = [{}, ada, host, { ...ada, ...host }];
    for (const scope of scopes) assert.equal((await operator.post(PAUSES, scope)).code, 20000);
    const listed = async () =>
      (await operator.get(PAUSES)).fields.pauses.map(({ login, host }) => [login, host]);
    const shown = [
      [null, null],
      ["ada", null],
      [null, "a.example.com"],
      ["ada", "a.example.com"],
    ];
    assert.deepEqual(await listed(), shown);

    for (const [i, scope] of scopes.entries()) {
      const { fields } = await operator.post(RESUME, scope);
      assert.equal(fields.pauses_left, 3 - i);
      assert.deepEqual(await listed(), shown.slice(i + 1));
      const again = await operator.post(RESUME, scope);
      assert.equal(again.code, 40400);
      assert.match(again.body.errors?.[0]?.detail ?? "", /No pause is of exactly /);
    }
  },
);

clusterTest(
  "what is paused already keeps its first reason, and one entry of the audit says who paused it",
  async (t) => {
    const { operator } = await start(t);
    const first = await operator.post(PAUSES, { login: "tester", reason: "incident" });
    const second = await operator.post(PAUSES, { login: "tester", reason: "another" });
    await operator.post(RESUME, { login: "tester" });

    assert.deepEqual(second.fields.pause, first.fields.pause);
    const { entries } = (await operator.get("/audit")).fields;
    assert.deepEqual(
      // Before them the operator signed in.
      entries
        .slice(0, -1)
        .map(({ actor, action, subject, details }) => [
          ...[actor.kind, actor.address, action],
          ...[subject, details],
        ]),
      [
        ["operator", "127.0.0.1", "delivery.resumed", "tester", { host: null }],
        ["operator", "127.0.0.1", "delivery.paused", "tester", { host: null, reason: "incident" }],
      ],
    );
  },
);

clusterTest(
  "beyond a hundred pauses nothing is counted, and one too many is refused with what to do",
  async (t) => {
    const pause = { since: NOW, reason: null, pausedBy: "ada", accountId: null, login: null };
    const pauses = Array.from({ length: 101 }, (_, i) => ({ ...pause, host: `h${i}.example.com` }));
    const { url, cookie } = await startRing(t, {
      store: {
        listDeliveryPauses: async () => pauses,
        countScheduled: async () => 7,
        pauseDeliveries: async () => "too many",
      },
    });
    const credentials = [cookie];

    const list = await ask(url, { target: OPERATOR + PAUSES, headers: [...FROM_PAGE, cookie] });
    const refused = await ask(url, operatorPost(PAUSES, { body: {}, credentials }));

    const { pauses: listed } = Object(list.body) as { pauses: { waiting: number | null }[] };
    assert.deepEqual(
      listed.map(({ waiting }) => waiting),
      pauses.map((_, i) => (i < 100 ? 7 : null)),
    );
    assert.equal(refused.code, 40000);
    assert.match(refused.body.errors?.[0]?.detail ?? "", /There are 1000 pauses: resume some/);
  },
);
