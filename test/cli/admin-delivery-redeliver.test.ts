import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { seedEnded } from "../helpers/delivery.ts";
import { openNode } from "../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Receiver } from "../helpers/receiver.ts";
import { seedAccount } from "../helpers/store.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";

const ONE_ATTEMPT = "webhooks.retry_after = []";

interface OrderDocument {
  readonly order_id: string;
  readonly state: string;
  readonly redelivered: number;
  readonly per_second: number;
  readonly filter: { readonly states: readonly string[] | null; readonly task_id: string | null };
}

interface RedeliverDocument {
  readonly order: OrderDocument | null;
  readonly deliveries: number;
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
}

/** Runs `admin delivery …` on the file of a daemon that serves or has stopped. */
function delivery(t: TestContext, { file }: { readonly file: string }, words: string) {
  return runProgram(t, ["admin", "delivery", ...words.split(" "), "--db", file]);
}

async function document<Document>(
  t: TestContext,
  daemon: { readonly file: string },
  words: string,
): Promise<Document> {
  const { code, stdout, stderr } = await delivery(t, daemon, `${words} --json`);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  return JSON.parse(stdout) as Document;
}

async function orders(t: TestContext, daemon: TestDaemon): Promise<readonly OrderDocument[]> {
  const { orders: found } = await document<{ readonly orders: readonly OrderDocument[] }>(
    t,
    daemon,
    "orders",
  );
  return found;
}

/** Posts tasks whose postbacks go to a path each, and waits until all have ended. */
async function postAll(daemon: TestDaemon, receiver: Receiver, paths: readonly string[]) {
  const { tasks } = await daemon.post(paths.map((path) => ({ postback_url: receiver.url(path) })));
  await daemon.daemon.idle();
  return tasks.map(({ id }) => id);
}

/** A receiver that answers 500 below /bad and a daemon that tries once. */
async function startPair(t: TestContext) {
  const receiver = await startReceiver(t);
  receiver.answer(({ url }) => ({ kind: "status", status: url.startsWith("/bad") ? 500 : 204 }));
  const daemon = await startTestDaemon(t, { toml: ONE_ATTEMPT });
  return { receiver, daemon };
}

test("sends again what was given up, all of it and nothing that was delivered", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const bad = Array.from({ length: 30 }, (_, index) => `/bad/${index}`);
  await postAll(daemon, receiver, [...bad, "/good/1", "/good/2"]);
  receiver.answer({ kind: "status", status: 204 });

  const dry = await document<RedeliverDocument>(t, daemon, "redeliver --host 127.0.0.1 --dry-run");
  assert.deepEqual(dry.order, null);
  assert.deepEqual(dry.hosts, [{ host: "127.0.0.1", deliveries: 30 }]);
  assert.deepEqual(await orders(t, daemon), []);
  assert.equal(receiver.requests.length, 32);

  const placed = await delivery(t, daemon, "redeliver --since 1h --rate 1000");
  await receiver.waitFor(62);
  await daemon.daemon.idle();

  assert.match(
    placed.stdout,
    /^Order [0-9a-f-]{36}: 30 deliveries to send again\.\nA running daemon begins within a second, .*\n'postbackd admin delivery orders' /,
  );
  const again = receiver.requests.slice(32).map(({ url }) => url);
  assert.deepEqual(again.toSorted(), bad.toSorted());
  assert.ok(receiver.requests.slice(32).every(({ headers }) => headers["x-attempt"] === "1"));
  const [order] = await orders(t, daemon);
  assert.deepEqual([order?.redelivered, order?.per_second], [30, 1000]);
  assert.deepEqual(order?.filter.states, ["given_up", "refused"]);
});

test("waits for the end of an order when told to, and shows on a terminal how far it is", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1", "/bad/2", "/bad/3"]);
  const filter = "redeliver --host 127.0.0.1 --rate 1000 --wait";

  const { code, stdout, stderr } = await delivery(t, daemon, `${filter} --json`);
  const { order } = JSON.parse(stdout) as RedeliverDocument;
  assert.deepEqual([code, order?.state, order?.redelivered], [0, "done", 3]);
  assert.ok(stderr.startsWith(`postbackd: order ${order?.order_id} placed; waiting for its end\n`));

  await daemon.daemon.idle();
  if (reasonToSkipTerminal() !== false) return;
  const words = ["admin", "delivery", ...filter.split(" "), "--db", daemon.file];
  const program = startOnTerminal(t, words);
  assert.equal(await program.exit, 0, program.shown);
  assert.match(program.shown, /webhooks begun: 3 of 3\D/);
  assert.match(program.shown, /Order [0-9a-f-]{36} is done, with 3 deliveries sent again\./);
});

test("who waits is told that no daemon serves, and fails when the order is cancelled", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1"]);
  await daemon.daemon.stop();
  const filter = "redeliver --host 127.0.0.1 --wait";
  const words = ["admin", "delivery", ...filter.split(" "), "--db", daemon.file];

  const waiting = startProgram(t, words);
  await waiting.says("answers: the order begins when one serves it");
  const [, id = ""] = /order (\S+) placed; waiting for its end/.exec(waiting.stderr) ?? [];
  const cancelled = await delivery(t, daemon, `cancel ${id}`);
  const { code } = await waiting.exit;

  assert.equal(cancelled.code, 0, cancelled.stderr);
  assert.deepEqual([code, waiting.stdout], [1, ""]);
  assert.match(
    waiting.stderr,
    new RegExp(`postbackd: order ${id} is cancelled, with 0 deliveries sent again\n$`),
  );
});

test(
  "who waits for an order on a server is told that no daemon serves it",
  { skip: reasonToSkipPostgres() },
  async (t) => {
    const database = await newDatabaseUrl(t);
    const store = await openNode(t, database);
    await seedEnded(store, await seedAccount(store), { hosts: ["hooks.example.com"] });
    await store.close();
    const words = ["admin", "delivery", "redeliver", "--state", "given_up", "--wait"];

    const waiting = startProgram(t, [...words, "--db", database]);
    await waiting.says("no daemon serves postgres");
    const [, id = ""] = /order (\S+) placed/.exec(waiting.stderr) ?? [];
    await delivery(t, { file: database }, `cancel ${id}`);

    assert.equal((await waiting.exit).code, 1, waiting.stderr);
  },
);

test("redeliver --wait names the pauses that cover its deliveries, and no others", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1"]);
  await delivery(t, daemon, "pause --host 127.0.0.1");
  await delivery(t, daemon, "pause --host hooks.example.com");

  const ended = await delivery(t, daemon, "redeliver --host 127.0.0.1 --wait");

  assert.equal(ended.code, 0);
  assert.match(ended.stderr, /^postbackd: paused: webhooks to 127\.0\.0\.1; /m);
  assert.ok(!ended.stderr.includes("hooks.example.com"));
});

test("who waits for an order of a disabled account is told that it rests", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1"]);
  const account = (words: string) =>
    runProgram(t, ["admin", "account", ...words.split(" "), "--db", daemon.file]);
  await account("disable tester");
  const filter = "redeliver --account tester --wait";
  const waiting = startProgram(t, ["admin", "delivery", ...filter.split(" "), "--db", daemon.file]);

  await waiting.says("tester is disabled: the order rests until");
  await account("enable tester");

  assert.equal((await waiting.exit).code, 0, waiting.stderr);
});

test("says at which rate it goes and how long that takes", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1", "/bad/2", "/bad/3"]);

  const { stdout } = await delivery(t, daemon, "redeliver --host 127.0.0.1 --rate 1 --dry-run");

  assert.equal(
    stdout,
    "3 deliveries would be sent again, 1 a second, in about 3 s. Nothing was done.\n\n" +
      "HOST       DELIVERIES\n127.0.0.1  3\n",
  );
});

test("sends a named task again however it ended, and only the kind that is asked for", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const { tasks } = await daemon.post({
    postback_url: receiver.url("/good"),
    pingback_url: receiver.url("/ping"),
  });
  const id = tasks[0]?.id ?? "";
  await receiver.waitFor(2);
  await daemon.daemon.idle();

  const one = await document<RedeliverDocument>(t, daemon, `redeliver ${id} --kind pingback`);
  const requests = await receiver.waitFor(3);
  await daemon.daemon.idle();
  const failed = await delivery(t, daemon, `redeliver ${id} --state given_up`);
  const nothing = await delivery(t, daemon, "redeliver --host 127.0.0.1");

  assert.equal(one.deliveries, 1);
  assert.equal(one.order?.filter.task_id, id);
  assert.equal(requests[2]?.url, "/ping");
  assert.deepEqual([failed.code, failed.stdout], [1, ""]);
  assert.match(
    failed.stderr,
    /^postbackd: nothing that has ended .*: the (?:post|ping)back is delivered: /,
  );
  assert.equal(
    nothing.stdout,
    "No delivery that has ended passes the filter; nothing is sent again.\n",
  );
  assert.equal(nothing.code, 0);
});

test("redelivering a named task makes a scheduled webhook due", async (t) => {
  const receiver = await startReceiver(t);
  const statuses = [500];
  receiver.answer(() => ({ kind: "status", status: statuses.shift() ?? 204 }));
  const daemon = await startTestDaemon(t, { toml: '[webhooks]\nretry_after = ["1h"]\n' });
  const [id = ""] = await postAll(daemon, receiver, ["/late"]);
  await receiver.waitFor(1);
  await daemon.daemon.idle();

  const dry = await document<RedeliverDocument>(t, daemon, `redeliver ${id} --dry-run`);
  const sent = await document<RedeliverDocument>(t, daemon, `redeliver ${id}`);
  const requests = await receiver.waitFor(2);

  assert.deepEqual([dry.deliveries, sent.deliveries], [1, 1]);
  assert.equal(requests[1]?.headers["x-attempt"], "2");
});

test("keeps an order for the next start of the daemon, and a cancelled one sends nothing", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1", "/good/1"]);
  await daemon.daemon.stop();
  receiver.answer({ kind: "status", status: 204 });
  const delivered = await document<RedeliverDocument>(t, daemon, "redeliver --state delivered");
  const id = delivered.order?.order_id ?? "";
  const second = await delivery(t, daemon, "redeliver --state given_up");
  const cancelled = await delivery(t, daemon, `cancel ${id}`);
  const again = await delivery(t, daemon, `cancel ${id}`);

  const { account, folder } = daemon;
  const next = await startTestDaemon(t, { toml: ONE_ATTEMPT, account, folder });
  const requests = await receiver.waitFor(3);
  await next.daemon.idle();
  await next.daemon.stop();
  const all = await orders(t, next);
  const late = await delivery(t, next, `cancel ${all[0]?.order_id ?? ""}`);
  const shown = await delivery(t, next, "orders");

  assert.match(
    second.stdout,
    /\nA running daemon begins within a second, otherwise at its next start\./,
  );
  assert.equal(
    cancelled.stdout,
    `Order ${id} is cancelled, with 0 deliveries sent again before.\n`,
  );
  assert.deepEqual([again.code, again.stdout], [0, cancelled.stdout]);
  assert.deepEqual(
    requests.slice(2).map(({ url }) => url),
    ["/bad/1"],
  );
  assert.deepEqual(
    all.map(({ state }) => state),
    ["done", "cancelled"],
  );
  assert.deepEqual([late.code, late.stdout], [1, ""]);
  assert.match(late.stderr, /was done at 20.*, with 1 delivery sent again/);
  assert.match(
    shown.stdout,
    /^ORDER ID .*\n.* done .* 20 +1 +--state given_up\n.* cancelled .* 0 +--state delivered\n$/,
  );
});
