import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { commandHost } from "../../src/assets.ts";
import type { CommandLine, TaskProgress } from "../../src/domain/task/run.ts";
import { CommandHost, type CommandHostOptions } from "../../src/run/command-host.ts";
import type { Runner, RunOutcome } from "../../src/run/runner.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { isThere } from "../helpers/process.ts";
import { completed, makeFolder, node, openHeldProcesses, runOnce, sh } from "./command-run.ts";

/** A host that ends with the test. */
function makeHost(
  t: TestContext,
  command: CommandLine = commandHost,
  reports: Pick<CommandHostOptions, "lost" | "notStarted"> = {},
): CommandHost {
  const host = new CommandHost({ command, owner: `test-${process.pid}`, ...reports });
  t.after(() => host.close());
  return host;
}

function makeRunner(host: CommandHost, command: CommandLine, timeoutMs = 60_000): Runner {
  const limits = { timeoutMs, concurrency: 2, resultBytesMax: 4_194_304 };
  return host.createRunner({ command, ...limits, env: { GREETING: "hello" }, cwd: process.cwd() });
}

test("a host runs commands of several runners, each with its own options", async (t) => {
  const host = makeHost(t);
  const greet = makeRunner(host, sh('echo "$GREETING" "$POSTBACKD_TASK_ID"'));
  const fail = makeRunner(host, sh("echo no >&2; exit 3"));

  const outcomes = await Promise.all([runOnce(greet), runOnce(fail), runOnce(greet)]);

  const greeting = completed('"hello t-1"');
  const detail = { exit_code: 3, signal: null, stderr: "no\n" };
  assert.partialDeepStrictEqual(outcomes, [greeting, { kind: "failed", detail }, greeting]);
  assert.equal(greet.concurrency, 2);
});

test("a new host gets no runners that a reload has replaced", async (t) => {
  const log = join(await makeFolder(t), "messages");
  const host = makeHost(t, ["sh", "-c", 'tee "$0" | "$@"', log, ...commandHost]);
  for (const word of ["first", "second"]) makeRunner(host, sh(`echo '"${word}"'`));

  const outcome = await runOnce(makeRunner(host, sh("echo '\"third\"'")));

  assert.deepEqual(outcome, completed('"third"'));
  assert.doesNotMatch(readFileSync(log, "utf8"), /first|second/);
});

test("a host passes 1 MiB of input and output, every digit and character of it", async (t) => {
  const inputText = `["${"é\\u0000😀\\ud800\u2028".repeat(80_000)}",12345678901234567890,1.50]`;

  const outcome = await runOnce(makeRunner(makeHost(t), sh("cat")), { inputText });

  assert.equal(outcome.kind, "completed");
  assert.ok(outcome.resultText.endsWith(",12345678901234567890,1.50]}"));
  assert.deepEqual(
    (JSON.parse(outcome.resultText) as { input: unknown }).input,
    JSON.parse(inputText),
  );
});

test("a host passes on progress, and an abort", async (t) => {
  const { promise: reported, resolve: report } = Promise.withResolvers<TaskProgress>();
  const abort = new AbortController();
  const script = 'echo "{\\"progress\\": 0.5, \\"note\\": \\"half\\"}" >&3; exec sleep 1000';
  const running = runOnce(makeRunner(makeHost(t), sh(script)), { report, signal: abort.signal });

  assert.deepEqual(await reported, { progress: 0.5, note: "half" });
  abort.abort();

  assert.deepEqual(await running, { kind: "aborted" });
});

test("a host stops a command at its timeout", async (t) => {
  const outcome = await runOnce(makeRunner(makeHost(t), sh("exec sleep 1000"), 50));

  assert.partialDeepStrictEqual(outcome, { kind: "timed_out", detail: { signal: "SIGTERM" } });
});

test("output of a module that every process of Node loads does not disturb the host", async (t) => {
  const banner = 'echo "agent 1.0"; printf "[1]"; exec "$@"';
  const runner = makeRunner(makeHost(t, sh(banner, ...commandHost)), sh("echo 7"));

  assert.deepEqual(await runOnce(runner), completed("7"));
});

test("a run that was aborted before it began starts no host", async (t) => {
  const runner = makeRunner(makeHost(t, ["no-such-host"]), sh("exit 0"));

  assert.deepEqual(await runOnce(runner, { signal: AbortSignal.abort() }), { kind: "aborted" });
});

const faulty: readonly (readonly [string, (t: TestContext) => Promise<CommandLine>])[] = [
  ["is not there", async () => ["no-such-host"]],
  ["cannot be executed", async (t) => [await makeFolder(t)]],
  ["ends at once", async () => ["true"]],
];
for (const [rule, command] of faulty) {
  test(`with a host that ${rule} a run is unstarted, and the next start waits`, async (t) => {
    const failures: { readonly reason: string; readonly retry_ms: number }[] = [];
    const host = makeHost(t, await command(t), {
      notStarted: (facts) => void failures.push(facts),
    });
    const runner = makeRunner(host, sh("exit 0"));
    const unstarted = { kind: "aborted", isUnstarted: true };

    assert.deepEqual(await runOnce(runner), unstarted);
    const begun = performance.now();
    const waited = await Promise.all([runOnce(runner), runOnce(runner)]);

    assert.deepEqual(waited, [unstarted, unstarted]);
    assert.equal(failures.length, 2, "runs that wait for the same start share it");
    const [first] = failures;
    assert.ok(first !== undefined && first.reason !== "" && first.retry_ms >= 125);
    assert.ok(performance.now() - begun >= first.retry_ms - 1);
  });
}

test("an abort ends the wait for the next start of a host", async (t) => {
  const runner = makeRunner(makeHost(t, ["no-such-host"]), sh("exit 0"));
  // After three failed starts the wait is 500 ms at least.
  for (let starts = 0; starts < 3; starts++) await runOnce(runner);
  const abort = new AbortController();
  const running = runOnce(runner, { signal: abort.signal });

  abort.abort();

  assert.deepEqual(await running, { kind: "aborted" });
});

test("a fifth lost host fails the task", async (t) => {
  const runner = makeRunner(makeHost(t), sh("kill -KILL $PPID; exec sleep 1000"));
  const outcomes: RunOutcome[] = [];

  for (let run = 0; run < 6; run++) outcomes.push(await runOnce(runner));

  const kinds = outcomes.map(({ kind }) => kind);
  const again = "aborted";
  assert.deepEqual(kinds, [again, again, again, again, "failed", again]);
});

test("a task completes in its first counted run after five failed starts of the host", async (t) => {
  const count = join(await makeFolder(t), "starts");
  const failsFiveTimes = `echo >> ${count}; [ $(wc -l < ${count}) -gt 5 ] || exit 1; exec "$@"`;
  const toml = `[types.c]\ncommand = ["echo", "7"]\n`;
  const flaky = sh(failsFiveTimes, ...commandHost);
  const { daemon, post, get } = await startTestDaemon(t, { toml, commandHost: flaky });
  const { tasks } = await post({ type: "c" });

  await daemon.idle();

  const { state, result, runs } = await get(tasks[0]?.id ?? "");
  assert.deepEqual({ state, result, runs }, { state: "completed", result: 7, runs: 1 });
});

test("a run after the end of a host starts another host, and the end is reported once", async (t) => {
  const held = await openHeldProcesses(t);
  const told: number[] = [];
  const host = makeHost(t, commandHost, { lost: ({ runs }) => void told.push(runs) });
  const holding = runOnce(makeRunner(host, node("hold.mjs", held.socketPath)));
  const parent = makeRunner(host, sh("echo $PPID"));
  const first = await runOnce(parent);
  const hold = await held.next();
  assert.ok(first.kind === "completed");

  process.kill(Number(first.resultText), "SIGKILL");

  assert.deepEqual(await holding, { kind: "aborted" });
  await hold.ended;
  const second = await runOnce(parent);
  assert.equal(second.kind, "completed");
  assert.notDeepEqual(second, first);
  assert.deepEqual(told, [1]);
});

test("a host that hangs past the timeout of a run is killed with its commands, and the run is repeated", async (t) => {
  const held = await openHeldProcesses(t);
  const host = new CommandHost({
    command: commandHost,
    owner: `hung-${process.pid}`,
    overdueMs: 0,
  });
  t.after(() => host.close());
  const stop = `kill -STOP $PPID; exec ${node("hold.mjs", held.socketPath).join(" ")}`;
  const running = runOnce(makeRunner(host, sh(stop), 1000));
  const hold = await held.next();

  assert.deepEqual(await running, { kind: "aborted" });
  await hold.ended;
});

test("the environment of the host has no variable of the daemon", async (t) => {
  process.env["POSTBACKD_TEST_SECRET"] = "s3cret";
  t.after(() => delete process.env["POSTBACKD_TEST_SECRET"]);
  const script = "tr '\\0' '\\n' < /proc/$PPID/environ | grep -c s3cret || true";

  assert.deepEqual(await runOnce(makeRunner(makeHost(t), sh(script))), completed("0"));
});

test("a daemon that stops ends the host", async (t) => {
  const command = JSON.stringify(sh("echo $PPID"));
  const toml = `[types.parent]\ncommand = ${command}\n`;
  const { daemon, post, get } = await startTestDaemon(t, { toml, commandHost });
  const { tasks } = await post({ type: "parent" });
  await daemon.idle();
  const { result: hostPid } = await get(tasks[0]?.id ?? "");
  assert.ok(typeof hostPid === "number" && isThere(hostPid));

  await daemon.stop();

  while (isThere(hostPid)) {
    t.signal.throwIfAborted();
    await new Promise((resolve) => setImmediate(resolve));
  }
});
