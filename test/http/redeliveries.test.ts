import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { deliveryFilter, newOrder } from "../helpers/delivery.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { ask } from "./answer.ts";
import { asked, byKey, byOperator, detailOf, postJson } from "./search-requests.ts";
import type { Asker, Order } from "./search-requests.ts";
import { atStore } from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const PATH = "/v1/redeliveries";
const SINCE = "2030-01-31T00:00:00.000Z";
const ONE_ATTEMPT = "webhooks.retry_after = []\n";
const JSON_HEADER = { "content-type": "application/json" };

interface Count {
  readonly deliveries: number;
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
  readonly next_cursor: string | null;
  readonly examined_until: string | null;
}

interface Called extends Pick<TestDaemon, "account"> {
  readonly who: Asker;
}

/** A daemon on a virtual clock whose receiver has refused `count` postbacks of each of two accounts. */
async function startFailed(t: TestContext, count = 3) {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const daemon = await startTestDaemon(t, { clock, toml: ONE_ATTEMPT });
  const account = await createTestAccount(daemon.file, "other");
  const [own, other]: readonly Called[] = [
    { account: daemon.account, who: byKey(daemon) },
    { account, who: byKey({ account }) },
  ];
  assert(own !== undefined && other !== undefined);
  for (const { account: of } of [own, other]) {
    const headers = { authorization: `Bearer ${of.key}`, ...JSON_HEADER };
    const tasks = Array.from({ length: count }, () => ({ postback_url: receiver.url("/") }));
    const body = JSON.stringify(tasks);
    await daemon.call("/v1/tasks/task_post", { method: "POST", headers, body });
  }
  await daemon.daemon.idle();
  receiver.answer({ kind: "status", status: 204 });
  clock.advance(1000);
  await daemon.daemon.idle();
  return { clock, receiver, daemon, own, other };
}

async function place(daemon: TestDaemon, who: Asker, filter: object = {}): Promise<Order> {
  const request = postJson(PATH, who, { since: SINCE, ...filter });
  return (await asked<{ redelivery: Order }>(daemon, request)).redelivery;
}

async function list(daemon: TestDaemon, who: Asker): Promise<readonly Order[]> {
  const request = { target: PATH, headers: who };
  return (await asked<{ redeliveries: readonly Order[] }>(daemon, request)).redeliveries;
}

function preview(daemon: TestDaemon, who: Asker, filter: object = {}): Promise<Count> {
  return asked(daemon, postJson(`${PATH}/preview`, who, { since: SINCE, ...filter }));
}

test("a preview counts what has failed: of an account its own, of the operator all or one's", async (t) => {
  const { daemon, own, clock } = await startFailed(t);
  const operator = await byOperator(daemon, clock.now());
  const count = async (who: Asker, filter: object = {}) =>
    (await preview(daemon, who, filter)).deliveries;

  assert.deepEqual(await preview(daemon, own.who), {
    ...{ status_code: 20000, status_message: "Ok.", deliveries: 3, next_cursor: null },
    ...{
      hosts: [{ host: "127.0.0.1", deliveries: 3 }],
      // How far so many attempts reach back would tell how many others make.
      examined_until: null,
    },
  });
  assert.equal((await preview(daemon, operator)).examined_until, "2030-01-31T09:00:00.000Z");
  assert.equal(await count(operator), 6);
  assert.equal(await count(operator, { login: "other" }), 3);
  assert.equal(await count([...operator, "X-Account: other"]), 3);
  assert.equal(await count(own.who, { login: "tester" }), 3);
  assert.equal(await count(own.who, { states: ["delivered"] }), 0);
  assert.equal(await count(own.who, { states: ["given_up", "delivered"], kind: "postback" }), 3);
  assert.equal(await count(own.who, { kind: "pingback" }), 0);
  assert.equal(await count(own.who, { host: "127.0.0.1" }), 3);
  assert.equal(await count(own.who, { until: SINCE }), 0);
});

test("an order sends again what is its account's, and nobody else's", async (t) => {
  const { daemon, receiver, own, clock } = await startFailed(t);
  const before = receiver.requests.length;
  const order = await place(daemon, own.who, { per_second: 50 });
  assert.deepEqual(order.filter, {
    ...{ login: "tester", host: null, kind: null, states: ["given_up", "refused"] },
    ...{ since: SINCE, until: null },
  });
  clock.advance(1000);
  await daemon.daemon.idle();

  assert.equal(receiver.requests.length - before, 3);
  const [ended, ...others] = await list(daemon, own.who);
  assert.deepEqual(others, []);
  assert.deepEqual([ended?.id, ended?.redelivered, ended?.is_cancelled], [order.id, 3, false]);
  assert.notEqual(ended?.ended_at, null);
  assert.equal((await preview(daemon, own.who)).deliveries, 0);
  assert.equal((await preview(daemon, await byOperator(daemon, clock.now()))).deliveries, 3);
});

test("a slow order of one account does not hold up another's", async (t) => {
  const { daemon, own, other, clock } = await startFailed(t, 5);
  await place(daemon, own.who, { per_second: 1 });
  await place(daemon, other.who, { per_second: 50 });
  clock.advance(1000);
  await daemon.daemon.idle();

  assert.deepEqual(
    (await list(daemon, other.who)).map(({ redelivered, ended_at }) => [
      redelivered,
      ended_at !== null,
    ]),
    [[5, true]],
  );
  assert.deepEqual(
    (await list(daemon, own.who)).map(({ redelivered, ended_at }) => [redelivered, ended_at]),
    [[1, null]],
  );
});

test("an account has one open order at a time and fifty a second at most; the operator has neither bound", async (t) => {
  const { daemon, own, other, clock } = await startFailed(t);
  const operator = await byOperator(daemon, clock.now());
  await place(daemon, own.who, { per_second: 1 });

  const busy = await ask(daemon.url, postJson(PATH, own.who, { since: SINCE }));
  assert.equal(busy.code, 40000);
  assert.match(detailOf(busy), /not worked off yet: wait for its end, or cancel it/);
  const named = postJson(PATH, [...operator, "X-Account: tester"], { since: SINCE });
  assert.equal((await ask(daemon.url, named)).code, 40000);
  assert.equal((await place(daemon, other.who, { per_second: 50 })).per_second, 50);
  const fast = await ask(daemon.url, postJson(PATH, own.who, { since: SINCE, per_second: 51 }));
  assert.deepEqual([fast.code, fast.body.errors?.[0]?.pointer], [40501, "/per_second"]);
  for (let i = 0; i < 3; i++) await place(daemon, operator, { per_second: 1000 });
  assert.equal((await list(daemon, operator)).length, 5);
});

test("an account neither sees nor cancels what is not for it, and does both with the operator's for it", async (t) => {
  const { daemon, own, other, clock } = await startFailed(t);
  const operator = await byOperator(daemon, clock.now());
  const mine = await place(daemon, own.who, { per_second: 1 });
  const all = await place(daemon, operator, { per_second: 1 });
  const theirs = await place(daemon, operator, { login: "other", per_second: 1 });
  const cancel = (who: Asker, id: string) =>
    ask(daemon.url, { method: "DELETE", target: `${PATH}/${id}`, headers: who });
  const ids = async (who: Asker) => (await list(daemon, who)).map(({ id }) => id);

  assert.deepEqual(await ids(own.who), [mine.id]);
  assert.deepEqual(await ids(other.who), [theirs.id]);
  assert.deepEqual(await ids(operator), [theirs.id, all.id, mine.id]);
  for (const id of [mine.id, all.id, "x", "%25"]) {
    assert.equal((await cancel(other.who, id)).code, 40400, id);
  }
  assert.equal((await cancel(own.who, all.id)).code, 40400);
  assert.ok((await list(daemon, operator)).every(({ ended_at }) => ended_at === null));
  assert.equal((await cancel(other.who, theirs.id)).code, 20000);
  assert.equal((await cancel(own.who, mine.id)).code, 20000);
  assert.equal((await cancel(operator, all.id)).code, 20000);
  assert.ok((await list(daemon, operator)).every(({ is_cancelled }) => is_cancelled));
});

test("no word of a body reaches beyond the account", async (t) => {
  const { daemon, own, receiver, clock } = await startFailed(t);
  const before = receiver.requests.length;
  for (const target of [PATH, `${PATH}/preview`]) {
    for (const login of ["other", "nobody", "TESTER", "", "%"]) {
      const answer = await ask(daemon.url, postJson(target, own.who, { since: SINCE, login }));
      assert.deepEqual([answer.code, answer.body.errors?.[0]?.pointer], [40501, "/login"]);
    }
    for (const extra of [{ accountId: 2 }, { account: "other" }, { scope: null }]) {
      const answer = await ask(daemon.url, postJson(target, own.who, { since: SINCE, ...extra }));
      assert.equal(answer.code, 40501);
    }
  }
  clock.advance(1000);
  await daemon.daemon.idle();
  assert.equal(receiver.requests.length, before);
});

test("what a filter cannot be is refused with the field", async (t) => {
  const { daemon, own, clock } = await startFailed(t, 1);
  const operator = await byOperator(daemon, clock.now());
  const pointer = async (who: Asker, body: object) =>
    (await ask(daemon.url, postJson(`${PATH}/preview`, who, body))).body.errors?.[0]?.pointer;

  assert.equal(await pointer(own.who, {}), "/since");
  for (const since of ["yesterday", 1, "", "2030-02-30T00:00:00Z", null]) {
    assert.equal(await pointer(own.who, { since }), "/since");
  }
  for (const states of [[], ["scheduled"], ["given_up", "x"], "given_up", [1], {}]) {
    assert.equal(await pointer(own.who, { since: SINCE, states }), "/states");
  }
  for (const cursor of ["x", 1, "YXR0ZW1wdHM", {}]) {
    assert.equal(await pointer(own.who, { since: SINCE, cursor }), "/cursor");
  }
  assert.equal(await pointer(operator, { since: SINCE, login: "nobody" }), "/login");
  assert.equal(await pointer(own.who, { since: SINCE, until: "x" }), "/until");
  assert.equal(await pointer(own.who, { since: SINCE, kind: "x" }), "/kind");
  const nobody = await ask(daemon.url, postJson(PATH, [], { since: SINCE }));
  assert.equal(nobody.code, 40100);
});

test("an order that the command line gave is shown beside the others", async (t) => {
  const { daemon, own, clock } = await startFailed(t, 1);
  const filter = deliveryFilter({ login: "tester" });
  const order = newOrder({ filter, createdAt: clock.now() });
  await atStore(daemon.file, (store) => store.orderRedelivery({ ...order, openMax: null }));

  const [shown] = await list(daemon, own.who);
  assert.deepEqual(shown?.filter, {
    ...{ login: "tester", host: null, kind: null, states: null, since: null, until: null },
  });
});

test("thirty orders a minute are an account's share", async (t) => {
  const { daemon, own } = await startFailed(t, 1);
  const [{ id }] = [await place(daemon, own.who)];
  for (let i = 1; i < 30; i++) {
    assert.equal((await ask(daemon.url, postJson(PATH, own.who, { since: SINCE }))).code, 40000);
  }
  const late = await ask(daemon.url, postJson(PATH, own.who, { since: SINCE }));
  assert.equal(late.code, 42900);
  assert.deepEqual(
    (await list(daemon, own.who)).map((order) => order.id),
    [id],
  );
});

test("an account with as many bytes as it may have orders nothing, and the operator still may for it", async (t) => {
  const { daemon, own, clock } = await startFailed(t);
  const operator = await byOperator(daemon, clock.now());
  const beside = await openBeside(t, daemon);
  await beside.changeLimits({ login: "tester", limits: { bytes: 600 } });

  const refused = await ask(daemon.url, postJson(PATH, own.who, { since: SINCE }));

  assert.equal(refused.code, 50700);
  assert.match(detailOf(refused), /may have 600 bytes of tasks.*each attempt adds some/);
  assert.deepEqual(await list(daemon, own.who), []);
  assert.equal((await place(daemon, operator, { login: "tester" })).redelivered, 0);
});
