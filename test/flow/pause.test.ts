import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { shownDelivery, type ShownDelivery } from "./shown-delivery.ts";

const START = ["start", "--port", "0", "--allow-target", "127.0.0.0/8"];

/** The real program on a file of its own, and a client of it. */
class Served {
  readonly program: Program;
  readonly #key: string;

  constructor(program: Program, key: string) {
    this.program = program;
    this.#key = key;
  }

  async call(path: string, init: RequestInit = {}): Promise<Response> {
    const { url } = await this.program.ready;
    const headers = { authorization: `Bearer ${this.#key}`, "content-type": "application/json" };
    return fetch(url + path, { ...init, headers });
  }

  async post(postbackUrl: string): Promise<string> {
    const body = JSON.stringify({ postback_url: postbackUrl });
    const response = await this.call("/v1/tasks/task_post", { method: "POST", body });
    // The shape is the contract's.
    const { tasks } = (await response.json()) as { tasks: readonly { readonly id: string }[] };
    return tasks[0]?.id ?? assert.fail("no task was made");
  }

  /** The task's delivery, as soon as it is as wished: a receiver has its answer before that is recorded. */
  async delivery(
    id: string,
    isThere: (delivery: ShownDelivery) => boolean,
  ): Promise<ShownDelivery> {
    for (;;) {
      const delivery = await shownDelivery((path) => this.call(path), id);
      if (isThere(delivery)) return delivery;
    }
  }
}

async function serve(t: TestContext, toml: string): Promise<{ cwd: string; key: string }> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  const { key } = await createTestAccount(join(cwd, "postbackd.db"));
  return { cwd, key };
}

const PAUSE_MS = 20_000;

test("a program that is stopped for 20 s during an attempt counts it once, and sends what became due once", async (t) => {
  const { cwd, key } = await serve(t, `[webhooks]\nretry_after = ["15s"]\n`);
  const gate = createGate();
  const reply = { kind: "status", status: 204 } as const;
  const fails = await startReceiver(t, { host: "127.0.0.2" });
  fails.answerNext({ kind: "status", status: 500 });
  const answers = await startReceiver(t, { reply: { kind: "held", until: gate.opened, reply } });
  const hangs = await startReceiver(t, { host: "127.0.0.3", reply: { kind: "hang" } });
  const served = new Served(startProgram(t, START, { cwd }), key);
  const { program } = served;
  const failing = await served.post(fails.url());
  await fails.waitFor(1);
  await served.delivery(failing, ({ attempts }) => attempts.length === 2);
  const [answered, hanging] = [await served.post(answers.url()), await served.post(hangs.url())];
  await Promise.all([answers.waitFor(1), hangs.waitFor(1)]);

  program.kill("SIGSTOP");
  gate.open();
  await wait(PAUSE_MS);
  assert.equal(fails.requests.length, 1);
  program.kill("SIGCONT");

  const { attempts } = await served.delivery(answered, ({ state }) => state !== "in_flight");
  assert.deepEqual(
    attempts.map(({ outcome }) => outcome),
    ["delivered"],
  );
  const retried = await served.delivery(failing, ({ state }) => state === "delivered");
  assert.deepEqual(
    retried.attempts.map(({ outcome }) => outcome),
    ["failed", "delivered"],
  );
  const cut = await served.delivery(hanging, ({ attempts: { length } }) => length > 1);
  const [timedOut, next] = cut.attempts;
  assert.equal(timedOut?.outcome, "timed_out");
  assert.equal(next?.dueAt, timedOut.endedAt + 15_000);
  assert.ok(!program.stderr.includes("machine's clock"), "no clock was set");
  // It ends only after all that is in flight: what it would send twice has been sent by then.
  await program.stop();
  assert.deepEqual([fails.requests.length, answers.requests.length], [2, 1]);
});

test("an attempt that a crash breaks off is sent again at once with the next X-Attempt, and uses no retry", async (t) => {
  const { cwd, key } = await serve(t, `[webhooks]\nretry_after = ["1h"]\n`);
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "hang" }, { kind: "hang" }, { kind: "status", status: 500 });
  const first = new Served(startProgram(t, START, { cwd }), key);
  const id = await first.post(receiver.url());
  for (let crashes = 1; crashes <= 2; crashes++) {
    const { program } = crashes === 1 ? first : new Served(startProgram(t, START, { cwd }), key);
    await receiver.waitFor(crashes);
    program.kill("SIGKILL");
    await program.exit;
  }

  const last = new Served(startProgram(t, START, { cwd }), key);
  const { state, attempts } = await last.delivery(id, ({ attempts: all }) => all.length === 4);

  assert.equal(state, "scheduled");
  const outcomes = attempts.map(({ number, outcome }) => [number, outcome]);
  assert.deepEqual(outcomes, [
    [1, "interrupted"],
    [2, "interrupted"],
    [3, "failed"],
    [4, null],
  ]);
  const sent = receiver.requests.map(({ headers }) => headers["x-attempt"]);
  assert.deepEqual(sent, ["1", "2", "3"]);
  assert.equal(attempts[1]?.dueAt, attempts[0]?.endedAt);
  assert.equal(attempts[3]?.dueAt, (attempts[2]?.endedAt ?? NaN) + 3_600_000);
});
