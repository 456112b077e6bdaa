import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";

const TOML = '[types.echo]\nrunner = "echo"\n[webhooks]\nallow = ["127.0.0.1", "127.0.0.2"]\n';

interface Answer {
  readonly login: string | null;
  readonly host: string | null;
  readonly paused: boolean;
  readonly waiting: number;
  readonly pauses_left: number;
  readonly pauses: readonly {
    readonly login: string | null;
    readonly host: string | null;
    readonly reason: string | null;
    readonly waiting: number;
  }[];
}

async function delivery(t: TestContext, file: string, words: string): Promise<Answer> {
  const command = ["admin", "delivery", ...words.split(" "), "--json", "--db", file];
  const { code, stdout, stderr } = await runProgram(t, command);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  return JSON.parse(stdout) as Answer;
}

/** Settles when the daemon has as many pauses: it looks once a second. */
async function knowsOf({ daemon }: TestDaemon, pauses: number): Promise<void> {
  while ((await daemon.gauges()).lanes.pauses !== pauses) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("a running daemon sends nothing to a host that is paused, and all of it after the resume", async (t) => {
  const paused = await startReceiver(t);
  const free = await startReceiver(t, { host: "127.0.0.2" });
  const daemon = await startTestDaemon(t, { toml: TOML });
  const { file } = daemon;

  const made = await delivery(t, file, "pause --host 127.0.0.1 --reason maintenance");
  assert.deepEqual(
    [made.paused, made.host, made.login, made.waiting],
    [true, "127.0.0.1", null, 0],
  );
  await knowsOf(daemon, 1);
  const { tasks } = await daemon.post([
    { type: "echo", postback_url: paused.url("/a") },
    { type: "echo", postback_url: free.url("/b") },
  ]);
  await free.next();
  await daemon.daemon.idle();

  const { pauses } = await delivery(t, file, "paused");
  assert.deepEqual(
    pauses.map(({ host, reason, waiting }) => [host, reason, waiting]),
    [["127.0.0.1", "maintenance", 1]],
  );
  const [explanation] = await explanationsOf(t, file, tasks[0]?.id ?? "");
  assert.match(explanation ?? "", /^paused: attempt 1.* to 127\.0\.0\.1 since .* \(maintenance\)/);
  assert.equal(paused.requests.length, 0);

  const resumed = await delivery(t, file, "resume --host 127.0.0.1");
  assert.deepEqual([resumed.waiting, resumed.pauses_left], [1, 0]);
  assert.equal((await paused.next()).url, "/a");
});

async function explanationsOf(
  t: TestContext,
  file: string,
  id: string,
): Promise<readonly string[]> {
  const { stdout } = await runProgram(
    t,
    `admin delivery show ${id} --json --db ${file}`.split(" "),
  );
  const { deliveries } = JSON.parse(stdout) as { deliveries: readonly { explanation: string }[] };
  return deliveries.map(({ explanation }) => explanation);
}

test("a daemon that is started on a copy sends none of the webhooks that wait there, until they are resumed", async (t) => {
  const receiver = await startReceiver(t);
  const cwd = temporaryFolder(t);
  const file = join(cwd, "test.db");
  const account = await createTestAccount(file);
  const first = await startTestDaemon(t, { toml: TOML, folder: cwd, account });
  await delivery(t, file, "pause --account tester");
  await knowsOf(first, 1);
  await first.post([{ type: "echo", postback_url: receiver.url("/waits") }]);
  await first.daemon.idle();
  await first.daemon.stop();
  await delivery(t, file, "resume --account tester");

  writeFileSync(join(cwd, "postbackd.toml"), TOML);
  const start = ["start", "--port", "0", "--db", file];
  const rehearsal = startProgram(t, [...start, "--pause-deliveries"], { cwd });
  await rehearsal.ready;
  await rehearsal.says("all webhooks are paused");
  const { pauses } = await delivery(t, file, "paused");
  assert.deepEqual(
    pauses.map(({ host, login, reason, waiting }) => [host, login, reason, waiting]),
    [[null, null, "start --pause-deliveries", 1]],
  );
  await rehearsal.stop();
  // A pause lasts longer than the daemon that read it.
  const again = startProgram(t, start, { cwd });
  await again.ready;
  assert.equal(receiver.requests.length, 0);
  await delivery(t, file, "resume");

  assert.equal((await receiver.next()).url, "/waits");
  assert.equal(receiver.requests.length, 1);
  await again.stop();
});

test("says how to go on where a pause or a resume changes nothing", async (t) => {
  const cwd = temporaryFolder(t);
  await createTestAccount(join(cwd, "postbackd.db"));
  const run = (words: string) => runProgram(t, `admin delivery ${words}`.split(" "), { cwd });

  const nothing = await run("paused");
  const none = await run("resume --host a.example");
  const unknown = await run("pause --account nobody");
  const once = await run("pause --account tester");
  const twice = await run("pause --account tester");
  const wider = await run("resume");

  assert.equal(nothing.stdout, "Nothing is paused.\n");
  assert.deepEqual([none.code, unknown.code, wider.code], [1, 1, 1]);
  assert.match(none.stderr, /no pause is of exactly webhooks to a\.example; .* paused' lists all/);
  assert.match(unknown.stderr, /there is no account nobody/);
  assert.match(once.stdout, /^Paused: webhooks of tester\.\n0 webhooks wait now\./);
  assert.match(twice.stdout, /^Paused already: webhooks of tester\./);
  assert.match(wider.stderr, /no pause is of exactly all webhooks/);
});

const OLD_NAMES: readonly (readonly [words: readonly string[], nearest: string])[] = [
  [["admin", "delivery", "hold"], ""],
  [["admin", "delivery", "release"], "resume"],
  [["admin", "delivery", "holds"], ""],
  [["start", "--hold-deliveries"], "--pause-deliveries"],
];

test("backup restore takes pause and resume for --deliveries, and refuses hold", async (t) => {
  const words = ["backup", "restore", "copy.db", "--deliveries", "hold"];
  const { code, stdout, stderr } = await runProgram(t, words);

  assert.deepEqual([code, stdout], [2, ""]);
  assert.match(stderr, /^postbackd: --deliveries .*pause, resume/);
});

for (const [words, nearest] of OLD_NAMES) {
  test(`postbackd ${words.join(" ")} is refused as an unknown name`, async (t) => {
    const { code, stdout, stderr } = await runProgram(t, words);

    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, new RegExp(`^postbackd: unknown (command|flag) .*${nearest}`));
  });
}
