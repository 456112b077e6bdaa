import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { seedEnded } from "../helpers/delivery.ts";
import { openNode } from "../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Receiver } from "../helpers/receiver.ts";
import { seedAccount } from "../helpers/store.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";
import { columns, documentOf, runHere } from "./in-process.ts";

const ONE_ATTEMPT = "webhooks.retry_after = []";

/** Runs `admin delivery …` on the file of a daemon that serves or has stopped. */
function delivery(t: TestContext, { file }: { readonly file: string }, words: string) {
  return runHere(t, ["admin", "delivery", ...words.split(" "), "--db", file]);
}

function document(t: TestContext, { file }: { readonly file: string }, words: string) {
  return documentOf(t, ["admin", "delivery", ...words.split(" "), "--db", file]);
}

/** Posts tasks whose postbacks go to a path each, and waits until all have ended. */
async function postAll(daemon: TestDaemon, receiver: Receiver, paths: readonly string[]) {
  const { tasks } = await daemon.post(paths.map((path) => ({ postback_url: receiver.url(path) })));
  await daemon.daemon.idle();
  return tasks.map(({ id }) => id);
}

/** A receiver that responds with 500 below /bad, and a daemon that tries once. */
async function startPair(t: TestContext) {
  const receiver = await startReceiver(t);
  receiver.answer(({ url }) => ({ kind: "status", status: url.startsWith("/bad") ? 500 : 204 }));
  const daemon = await startTestDaemon(t, { toml: ONE_ATTEMPT });
  return { receiver, daemon };
}

test("redeliver sends all deliveries that were given up, and no delivered one", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const bad = Array.from({ length: 30 }, (_, index) => `/bad/${index}`);
  await postAll(daemon, receiver, [...bad, "/good/1", "/good/2"]);
  receiver.answer({ kind: "status", status: 204 });

  const dry = await document(t, daemon, "redeliver --host 127.0.0.1 --dry-run");
  assert.deepEqual(dry.order, null);
  assert.deepEqual(dry.hosts, [{ host: "127.0.0.1", deliveries: 30 }]);
  assert.deepEqual((await document(t, daemon, "orders")).orders, []);
  assert.equal(receiver.requests.length, 32);

  await delivery(t, daemon, "redeliver --since 1h --rate 1000");
  await receiver.waitFor(62);
  await daemon.daemon.idle();

  const again = receiver.requests.slice(32).map(({ url }) => url);
  assert.deepEqual(again.toSorted(), bad.toSorted());
  assert.ok(receiver.requests.slice(32).every(({ headers }) => headers["x-attempt"] === "1"));
  const [order] = (await document(t, daemon, "orders")).orders;
  assert.deepEqual([order?.redelivered, order?.per_second], [30, 1000]);
  assert.deepEqual(order?.filter.states, ["given_up", "refused"]);
});

test(
  "redeliver --wait shows the progress of the order on a terminal",
  { skip: reasonToSkipTerminal() },
  async (t) => {
    const { receiver, daemon } = await startPair(t);
    await postAll(daemon, receiver, ["/bad/1", "/bad/2", "/bad/3"]);
    const words = "admin delivery redeliver --host 127.0.0.1 --rate 1000 --wait --db".split(" ");
    const program = startOnTerminal(t, [...words, daemon.file]);
    assert.equal(await program.exit, 0, program.shown);
    assert.match(program.shown, /3 of 3\D/);
  },
);

test("redeliver --wait reports that no daemon serves, and fails when the order is cancelled", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1"]);
  await daemon.daemon.stop();
  const filter = "redeliver --host 127.0.0.1 --wait";
  const words = ["admin", "delivery", ...filter.split(" "), "--db", daemon.file];

  const waiting = startProgram(t, words);
  await waiting.says("the order begins when one serves it");
  const [, id = ""] = /order (\S+) placed; waiting for its end/.exec(waiting.stderr) ?? [];
  const cancel = ["admin", "delivery", "cancel", id, "--db", daemon.file];
  assert.equal((await runProgram(t, cancel)).code, 0);
  const { code } = await waiting.exit;

  assert.deepEqual([code, waiting.stdout], [1, ""]);
  assert.match(waiting.stderr, new RegExp(`order ${id} is cancelled`));
});

test(
  "redeliver --wait on PostgreSQL reports that no daemon serves",
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

test("redeliver --wait names the pauses of its deliveries, and no others", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1"]);
  await delivery(t, daemon, "pause --host 127.0.0.1");
  await delivery(t, daemon, "pause --host hooks.example.com");

  const ended = await delivery(t, daemon, "redeliver --host 127.0.0.1 --wait --json");
  const { order } = JSON.parse(ended.stdout);

  assert.deepEqual([ended.code, order?.state, order?.redelivered], [0, "done", 1]);
  assert.match(ended.stderr, /paused: .*127\.0\.0\.1/);
  assert.ok(!ended.stderr.includes("hooks.example.com"));
});

test("redeliver --wait reports a disabled account, and ends after it is enabled", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1"]);
  const account = (verb: string) =>
    runProgram(t, ["admin", "account", verb, "tester", "--db", daemon.file]);
  await account("disable");
  const filter = "redeliver --account tester --wait";
  const waiting = startProgram(t, ["admin", "delivery", ...filter.split(" "), "--db", daemon.file]);

  await waiting.says("tester is disabled");
  await account("enable");

  assert.equal((await waiting.exit).code, 0, waiting.stderr);
});

test("show and redeliver TASK_ID --wait name the disabled account, and no pause of another account", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const [id] = await postAll(daemon, receiver, ["/bad/1"]);
  await createTestAccount(daemon.file, "other");
  await delivery(t, daemon, "pause --account other");
  await runHere(t, ["admin", "account", "disable", "tester", "--db", daemon.file]);

  const ended = await delivery(t, daemon, `redeliver ${id} --wait`);
  const shown = await delivery(t, daemon, `show ${id}`);
  const task = await runHere(t, ["admin", "task", "show", `${id}`, "--db", daemon.file]);

  assert.equal(ended.code, 0, ended.stderr);
  assert.match(ended.stderr, /tester is disabled: these deliveries wait until /);
  assert.doesNotMatch(ended.stderr, /paused/);
  for (const { stdout } of [shown, task]) {
    assert.match(
      stdout,
      /suspended: attempt 1, .* enable it with 'postbackd admin account enable tester'/,
    );
  }
  assert.equal(receiver.requests.length, 1);
});

test("redeliver of a task sends a delivered webhook again, of one kind alone", async (t) => {
  const { receiver, daemon } = await startPair(t);
  const { tasks } = await daemon.post({
    postback_url: receiver.url("/good"),
    pingback_url: receiver.url("/ping"),
  });
  const id = tasks[0]?.id ?? "";
  await receiver.waitFor(2);
  await daemon.daemon.idle();

  const one = await document(t, daemon, `redeliver ${id} --kind pingback`);
  const requests = await receiver.waitFor(3);
  await daemon.daemon.idle();
  const failed = await delivery(t, daemon, `redeliver ${id} --state given_up`);

  assert.equal(one.deliveries, 1);
  assert.equal(one.order?.filter.task_id, id);
  assert.equal(requests[2]?.url, "/ping");
  assert.deepEqual([failed.code, failed.stdout], [1, ""]);
  assert.match(failed.stderr, /(?:post|ping)back is delivered/);
});

test("redelivering a named task makes a scheduled webhook due", async (t) => {
  const receiver = await startReceiver(t);
  const statuses = [500];
  receiver.answer(() => ({ kind: "status", status: statuses.shift() ?? 204 }));
  const daemon = await startTestDaemon(t, { toml: '[webhooks]\nretry_after = ["1h"]\n' });
  const [id = ""] = await postAll(daemon, receiver, ["/late"]);
  await receiver.waitFor(1);
  await daemon.daemon.idle();

  const dry = await document(t, daemon, `redeliver ${id} --dry-run`);
  const sent = await document(t, daemon, `redeliver ${id}`);
  const requests = await receiver.waitFor(2);

  assert.deepEqual([dry.deliveries, sent.deliveries], [1, 1]);
  assert.equal(requests[1]?.headers["x-attempt"], "2");
});

test("an order waits for the next start of the daemon, and a cancelled order sends nothing", async (t) => {
  const { receiver, daemon } = await startPair(t);
  await postAll(daemon, receiver, ["/bad/1", "/good/1"]);
  await daemon.daemon.stop();
  receiver.answer({ kind: "status", status: 204 });
  const delivered = await document(t, daemon, "redeliver --state delivered");
  const id = delivered.order?.order_id ?? "";
  await delivery(t, daemon, "redeliver --state given_up");
  const cancelled = await delivery(t, daemon, `cancel ${id}`);
  const again = await delivery(t, daemon, `cancel ${id}`);

  const { account, folder } = daemon;
  const next = await startTestDaemon(t, { toml: ONE_ATTEMPT, account, folder });
  const requests = await receiver.waitFor(3);
  await next.daemon.idle();
  await next.daemon.stop();
  const all = (await document(t, next, "orders")).orders;
  const late = await delivery(t, next, `cancel ${all[0]?.order_id ?? ""}`);
  const shown = await delivery(t, next, "orders");

  assert.equal(cancelled.code, 0);
  assert.deepEqual([again.code, again.stdout], [0, cancelled.stdout]);
  assert.deepEqual(
    requests.slice(2).map(({ url }) => url),
    ["/bad/1"],
  );
  assert.deepEqual(columns(all, "state"), [["done"], ["cancelled"]]);
  assert.deepEqual([late.code, late.stdout], [1, ""]);
  assert.match(late.stderr, /was done/);
  assert.match(
    shown.stdout,
    /^ORDER ID .*\n.* done .* 20 +1 +--state given_up\n.* cancelled .* 0 +--state delivered\n$/,
  );
});
