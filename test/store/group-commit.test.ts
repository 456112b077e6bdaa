import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { describe, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import type { BatchReply, BatchTransport, Operation } from "../../src/store/common/batch.ts";
import { GroupCommit, type GroupCommitLimits } from "../../src/store/common/group-commit.ts";
import type { Writes } from "../../src/store/sqlite/writes.ts";
import type { StoreError } from "../../src/store/store.ts";

/** A transport whose replies the test gives. */
class FakeTransport implements BatchTransport {
  readonly batches: (readonly Operation[])[] = [];
  isClosed = false;
  readonly #events = new EventEmitter();
  readonly #waiting: ((reply: BatchReply) => void)[] = [];

  send(batch: readonly Operation[]): Promise<BatchReply> {
    assert.equal(this.isClosed, false, "a batch was sent after the close");
    this.batches.push(batch);
    this.#events.emit("sent");
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }

  /** The ids of the operations of each batch sent so far. */
  get ids(): readonly (readonly string[])[] {
    return this.batches.map((batch) => batch.map(idOf));
  }

  /** Resolves when that many batches have been sent. */
  async whenSent(count: number): Promise<void> {
    while (this.batches.length < count) await once(this.#events, "sent");
  }

  /** How many batches wait for their replies: how many at most is the group's business. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Replies to the oldest waiting batch. */
  reply(reply: BatchReply): void {
    const resolve = this.#waiting.shift();
    assert(resolve !== undefined, "no batch waits for a reply");
    resolve(reply);
  }

  /** Replies to the oldest waiting batch: committed, each operation with its own id. */
  commit(): void {
    const batch = this.batches[this.batches.length - this.#waiting.length] ?? [];
    this.reply(committed(...batch.map(idOf)));
  }
}

/** Replies to each batch until all operations are settled. */
async function answerAll<Value>(
  transport: FakeTransport,
  { all, answer }: { readonly all: readonly Promise<Value>[]; readonly answer?: BatchReply },
): Promise<readonly Value[]> {
  const done = Promise.all(all);
  let isDone = false;
  void done.finally(() => {
    isDone = true;
  });
  while (!isDone) {
    if (transport.waiting === 0) await transport.whenSent(transport.batches.length + 1);
    if (answer === undefined) transport.commit();
    else transport.reply(answer);
    await turn();
  }
  return done;
}

function idOf({ args }: Operation): string {
  // The operations of this file are collectTask's.
  return (args as { readonly id: string }).id;
}

interface SetUp {
  readonly transport: FakeTransport;
  readonly group: GroupCommit<Writes>;
  /** Submits an operation; its outcome, once settled, is its id or the kind of its error. */
  readonly submit: (id: string, more?: { weight?: number; mayShed?: boolean }) => Promise<string>;
  /** The outcomes in the order in which they were settled. */
  readonly settled: readonly string[];
}

function setUp(limits: Partial<GroupCommitLimits> = {}): SetUp {
  const transport = new FakeTransport();
  const group = new GroupCommit<Writes>(transport, {
    ...{ batchWeightMax: 256, backlogWeightMax: 1000 },
    ...limits,
  });
  const settled: string[] = [];
  const submit: SetUp["submit"] = async (id, { weight = 1, mayShed = false } = {}) => {
    const done = group.submit("collectTask", { accountId: 1, id }, { weight, mayShed });
    const outcome = await done.then(String, (error: StoreError) => error.kind ?? error.message);
    settled.push(`${id}: ${outcome}`);
    return outcome;
  };
  return { transport, group, submit, settled };
}

function committed(...values: unknown[]): BatchReply {
  return { kind: "committed", values, rejected: [], changed: [], hasWritten: true };
}

describe("batches", () => {
  test("a thousand operations keep their order over all batches, each within its weight", async () => {
    const { transport, submit, settled } = setUp({ batchWeightMax: 7 });
    const ids = Array.from({ length: 1000 }, (_, i) => String(i));
    // The last operation of a hundred is heavier than a batch.
    const weightOf = (id: string) => (id.endsWith("99") ? 8 : (Number(id) % 5) + 1);
    const all = ids.map((id) => submit(id, { weight: weightOf(id) }));
    await answerAll(transport, { all });
    assert.deepEqual(transport.ids.flat(), ids);
    for (const batch of transport.ids) {
      const weight = batch.reduce((sum, id) => sum + weightOf(id), 0);
      assert(weight <= 7 || batch.length === 1, batch.join());
    }
    const expected = ids.map((id) => `${id}: ${id}`);
    assert.deepEqual(settled, expected);
  });
});

describe("replies", () => {
  test("watchers are notified of a committed batch after it has settled, of no other batch", async () => {
    const { transport, group } = setUp();
    const seen: unknown[] = [];
    // A waiter of the promise continues first.
    group.watch(({ accounts }) => void Promise.resolve().then(() => seen.push(accounts)));
    const submit = (id: string): Promise<unknown> =>
      group
        .submit("collectTask", { accountId: 1, id }, { weight: 1, mayShed: false })
        .then(() => seen.push(id));
    const first = submit("a");
    await transport.whenSent(1);
    transport.reply({ ...committed(null), changed: [1, 7] } as BatchReply);
    await first;
    await turn();
    assert.deepEqual(seen, ["a", [1, 7]]);

    const second = submit("b");
    await transport.whenSent(2);
    transport.reply({ kind: "full", message: "no" });
    await assert.rejects(second);
    await turn();
    assert.equal(seen.length, 2);
  });

  for (const kind of ["full", "busy"] as const) {
    test(`a ${kind} database rejects the batch without a retry, and no other batch`, async () => {
      const { transport, group, submit } = setUp();
      const lost = [submit("a"), submit("b")];
      await transport.whenSent(1);
      const next = [submit("c"), submit("d")];

      transport.reply({ kind, message: "no room" });
      assert.deepEqual(await Promise.all(lost), [kind, kind]);

      assert.deepEqual(await answerAll(transport, { all: next }), ["c", "d"]);
      assert.deepEqual(
        [transport.ids, group.fault],
        [
          [
            ["a", "b"],
            ["c", "d"],
          ],
          null,
        ],
      );
    });
  }

  test("a shortage lasts until a batch has written", async () => {
    const { transport, group, submit } = setUp();
    const end = async (answer: BatchReply): Promise<boolean> => {
      await answerAll(transport, { all: [submit("a")], answer });
      return group.shortage !== null;
    };
    assert.equal(group.shortage, null);
    assert.equal(await end({ kind: "full", message: "no room" }), true);
    assert.equal(await end({ ...committed(1), hasWritten: false } as BatchReply), true);
    assert.equal(await end({ kind: "busy", message: "locked" }), true);
    assert.equal(await end(committed(1)), false);
    assert.equal(group.fault, null);
  });

  for (const [what, lose] of [
    [
      "a reply of unknown outcome",
      (transport: FakeTransport) => transport.reply({ kind: "unknown", message: "bug" }),
    ],
    ["a missing reply", (transport: FakeTransport) => transport.reply(committed())],
  ] as const) {
    test(`the outcome of an operation is unknown after ${what}`, async () => {
      const { transport, submit } = setUp();
      const lost = submit("a");
      await transport.whenSent(1);
      lose(transport);
      assert.equal(await lost, "unknown");
    });
  }

  test("all writes fail after a batch of unknown outcome, unless the store survives doubt", async () => {
    for (const survivesDoubt of [false, true]) {
      const { transport, group, submit } = setUp({ batchWeightMax: 1, survivesDoubt });
      const lost = submit("a");
      await transport.whenSent(1);
      const waiting = submit("b");
      transport.reply({ kind: "unknown", message: "the writer thread has ended" });
      if (survivesDoubt) {
        await transport.whenSent(2);
        transport.commit();
      }

      const outcome = survivesDoubt ? "b" : "failed";
      assert.deepEqual(await Promise.all([lost, waiting]), ["unknown", outcome]);
      assert.equal(group.fault?.kind, survivesDoubt ? undefined : "failed");
      await group.drain();
    }
  });

  test("a transport that throws leaves the outcome unknown and ends all writing", async () => {
    const { transport, group, submit } = setUp();
    transport.send = () => Promise.reject(new Error("bug"));
    assert.deepEqual([await submit("a"), await submit("b")], ["unknown", "failed"]);
    await group.drain();
  });

  test("a failed database rejects current, waiting and later operations", async () => {
    const { transport, group, submit } = setUp({ batchWeightMax: 1 });
    const all = ["a", "b", "c"].map((id) => submit(id));
    const answer: BatchReply = { kind: "failed", message: "disk I/O error" };

    const outcomes = await answerAll(transport, { all, answer });
    const { length } = transport.batches;

    assert.deepEqual(outcomes, ["failed", "failed", "failed"]);
    assert.equal(await submit("d"), "failed");
    assert.equal(await submit("e", { mayShed: true }), "failed");
    await turn();
    assert.equal(transport.batches.length, length);
    assert(length < 3, "a waiting operation was sent");
    assert.equal(group.fault?.kind, "failed");
    assert.match(group.fault.message, /disk I\/O error/);
  });
});

describe("backlog", () => {
  test("a full backlog sheds posts, and no work of the engine", async () => {
    const { transport, group, submit } = setUp({ backlogWeightMax: 10 });
    // A post larger than the backlog is accepted while no other post waits.
    const first = submit("a", { weight: 11, mayShed: true });
    assert.equal(await submit("b", { mayShed: true }), "overloaded");
    const engine = submit("c", { weight: 100 });
    assert.equal(await submit("d", { mayShed: true }), "overloaded");
    assert.equal(group.fault, null);
    assert.deepEqual(await answerAll(transport, { all: [first, engine] }), ["a", "c"]);
    const later = submit("e", { mayShed: true });
    assert.deepEqual(await answerAll(transport, { all: [later] }), ["e"]);
  });

  test("waiting work of the engine sheds no post", async () => {
    const { transport, submit } = setUp({ backlogWeightMax: 10 });
    const engine = submit("a", { weight: 100 });
    const client = submit("b", { weight: 9, mayShed: true });
    const last = submit("c", { mayShed: true });
    assert.equal(await submit("d", { mayShed: true }), "overloaded");
    assert.deepEqual(await answerAll(transport, { all: [engine, client, last] }), ["a", "b", "c"]);
  });
});

describe("draining and closing", () => {
  test("a drain settles after all submitted operations", async () => {
    const { transport, group, submit, settled } = setUp({ batchWeightMax: 1 });
    const all = ["a", "b", "c"].map((id) => submit(id));
    // An outcome is noted some microtasks after the promise of the group.
    const drained = group
      .drain()
      .then(turn)
      .then(() => [...settled]);
    await answerAll(transport, { all });
    assert.deepEqual(await drained, ["a: a", "b: b", "c: c"]);
  });

  test("a close writes the waiting operations, then closes the transport", async () => {
    const { transport, group, submit } = setUp({ batchWeightMax: 1 });
    const all = ["a", "b", "c"].map((id) => submit(id));
    const closed = group.close();
    for (const count of [1, 2, 3]) {
      await transport.whenSent(count);
      assert.equal(transport.isClosed, false);
      transport.commit();
    }
    await closed;
    assert.deepEqual(await Promise.all(all), ["a", "b", "c"]);
    assert.equal(transport.isClosed, true);
    assert.deepEqual([await submit("late"), group.fault?.kind], ["closed", "closed"]);
  });

  test("a database that failed before its close stays failed", async () => {
    const { transport, group, submit } = setUp();
    const lost = submit("a");
    await transport.whenSent(1);
    transport.reply({ kind: "failed", message: "x" });
    await lost;
    await group.close();
    assert.deepEqual([transport.isClosed, group.fault?.kind], [true, "failed"]);
  });
});
