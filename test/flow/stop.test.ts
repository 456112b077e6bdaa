import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { test, type TestContext } from "node:test";

import { startDaemon, type Daemon } from "../../src/daemon/daemon.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import type { Logger } from "../../src/domain/log.ts";
import { Engine } from "../../src/engine/engine.ts";
import { LiveFeed } from "../../src/http/live/live-feed.ts";
import { UsageNotes } from "../../src/http/usage-notes.ts";
import { InstanceLock } from "../../src/store/sqlite/machine/instance-lock.ts";
import { tempFolder, testConfig } from "../helpers/daemon.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };

function boom(): never {
  throw new Error("boom");
}

/** Starts a daemon in the folder and stops it: what that rejects with, and the file. */
async function startAndStop(
  folder: string,
  { sabotage = () => {} }: { readonly sabotage?: (daemon: Daemon) => void } = {},
) {
  const config = testConfig(folder);
  const daemon = await startDaemon({ config, clock: systemClock, log });
  sabotage(daemon);
  const error = await daemon.stop({ ms: 1000, clock: systemClock }).then(
    () => null,
    (reason: unknown) => reason,
  );
  await assert.rejects(fetch(daemon.url), "it still answers");
  return { error, file: config.database };
}

const parts: Readonly<Record<string, (t: TestContext) => void>> = {
  "the streams of events": (t) => void t.mock.method(LiveFeed.prototype, "close", boom),
  "what is under way": (t) => void t.mock.method(Engine.prototype, "drain", boom),
  "the engine's connections": (t) => void t.mock.method(Engine.prototype, "close", boom),
  "the last use of keys": (t) => void t.mock.method(UsageNotes.prototype, "write", boom),
};
for (const [part, sabotage] of Object.entries(parts)) {
  test(`a stop in which ${part} throws lets go of the file and the lock, and rejects with the error`, async (t) => {
    const folder = tempFolder(t);
    sabotage(t);

    const { error, file } = await startAndStop(folder);
    t.mock.restoreAll();

    assert.match(String(error), /boom/);
    // The last connection that closes takes it along.
    assert.equal(existsSync(`${file}-wal`), false);
    assert.equal((await startAndStop(folder)).error, null);
  });
}

test("a stop in which the store cannot be closed lets go of the lock, and rejects with the error", async (t) => {
  const folder = tempFolder(t);
  let close = (): Promise<void> => Promise.resolve();
  const sabotage = ({ store }: Daemon): void => {
    // It is the whole store, of which a daemon shows a part.
    const whole = store as typeof store & { close: () => Promise<void> };
    close = whole.close.bind(whole);
    whole.close = async () => boom();
  };

  const { error } = await startAndStop(folder, { sabotage });

  assert.match(String(error), /boom/);
  InstanceLock.acquire(testConfig(folder).database).release();
  await close();
});

test("a stop in which two parts throw tells of both", async (t) => {
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

test("a start that finds its port taken lets go of everything, and says why", async (t) => {
  const folder = tempFolder(t);
  const other = createServer().listen(0, "127.0.0.1");
  t.after(() => other.close());
  await new Promise((resolve) => other.once("listening", resolve));
  const address = other.address();
  assert(address !== null && typeof address !== "string");
  const closed = t.mock.method(Engine.prototype, "close");

  const config = testConfig(folder, { port: address.port });
  await assert.rejects(startDaemon({ config, clock: systemClock, log }), { name: "ListenError" });

  assert.equal(closed.mock.callCount(), 1);
  assert.equal(existsSync(`${config.database}-wal`), false);
  assert.equal((await startAndStop(folder)).error, null);
});
