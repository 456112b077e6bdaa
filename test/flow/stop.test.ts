import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { test, type TestContext } from "node:test";

import { startDaemon, type Daemon } from "../../src/daemon/daemon.ts";
import { DeliveryDispatcher } from "../../src/deliver/delivery-dispatcher.ts";
import { systemClock, type Clock, type Timer } from "../../src/domain/clock/clock.ts";
import { ClockWatch } from "../../src/domain/clock/service-clock.ts";
import type { Logger } from "../../src/domain/log.ts";
import { LiveFeed } from "../../src/http/live-feed.ts";
import { UsageNotes } from "../../src/http/usage-notes.ts";
import { FileWatch, StorageWatch } from "../../src/ops/storage.ts";
import { Engine } from "../../src/run/engine.ts";
import { Sweeper } from "../../src/run/upkeep.ts";
import { InstanceLock } from "../../src/store/sqlite/machine/instance-lock.ts";
import { tempFolder, testConfig } from "../helpers/daemon.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };

function boom(): never {
  throw new Error("boom");
}

/** The machine's clock, with its pending timers. */
function watchedClock() {
  const pending = new Set<Timer>();
  const clock: Clock = {
    now: () => systemClock.now(),
    monotonic: () => systemClock.monotonic(),
    uptime: () => systemClock.uptime(),
    bootId: () => systemClock.bootId(),
    setTimer(delayMs, fire) {
      const set = systemClock.setTimer(delayMs, () => {
        pending.delete(timer);
        fire();
      });
      const timer: Timer = {
        cancel() {
          pending.delete(timer);
          set.cancel();
        },
      };
      pending.add(timer);
      return timer;
    },
  };
  return { clock, pending };
}

/** Threads, servers and processes that keep this process alive. */
function keptAlive(): readonly string[] {
  const kinds = /^(MessagePort|TCPServer|Process)/;
  return process.getActiveResourcesInfo().filter((kind) => kinds.test(kind));
}

/** Starts and stops a daemon in the folder. Returns the error of the stop, the file, and the remaining resources. */
async function startAndStop(
  folder: string,
  { sabotage = () => {} }: { readonly sabotage?: (daemon: Daemon) => void } = {},
) {
  const config = testConfig(folder);
  const { clock, pending } = watchedClock();
  const daemon = await startDaemon({ config, clock, log });
  assert.ok(keptAlive().length > 1 && pending.size > 0);
  sabotage(daemon);
  const error = await daemon.stop({ ms: 1000, clock }).then(
    () => null,
    (reason: unknown) => reason,
  );
  const left = [keptAlive().length, pending.size];
  await assert.rejects(fetch(daemon.url), "it still listens");
  return { error, file: config.database, left };
}

const parts: Readonly<Record<string, (t: TestContext) => void>> = {
  "the streams of events": (t) => void t.mock.method(LiveFeed.prototype, "close", boom),
  "the drain of the engine": (t) => void t.mock.method(Engine.prototype, "drain", boom),
  "the wait for the engine": (t) =>
    void t.mock.method(Engine.prototype, "quiet", async () => boom(), { times: 1 }),
  "the last reading of the clocks": (t) => void t.mock.method(Sweeper.prototype, "close", boom),
  "the last use of keys": (t) => void t.mock.method(UsageNotes.prototype, "write", boom),
};
for (const [part, sabotage] of Object.entries(parts)) {
  test(`a stop in which ${part} throws releases everything else, and rejects with the error`, async (t) => {
    const folder = tempFolder(t);
    sabotage(t);

    const { error, file, left } = await startAndStop(folder);
    t.mock.restoreAll();

    assert.match(String(error), /boom/);
    assert.deepEqual(left, [0, 0]);
    // The last connection removes it.
    assert.equal(existsSync(`${file}-wal`), false);
    assert.equal((await startAndStop(folder)).error, null);
  });
}

test("a stop whose store fails to close releases the lock, and rejects with the error", async (t) => {
  const folder = tempFolder(t);
  let close = (): Promise<void> => Promise.resolve();
  const sabotage = ({ store }: Daemon): void => {
    // The object has more methods than the type of a daemon's store.
    const whole = store as typeof store & { close: () => Promise<void> };
    close = whole.close.bind(whole);
    whole.close = async () => boom();
  };

  const { error } = await startAndStop(folder, { sabotage });

  assert.match(String(error), /boom/);
  InstanceLock.acquire(testConfig(folder).database).release();
  await close();
});

test("a stop in which two parts throw rejects with both errors", async (t) => {
  const folder = tempFolder(t);
  t.mock.method(Engine.prototype, "drain", boom);
  t.mock.method(Engine.prototype, "close", () => {
    throw new Error("bang");
  });

  const { error } = await startAndStop(folder);
  t.mock.restoreAll();

  assert(error instanceof AggregateError);
  assert.match(error.errors.join(), /boom.*bang/);
  assert.equal((await startAndStop(folder)).error, null);
});

test("a start on a port in use rejects with ListenError, before it creates the database", async (t) => {
  const folder = tempFolder(t);
  const other = createServer().listen(0, "127.0.0.1");
  t.after(() => other.close());
  await new Promise((resolve) => other.once("listening", resolve));
  const address = other.address();
  assert(address !== null && typeof address !== "string");

  const config = testConfig(folder, { port: address.port });
  await assert.rejects(startDaemon({ config, clock: systemClock, log }), { name: "ListenError" });

  assert.equal(existsSync(config.database), false);
  assert.equal((await startAndStop(folder)).error, null);
});

const halfWay: Readonly<Record<string, (t: TestContext) => void>> = {
  "resumes the service clock": (t) =>
    void t.mock.method(ClockWatch.prototype, "resumeSteady", boom),
  "checks the disk space": (t) =>
    void t.mock.method(StorageWatch.prototype, "shortage", async () => boom()),
  "announces its address": (t) => void t.mock.method(InstanceLock.prototype, "announce", boom),
  "recovers deliveries": (t) =>
    void t.mock.method(DeliveryDispatcher.prototype, "recover", async () => boom()),
  "starts to watch its file": (t) => void t.mock.method(FileWatch.prototype, "start", boom),
};
for (const [step, sabotage] of Object.entries(halfWay)) {
  test(`a start that throws when it ${step} releases everything, and rejects with the error`, async (t) => {
    const folder = tempFolder(t);
    const config = testConfig(folder);
    const { clock, pending } = watchedClock();
    sabotage(t);

    await assert.rejects(startDaemon({ config, clock, log }), /boom/);
    t.mock.restoreAll();

    assert.deepEqual([keptAlive(), pending.size], [[], 0]);
    assert.equal(existsSync(`${config.database}-wal`), false);
    assert.deepEqual((await startAndStop(folder)).left, [0, 0]);
  });
}
