import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { ServiceManager } from "../../src/ops/service.ts";
import type { ProgramEnd } from "../../src/run/program.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const DONE: ProgramEnd = { kind: "exited", code: 0 };
const MANAGED = { NOTIFY_SOCKET: "/run/notify", WATCHDOG_USEC: "30000000", PATH: "/usr/bin" };

/** A daemon's service manager; `answer` is how each message goes. */
function setUp(
  given: Record<string, string>,
  answer: () => Promise<ProgramEnd> = async () => DONE,
) {
  const env: Record<string, string | undefined> = { ...given };
  const clock = createFakeClock({ now: 0 });
  const sent: (readonly string[])[] = [];
  const lines: (readonly [LogFacts, string])[] = [];
  const none = (): void => assert.fail("it only logs errors");
  const error: Logger["error"] = (facts, message) => void lines.push([facts, message]);
  const log: Logger = { debug: none, info: none, warn: none, error };
  const run: ConstructorParameters<typeof ServiceManager>[0]["run"] = (command) => {
    sent.push(command);
    return answer();
  };
  const manager = new ServiceManager({ env, pid: 7, log, clock, run });
  return { manager, env, clock, sent, lines };
}

/** Lets everything go on that waits for no timer. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("without a NOTIFY_SOCKET nothing is run", async () => {
  const { manager, clock, sent } = setUp({ WATCHDOG_USEC: "30000000" });
  manager.watch(async () => {});
  await manager.ready("Serving");
  await manager.stopping();

  clock.advance(60_000);
  await settle();

  assert.deepEqual(sent, []);
  assert.deepEqual(clock.pending(), []);
});

test("the variables of the service manager are removed for commands", () => {
  const { env } = setUp({ ...MANAGED, WATCHDOG_PID: "7" });

  assert.deepEqual(env, { PATH: "/usr/bin" });
});

test("messages are sent one after another", async () => {
  const turns: (() => void)[] = [];
  const { manager, sent } = setUp(MANAGED, () => {
    return new Promise((resolve) => turns.push(() => resolve(DONE)));
  });
  void manager.reloading();
  const last = manager.ready("Serving");
  await settle();
  assert.deepEqual(
    sent.map(([, first]) => first),
    ["RELOADING=1"],
  );

  turns.shift()?.();
  await settle();
  turns.shift()?.();
  await last;

  assert.deepEqual(sent[1], ["systemd-notify", "READY=1", "STATUS=Serving"]);
  assert.match(sent[0]?.[2] ?? "", /^MONOTONIC_USEC=\d+$/);
});

test("the watchdog gets two messages in each span while the writer works", async () => {
  const { manager, clock, sent } = setUp(MANAGED);
  const writes: (() => void)[] = [];
  manager.watch(() => new Promise((resolve) => writes.push(resolve)));
  const pass = async (): Promise<void> => {
    clock.advance(15_000);
    await settle();
  };
  await pass();
  assert.deepEqual(sent, []);
  writes.shift()?.();
  await settle();
  assert.deepEqual(sent, [["systemd-notify", "WATCHDOG=1"]]);

  for (const _ of [1, 2, 3]) await pass();
  assert.equal(writes.length, 1);
  assert.equal(sent.length, 1);

  writes.shift()?.();
  await settle();
  await pass();
  writes.shift()?.();
  await settle();
  assert.equal(sent.length, 3);
});

test("a watchdog of another process gets no message", async () => {
  const { manager, clock, sent } = setUp({ ...MANAGED, WATCHDOG_PID: "8" });
  manager.watch(async () => {});

  clock.advance(60_000);
  await settle();

  assert.deepEqual(sent, []);
});

test("a failed message to the manager is logged once", async () => {
  const { manager, lines } = setUp(MANAGED, async () => ({
    kind: "not_started",
    errorCode: "ENOENT",
  }));

  await manager.ready("Serving");
  await manager.stopping();

  assert.equal(lines.length, 1);
  assert.match(lines[0]?.[1] ?? "", /systemd-notify.+NotifyAccess=all/);
});
