import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { FieldsOf } from "../../src/api/operations.ts";
import type { RedeliveryOrder } from "../../src/api/search.ts";
import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { ask } from "./answer.ts";
import { asked, byKey, byOperator, postJson, type Asker } from "./task-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const PATH = "/v1/redeliveries";
const SINCE = "2030-01-31T00:00:00.000Z";

/** A daemon on a virtual clock whose receiver has refused `count` postbacks of each of two accounts. */
async function startFailed(t: TestContext, count = 3) {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const daemon = await startTestDaemon(t, { clock, toml: "webhooks.retry_after = []\n" });
  const account = await createTestAccount(daemon.file, "other");
  const [own, other] = [byKey(daemon), byKey({ account })];
  const operator = await byOperator(daemon, NOW);
  const tasks = Array.from({ length: count }, () => ({ postback_url: receiver.url("/") }));
  for (const who of [own, other]) {
    await ask(daemon.url, postJson("/v1/tasks/task_post", who, tasks));
  }
  const passSecond = async () => {
    clock.advance(1000);
    await daemon.daemon.idle();
  };
  await daemon.daemon.idle();
  receiver.answer({ kind: "status", status: 204 });
  await passSecond();
  const failed = receiver.requests.length;
  const sent = () => receiver.requests.length - failed;
  return { daemon, sent, passSecond, own, other, operator };
}

/** The code of a refused order, or preview, and the field that it names. */
async function refusalOf(
  daemon: TestDaemon,
  who: Asker,
  { path = PATH, ...filter }: Readonly<Record<string, unknown>> & { readonly path?: string } = {},
) {
  const { code, body } = await ask(daemon.url, postJson(path, who, { since: SINCE, ...filter }));
  return [code, body.errors?.[0]?.pointer];
}

async function place(daemon: TestDaemon, who: Asker, filter: object = {}) {
  const request = postJson(PATH, who, { since: SINCE, ...filter });
  return (await asked<{ redelivery: RedeliveryOrder }>(daemon, request)).redelivery;
}

async function list(daemon: TestDaemon, who: Asker): Promise<readonly RedeliveryOrder[]> {
  const request = { target: PATH, headers: who };
  return (await asked<FieldsOf<"GET /v1/redeliveries">>(daemon, request)).redeliveries;
}

function preview(daemon: TestDaemon, who: Asker, filter: object = {}) {
  const request = postJson(`${PATH}/preview`, who, { since: SINCE, ...filter });
  return asked<FieldsOf<"POST /v1/redeliveries/preview">>(daemon, request);
}

test("a preview counts the failed deliveries of an account, and for the operator of all accounts", async (t) => {
  const { daemon, own, operator } = await startFailed(t);
  assert.deepEqual(await preview(daemon, own), {
    ...{ status_code: 20000, status_message: "Ok.", deliveries: 3, next_cursor: null },
    hosts: [{ host: "127.0.0.1", deliveries: 3 }],
    // It would show how many deliveries other accounts have.
    examined_until: null,
  });
  assert.equal((await preview(daemon, operator)).examined_until, "2030-01-31T09:00:00.000Z");
  for (const [who, filter, deliveries] of [
    [operator, {}, 6],
    [operator, { login: "other" }, 3],
    [[...operator, "X-Account: other"], {}, 3],
    [own, { login: "tester" }, 3],
    [own, { states: ["delivered"] }, 0],
    [own, { states: ["given_up", "delivered"], kind: "postback" }, 3],
    [own, { kind: "pingback" }, 0],
    [own, { host: "127.0.0.1" }, 3],
    [own, { until: SINCE }, 0],
  ] as const) {
    assert.equal(
      (await preview(daemon, who, filter)).deliveries,
      deliveries,
      JSON.stringify(filter),
    );
  }
});

test("a bulk redelivery of an account sends its failed deliveries again and no others", async (t) => {
  const { daemon, sent, passSecond, own, operator } = await startFailed(t);
  const order = await place(daemon, own, { per_second: 50 });
  assert.deepEqual(order.filter, {
    ...{ login: "tester", host: null, kind: null, states: ["given_up", "refused"] },
    ...{ since: SINCE, until: null },
  });
  await passSecond();

  assert.equal(sent(), 3);
  const shown = await list(daemon, own);
  assert.deepEqual(
    shown.map(({ id, redelivered, is_cancelled: cancelled }) => [id, redelivered, cancelled]),
    [[order.id, 3, false]],
  );
  assert.notEqual(shown[0]?.ended_at, null);
  assert.equal((await preview(daemon, own)).deliveries, 0);
  assert.equal((await preview(daemon, operator)).deliveries, 3);
});

test("an account has one open bulk redelivery with at most 50 a second, and the operator any", async (t) => {
  const { daemon, own, other, operator } = await startFailed(t);
  await place(daemon, own, { per_second: 1 });

  assert.deepEqual((await refusalOf(daemon, own))[0], 40000);
  const named = [...operator, "X-Account: tester"];
  assert.deepEqual((await refusalOf(daemon, named))[0], 40000);
  assert.deepEqual(await refusalOf(daemon, own, { per_second: 51 }), [40501, "/per_second"]);
  assert.equal((await place(daemon, other, { per_second: 50 })).per_second, 50);
  for (let i = 0; i < 3; i++) await place(daemon, operator, { per_second: 1000 });
  assert.equal((await list(daemon, operator)).length, 5);
});

test("an account sees and cancels the bulk redeliveries for it, the operator's too, and no others", async (t) => {
  const { daemon, own, other, operator } = await startFailed(t);
  const mine = await place(daemon, own, { per_second: 1 });
  const all = await place(daemon, operator, { per_second: 1 });
  const theirs = await place(daemon, operator, { login: "other", per_second: 1 });
  const ids = async (who: Asker) => (await list(daemon, who)).map(({ id }) => id);
  assert.deepEqual(await ids(own), [mine.id]);
  assert.deepEqual(await ids(other), [theirs.id]);
  assert.deepEqual(await ids(operator), [theirs.id, all.id, mine.id]);

  for (const [who, id, code] of [
    [other, mine.id, 40400],
    [other, all.id, 40400],
    [other, "x", 40400],
    [other, "%25", 40400],
    [own, all.id, 40400],
    [other, theirs.id, 20000],
    [own, mine.id, 20000],
    [operator, all.id, 20000],
  ] as const) {
    const request = { method: "DELETE", target: `${PATH}/${id}`, headers: who };
    assert.equal((await ask(daemon.url, request)).code, code, id);
  }
  assert.ok((await list(daemon, operator)).every(({ is_cancelled: cancelled }) => cancelled));
});

test("an account's body that names another account is 40501 and sends nothing", async (t) => {
  const { daemon, own, sent, passSecond } = await startFailed(t);
  for (const path of [PATH, `${PATH}/preview`]) {
    for (const login of ["other", "nobody", "TESTER", "", "%"]) {
      assert.deepEqual(await refusalOf(daemon, own, { login, path }), [40501, "/login"], login);
    }
  }
  await passSecond();
  assert.equal(sent(), 0);
});

test("a filter with bad times, states, cursors or logins is 40501", async (t) => {
  const { daemon, own, operator } = await startFailed(t, 1);
  const bad: readonly (readonly [field: string, values: readonly unknown[]])[] = [
    ["since", ["yesterday", "", "2030-02-30T00:00:00Z"]],
    ["until", ["x"]],
    ["states", [[], ["scheduled"], ["given_up", "x"], [1]]],
    ["cursor", ["x", "YXR0ZW1wdHM"]],
    ["login", ["nobody"]],
  ];
  for (const [field, values] of bad) {
    for (const value of values) {
      const who = field === "login" ? operator : own;
      const refusal = await refusalOf(daemon, who, { [field]: value, path: `${PATH}/preview` });
      assert.deepEqual(refusal, [40501, `/${field}`], String(value));
    }
  }
});

test("an account orders 30 bulk redeliveries a minute, refused ones included", async (t) => {
  const { daemon, own } = await startFailed(t, 1);
  await place(daemon, own);
  for (let i = 1; i < 30; i++) assert.equal((await refusalOf(daemon, own))[0], 40000);
  assert.equal((await refusalOf(daemon, own))[0], 42900);
  assert.equal((await list(daemon, own)).length, 1);
});

test("an account at its limit of bytes orders nothing, and the operator may for it", async (t) => {
  const { daemon, own, operator } = await startFailed(t);
  const beside = await openBeside(t, daemon);
  await beside.changeLimits({ login: "tester", limits: { bytes: 600 } });

  assert.equal((await refusalOf(daemon, own))[0], 50700);
  assert.deepEqual(await list(daemon, own), []);
  assert.equal((await place(daemon, operator, { login: "tester" })).redelivered, 0);
});
