import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { getEventListeners, once } from "node:events";
import { readdir } from "node:fs/promises";
import { test } from "node:test";

import type { CommandLine } from "../../src/domain/task/run.ts";
import type { RunOutcome } from "../../src/run/runner.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  TIMEOUT_MS,
  completed,
  drive,
  fixture,
  makeFolder,
  node,
  openHeldProcesses,
  run,
  sh,
  timerOf,
} from "./command-run.ts";

/** Asserts how a run ended, without its message. */
function assertEnd(outcome: RunOutcome, kind: "failed" | "timed_out", end: object): void {
  assert.ok(outcome.kind === kind, JSON.stringify(outcome));
  assert.deepEqual(outcome.detail, { exit_code: null, signal: null, stderr: "", ...end });
}

test("a command that writes past the limit and ignores SIGTERM is killed after 5 s", async () => {
  const clock = createFakeClock({ now: 0 });
  const running = run(node("flood.mjs", "ignore-term"), { clock });

  await timerOf(clock, 5000);
  clock.advance(5000);

  assertEnd(await running, "failed", { signal: "SIGKILL" });
});

test("a timeout ends the command with SIGTERM", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const running = run(node("hold.mjs", held.socketPath), { clock });
  await held.next();

  clock.advance(TIMEOUT_MS);

  assertEnd(await running, "timed_out", { signal: "SIGTERM" });
  assert.deepEqual(clock.pending(), []);
});

test("a command that ignores SIGTERM is killed 5 s later and not before", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const running = run(node("hold.mjs", held.socketPath, "ignore-term"), { clock });
  const hold = await held.next();
  const pid = Number(await hold.line());

  clock.advance(TIMEOUT_MS);
  assert.equal(await hold.line(), "SIGTERM");
  clock.advance(4999);
  process.kill(pid, "SIGTERM");
  assert.equal(await hold.line(), "SIGTERM");
  clock.advance(1);

  assertEnd(await running, "timed_out", { signal: "SIGKILL" });
  assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
});

test("a command that exits with 0 on SIGTERM has timed out", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const running = run(node("hold.mjs", held.socketPath, "exit-0"), { clock });
  const hold = await held.next();
  await hold.line();

  clock.advance(TIMEOUT_MS);

  assertEnd(await running, "timed_out", { exit_code: 0 });
});

test("a command that ignores the SIGTERM of an abort is killed 5 s later", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const abort = new AbortController();
  const command = node("hold.mjs", held.socketPath, "ignore-term");
  const running = run(command, { clock, signal: abort.signal });
  const hold = await held.next();
  await hold.line();

  abort.abort();
  assert.equal(await hold.line(), "SIGTERM");
  clock.advance(5000);

  assert.deepEqual(await running, { kind: "aborted" });
  await hold.ended;
});

test("a run aborted before it begins starts no process", async (t) => {
  const folder = await makeFolder(t);

  const outcome = await run(["touch", "started"], { cwd: folder, signal: AbortSignal.abort() });

  assert.deepEqual(outcome, { kind: "aborted" });
  assert.deepEqual(await readdir(folder), []);
});

test("a fork of a command ends with it at a timeout", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const command = node("fork.mjs", held.socketPath, "", "group", "stay");
  const running = run(command, { clock });
  const fork = await held.next();

  clock.advance(TIMEOUT_MS);
  const outcome = await drive(clock, running);

  assert.equal(outcome.kind, "timed_out");
  await fork.ended;
});

test("a fork that ignores SIGTERM is killed 5 s after the command", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const command = node("fork.mjs", held.socketPath, "ignore-term", "group", "stay");
  const running = run(command, { clock });
  const fork = await held.next();
  const pid = Number(await fork.line());

  clock.advance(TIMEOUT_MS);
  assert.equal(await fork.line(), "SIGTERM");
  await timerOf(clock, 2);
  clock.advance(4999);
  process.kill(pid, "SIGTERM");
  assert.equal(await fork.line(), "SIGTERM");
  clock.advance(1);
  await fork.ended;

  assert.equal((await drive(clock, running)).kind, "timed_out");
});

test("processes that a command leaves in its group are ended, and its result is kept", async (t) => {
  const held = await openHeldProcesses(t);
  const running = run(node("fork.mjs", held.socketPath, "", "group", "exit"));
  const fork = await held.next();

  assert.deepEqual(await running, completed('"forked"'));
  await fork.ended;
});

test("a fork outside the group that holds stdout delays the result by 1 s", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const running = run(node("fork.mjs", held.socketPath, "", "detached", "exit"), { clock });
  const fork = await held.next();
  const pid = Number(await fork.line());
  t.after(() => process.kill(pid, "SIGKILL"));

  await timerOf(clock, 1000);
  clock.advance(1000);

  assert.deepEqual(await running, completed('"forked"'));
  assert.deepEqual(clock.pending(), []);
});

test("commands that run when the daemon exits are killed", async (t) => {
  const held = await openHeldProcesses(t);
  const args = [fixture("leave-running.ts"), held.socketPath];
  const daemon = spawn(process.execPath, args, { stdio: "inherit" });
  const connections = [await held.next(), await held.next()];

  for (const { socket } of connections) socket.write("exit\n");

  assert.deepEqual(await once(daemon, "exit"), [1, null]);
  await Promise.all(connections.map(({ ended }) => ended));
});

test("runs of every kind leave no process, descriptor, listener or timer behind", async (t) => {
  const countDescriptors = async (): Promise<number> => (await readdir("/proc/self/fd")).length;
  if ((await countDescriptors().catch(() => 0)) === 0) return t.skip("this system has no /proc");
  const clock = createFakeClock({ now: 0 });
  const { signal } = new AbortController();
  const commands: CommandLine[] = [
    sh("echo $$"),
    sh("echo $$; exit 1"),
    ["no-such-program"],
    sh("echo $$ >&2; yes"),
  ];
  const exitListeners = process.listenerCount("exit");
  const runAll = (): Promise<RunOutcome[]> =>
    drive(clock, Promise.all(commands.map((command) => run(command, { clock, signal }))));
  await runAll();
  const descriptors = await countDescriptors();

  for (let i = 0; i < 10; i++) await runAll();
  const [outcome] = await runAll();

  // A connection of an earlier test may have closed meanwhile.
  assert.ok((await countDescriptors()) <= descriptors);
  assert.equal(process.listenerCount("exit"), exitListeners);
  assert.equal(getEventListeners(signal, "abort").length, 0);
  assert.deepEqual(clock.pending(), []);
  assert.ok(outcome?.kind === "completed");
  assert.throws(() => process.kill(Number(outcome.resultText), 0), { code: "ESRCH" });
});
