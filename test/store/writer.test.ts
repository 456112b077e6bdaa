import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";

import type { BatchReply } from "../../src/store/common/batch.ts";
import { GroupCommit } from "../../src/store/common/group-commit.ts";
import { openReader } from "../../src/store/sqlite/machine/connection.ts";
import type { WriterOrder } from "../../src/store/sqlite/writer-thread.ts";
import { WriterThread } from "../../src/store/sqlite/writer.ts";
import type { Writes } from "../../src/store/sqlite/writes.ts";
import { StoreError } from "../../src/store/store.ts";
import { newAccount, newDatabaseFile } from "../helpers/store.ts";

/** A writer thread whose messages the test sends. */
class FakeThread extends EventEmitter {
  readonly orders: WriterOrder[] = [];

  postMessage(order: WriterOrder): void {
    this.orders.push(order);
    if (order.kind === "close") this.emit("exit");
  }

  /** The ids of the received batches. */
  get ids(): readonly number[] {
    return this.orders.flatMap((order) => (order.kind === "batch" ? [order.id] : []));
  }

  reply(id: number | undefined, reply: BatchReply): void {
    this.emit("message", { kind: "reply", id, reply });
  }
}

const BATCH = [{ name: "tryWrite", args: undefined }] as const;

function committed(value: unknown): BatchReply {
  return { kind: "committed", values: [value], rejected: [], changed: [], hasWritten: true };
}

function setUp() {
  const thread = new FakeThread();
  return { thread, writer: new WriterThread(thread) };
}

test("replies in any order settle their own batches", async () => {
  const { thread, writer } = setUp();
  const first = writer.send(BATCH);
  const second = writer.send(BATCH);
  const [firstId, secondId] = thread.ids;
  thread.reply(secondId, committed("second"));
  thread.reply(firstId, committed("first"));
  assert.deepEqual(await first, committed("first"));
  assert.deepEqual(await second, committed("second"));
});

const breaks = {
  "a reply that belongs to no batch": (thread: FakeThread) => thread.reply(99, committed(1)),
  "a second reply to one batch": (thread: FakeThread) => {
    for (let i = 0; i < 2; i++) thread.reply(thread.ids[0], committed(1));
  },
  "a reply that cannot be read": (thread: FakeThread) =>
    thread.emit("messageerror", new Error("could not be deserialized")),
  "a thread that throws": (thread: FakeThread) => thread.emit("error", new Error("bug")),
  "a thread that ends": (thread: FakeThread) => thread.emit("exit"),
};
for (const [what, breakIt] of Object.entries(breaks)) {
  test(`after ${what} batches in flight are unknown, and later ones fail`, async () => {
    const { thread, writer } = setUp();
    const answered = writer.send(BATCH);
    const inFlight = [writer.send(BATCH), writer.send(BATCH)];
    thread.reply(thread.ids[0], committed(0));
    await answered;
    breakIt(thread);
    for (const { kind } of await Promise.all(inFlight)) assert.equal(kind, "unknown");
    assert.equal((await writer.send(BATCH)).kind, "failed");
    assert.equal(thread.ids.length, 3);
    await writer.close();
  });
}

for (const what of ["a reply that cannot be read", "a thread that ends"] as const) {
  test(`a start fails after ${what}`, async () => {
    const { thread, writer } = setUp();
    breaks[what](thread);
    await assert.rejects(Promise.race([writer.ready, setImmediate()]));
  });
}

test("a batch that cannot be sent to the thread has failed", async () => {
  const { thread, writer } = setUp();
  thread.postMessage = () => {
    throw new Error("could not be cloned");
  };
  assert.equal((await writer.send(BATCH)).kind, "failed");
});

/** A writer thread that ends after the commit of its first batch, before its reply. */
async function startDyingThread(t: TestContext, file: string): Promise<WriterThread> {
  const entry = new URL("./dying-writer-thread.ts", import.meta.url);
  const worker = new Worker(entry, { workerData: { role: "writer", file } });
  t.after(() => worker.terminate());
  const writer = new WriterThread(worker);
  await writer.ready;
  return writer;
}

test("a thread that dies between commit and reply leaves the outcome unknown", async (t) => {
  const file = newDatabaseFile(t);
  const thread = await startDyingThread(t, file);
  const group = new GroupCommit<Writes>(thread, { batchWeightMax: 1, backlogWeightMax: 100 });
  const create = (login: string): Promise<string> =>
    group
      .submit("createAccount", newAccount({ login }), { weight: 1, mayShed: false })
      .catch((error: unknown) => (error instanceof StoreError ? error.kind : String(error)));

  const outcomes = await Promise.all(["ada", "bob", "carol", "dave"].map(create));

  const reader = openReader(file);
  t.after(() => reader.close());
  assert.deepEqual(reader.prepare("SELECT login FROM accounts").pluck().all(), ["ada"]);
  // Operations that had not reached the thread have certainly failed.
  assert.deepEqual(outcomes, ["unknown", "failed", "failed", "failed"]);
  assert.equal(group.fault?.kind, "failed");
  await group.close();
});

test("a thread after an unreadable message closes the file", async (t) => {
  const file = newDatabaseFile(t);
  const worker = new Worker(new URL("../../src/store/sqlite/writer-thread.ts", import.meta.url), {
    workerData: { role: "writer", file },
  });
  t.after(() => worker.terminate());
  const writer = new WriterThread(worker);
  await writer.ready;
  worker.emit("messageerror", new Error("could not be deserialized"));
  const ended = once(worker, "exit");

  await writer.close();

  await ended;
});
