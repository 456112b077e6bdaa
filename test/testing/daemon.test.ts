import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";

import { PostbackdError } from "../../src/client/client.ts";
import { connectDaemon, startDaemon, type TestDaemon } from "../../src/testing/testing.ts";
import { verifyPingback, verifyPostback } from "../../src/verify.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { startProgram } from "../helpers/program.ts";

// Other programs create folders in the default place.
const TEMPORARY = mkdtempSync(join(tmpdir(), "postbackd-test-"));
process.env["TMPDIR"] = TEMPORARY;
after(() => rmSync(TEMPORARY, { recursive: true }));

/** The folders of daemons. */
function leftFolders(): readonly string[] {
  return readdirSync(TEMPORARY).filter((name) => name.startsWith("postbackd-"));
}

async function startHere(t: TestContext): Promise<TestDaemon> {
  const daemon = await startDaemon();
  t.after(() => daemon.stop());
  return daemon;
}

async function startElsewhere(t: TestContext): Promise<TestDaemon> {
  const program = startProgram(t, ["dev", "--port", "0", "--clock", "manual"]);
  return connectDaemon(await program.ready);
}

test("startDaemon refuses unknown and wrong settings, and leaves no folder", async () => {
  const wrong = { database: "postbackd.db" };
  await assert.rejects(startDaemon(wrong as object), {
    message: /database.*types, config, seed, clock/,
  });
  await assert.rejects(startDaemon({ seed: 0.5 }), {
    message: /seed .*4294967295/,
  });
  await assert.rejects(
    startDaemon({ types: {}, config: { retention_days: 0 } }),
    /\n- types .*\n- retention_days /,
  );
  assert.deepEqual(leftFolders(), []);
});

test("connectDaemon refuses a daemon that is not for tests", async (t) => {
  const { url } = await startTestDaemon(t);

  await assert.rejects(connectDaemon({ url }), {
    message: /postbackd dev/,
  });
});

test("connectDaemon waits for the start of the daemon", async (t) => {
  const port = await findFreePort();
  const connected = connectDaemon({ url: `http://127.0.0.1:${port}` });
  startProgram(t, ["dev", "--port", String(port), "--clock", "manual"]);

  assert.equal((await (await connected).clock.get()).mode, "manual");
});

for (const start of [startHere, startElsewhere]) {
  test(`${start.name}: a postback has four attempts in an outage, is given up, and redelivered`, async (t) => {
    const daemon = await start(t);
    const inbox = daemon.inbox();
    await inbox.answer([], 503);
    const { id } = await daemon.client.tasks.post({ input: 42, postback_url: inbox.url });

    const events = await daemon.advance("21m");
    const attempts = await inbox.messages({ count: 4, task: id });
    const [delivery] = await daemon.client.tasks.deliveries(id);
    await inbox.clear();
    await daemon.client.tasks.redeliver(id);
    const { body, headers, signature } = await inbox.next();
    const timeline = await daemon.waitFor(id, "delivered");

    assert.deepEqual(
      events.filter(({ event }) => event === "attempt_ended").map((event) => event.delivery),
      ["scheduled", "scheduled", "scheduled", "given_up"],
    );
    assert.deepEqual(
      attempts.map(({ attempt, answered }) => [attempt, answered.status]),
      [1, 2, 3, 4].map((attempt) => [attempt, 503]),
    );
    assert.equal(delivery?.state, "given_up");
    assert.equal(signature.verdict, "valid");
    assert.ok(await verifyPostback(body, headers["x-signature"], daemon.webhookSecret));
    assert.equal(timeline.deliveries[0]?.state, "delivered");
  });
}

test("rules decide, hold and finish results", async (t) => {
  const daemon = await startHere(t);
  await daemon.results([
    { tag: "held", hold: true },
    { tag: "failing", error: "No space left." },
    { result: { bytes: 7 } },
  ]);
  const post = (tag: string) => daemon.client.tasks.post({ tag });
  const [held, failing, other] = await Promise.all(["held", "failing", "other"].map(post));
  assert.ok(held !== undefined && failing !== undefined && other !== undefined);

  const ended = await Promise.all([failing, other].map(({ id }) => daemon.client.tasks.wait(id)));
  await assert.rejects(daemon.waitFor(held.id, "ended", { timeout: 0 }), { code: 40800 });
  await daemon.finish(held.id, { result: "late" });
  const finished = await daemon.client.tasks.wait(held.id);

  assert.deepEqual(
    [...ended, finished].map(({ result, error }) => [result, error?.message]),
    [
      [null, "No space left."],
      [{ bytes: 7 }, undefined],
      ["late", undefined],
    ],
  );
});

test("accounts do not see tasks and inboxes of each other", async (t) => {
  const daemon = await startHere(t);
  const [one, two] = await Promise.all([daemon.account(), daemon.account("bob")]);
  const again = await daemon.account("bob");

  const { id } = await one.client.tasks.post({ postback_url: one.inbox().url });
  const message = await one.inbox().next();

  await assert.rejects(two.client.tasks.get(id), { code: 40401 });
  assert.deepEqual(await two.inbox().messages(), []);
  assert.equal(message.task_id, id);
  assert.deepEqual([two.login, again.webhookSecret], ["bob", two.webhookSecret]);
  assert.notEqual(one.webhookSecret, two.webhookSecret);
});

test("a sample is signed, and has its outcome", async (t) => {
  const daemon = await startHere(t);
  const inbox = daemon.inbox("samples");
  await inbox.answer([418]);
  const url = `${inbox.url}/path?id=$id`;

  const { outcome, http_status: status } = await daemon.webhook({ url, kind: "pingback" });
  const { full_url: signed, headers, kind } = await inbox.next();

  assert.deepEqual([outcome, status, kind], ["failed", 418, "pingback"]);
  assert.ok(await verifyPingback(signed, headers["x-signature"], daemon.webhookSecret));
});

test("during a rotation both secrets sign, and after it the next secret signs", async (t) => {
  const daemon = await startHere(t);
  const sent = async () => {
    await daemon.webhook({ url: daemon.inbox().url, kind: "postback" });
    return inbox.next();
  };
  const inbox = daemon.inbox();
  const old = daemon.webhookSecret;

  const next = await daemon.rotateSecret();
  await assert.rejects(daemon.rotateSecret(), /finish/);
  const during = await sent();
  await daemon.finishRotation();
  await assert.rejects(daemon.finishRotation(), /rotating/);
  const after = await sent();

  const verdicts = [
    verifyPostback(during.body, during.headers["x-signature"], old),
    verifyPostback(during.body, during.headers["x-signature-next"], next),
    verifyPostback(after.body, after.headers["x-signature"], next),
    verifyPostback(after.body, after.headers["x-signature"], old),
  ];
  assert.deepEqual(await Promise.all(verdicts), [true, true, true, false]);
});

test("a reset ends faults and rules, and keeps accounts", async (t) => {
  const daemon = await startHere(t);
  const inbox = daemon.inbox();
  await daemon.faults({ duplicate: 1 });
  await daemon.results([{ result: "ordered" }]);
  const { id } = await daemon.client.tasks.post({ postback_url: inbox.url });
  await daemon.advance({ until: "idle" });
  const twice = await inbox.messages();

  await daemon.reset();
  const left = await inbox.messages();
  await assert.rejects(daemon.client.tasks.get(id), { code: 40401 });
  await daemon.client.tasks.post({ input: "echoed", postback_url: inbox.url });
  await daemon.advance({ until: "idle" });

  const once = await inbox.messages();
  assert.deepEqual([twice.length, left.length, once.length], [2, 0, 1]);
  assert.match(once[0]?.body ?? "", /"result":"echoed"/);
});

test("the clock stands still, runs, and lists due work", async (t) => {
  const daemon = await startHere(t);
  const inbox = daemon.inbox();
  await inbox.answer([500]);
  const { id } = await daemon.client.tasks.post({ pingback_url: inbox.url });
  const at = Date.parse((await inbox.next()).received_at);
  await daemon.advance({ by: "1ms" });

  const { mode, now, next } = await daemon.clock.get();
  const events = await daemon.advance({ to: new Date(at + 60_000).toISOString() });
  const going = await daemon.clock.set("real");

  assert.deepEqual([mode, Date.parse(now), going.mode], ["manual", at + 1, "real"]);
  assert.partialDeepStrictEqual(next[0], { what: "attempt", task_id: id, kind: "pingback" });
  assert.partialDeepStrictEqual(events, [{ attempt: 2, outcome: "delivered" }]);
});

test("an inbox that waits in vain names the messages it has", async (t) => {
  const daemon = await startHere(t);
  const inbox = daemon.inbox("empty");

  const two = inbox.messages({ count: 2, wait: 0, kind: "postback" });
  await assert.rejects(two, { message: /empty: 0 of 2 postback/ });
  await assert.rejects(inbox.next({ wait: 0, task: "x" }), { message: /empty: 0 of 1 task x/ });
  await assert.rejects(inbox.answer([99]), PostbackdError);
});

test("an inbox returns all of 250 messages", async (t) => {
  const daemon = await startHere(t);
  const inbox = daemon.inbox();
  const tasks = Array.from({ length: 250 }, () => ({ postback_url: inbox.url }));

  await daemon.client.tasks.postMany(tasks);
  await daemon.advance({ until: "idle" });

  assert.equal((await inbox.messages({ kind: "postback" })).length, 250);
});

test("daemons in one program are independent, and leave nothing after a stop", async () => {
  const urls: string[] = [];
  {
    await using one = await startDaemon();
    await using two = await startDaemon({ types: { double: ({ input }) => 2 * Number(input) } });
    const task = await two.client.tasks.run({ input: 21 });
    await one.advance("1h");
    urls.push(one.url, two.url);
    assert.equal(task.result, 42);
    assert.notEqual((await one.clock.get()).now, (await two.clock.get()).now);
    assert.equal(leftFolders().length, 2);
  }
  assert.deepEqual(leftFolders(), []);
  for (const url of urls) await assert.rejects(fetch(url));
});

test("a daemon stops immediately with a held task, a hanging inbox and a wait", async () => {
  const daemon = await startDaemon();
  const inbox = daemon.inbox();
  await inbox.answer(["hang"]);
  await daemon.results([{ tag: "held", hold: true }, { result: 1 }]);
  const held = await daemon.client.tasks.post({ tag: "held" });
  await daemon.client.tasks.post({ postback_url: inbox.url });
  await inbox.next();
  const waiting = daemon.waitFor(held.id).catch((error: unknown) => error);

  await Promise.all([daemon.stop(), daemon.stop()]);

  assert.ok((await waiting) instanceof Error);
});

test("equal seeds give equal ids, keys, secrets and times", async () => {
  const record = async () => {
    await using daemon = await startDaemon({ seed: 7 });
    const { id, created_at: at } = await daemon.client.tasks.post({ input: 1 });
    return [daemon.key, daemon.webhookSecret, id, at];
  };

  assert.deepEqual(await record(), await record());
});

test("keys are random again after the stop of a daemon with a seed", async () => {
  const record = async () => {
    await (await startDaemon({ seed: 7 })).stop();
    await using daemon = await startDaemon();
    return [daemon.key, daemon.webhookSecret];
  };

  const [key, secret] = await record();
  const [otherKey, otherSecret] = await record();
  assert.notEqual(key, otherKey);
  assert.notEqual(secret, otherSecret);
});
