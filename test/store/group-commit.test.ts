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

  /** Answers the oldest batch that waits. */
  reply(reply: BatchReply): void {
    const resolve = this.#waiting.shift();
    assert(resolve !== undefined, "no batch waits for a reply");
    resolve(reply);
  }

  /** Answers the oldest batch that waits: committed, each operation with its own id. */
  commit(): void {
    const batch = this.batches[this.batches.length - this.#waiting.length] ?? [];
    const values = batch.map(idOf);
    this.reply({ kind: "committed", values, rejected: [], changed: [], hasWritten: true });
  }
}

/** Answers every batch until all that was submitted is settled. */
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

describe("batches", () => {
  test("operations submitted in one turn form one batch, in their order", async () => {
    const { transport, submit } = setUp();
    void submit("a");
    void submit("b");
    void submit("c");
    assert.deepEqual(transport.ids, []);

    await transport.whenSent(1);

    assert.deepEqual(transport.batches, [
      ["a", "b", "c"].map((id) => ({ name: "collectTask", args: { accountId: 1, id } })),
    ]);
  });

  test("what arrives while a batch is being written becomes the next one", async () => {
    const { transport, submit } = setUp();
    const first = submit("a");
    await transport.whenSent(1);

    const rest = ["b", "c", "d"].map((id) => submit(id));
    await answerAll(transport, { all: [first, ...rest] });

    assert.deepEqual(transport.ids, [["a"], ["b", "c", "d"]]);
  });

  test("a batch closes before the operation that would take it over its weight", async () => {
    const { transport, submit } = setUp({ batchWeightMax: 10 });
    const weights = { a: 4, b: 6, c: 1, d: 9, e: 1 };
    const all = Object.entries(weights).map(([id, weight]) => submit(id, { weight }));

    await answerAll(transport, { all });

    assert.deepEqual(transport.ids, [["a", "b"], ["c", "d"], ["e"]]);
  });

  test("the order of submission holds over a thousand operations and all their batches", async () => {
    const { transport, submit, settled } = setUp({ batchWeightMax: 7 });
    const ids = Array.from({ length: 1000 }, (_, i) => String(i));
    const all = ids.map((id, i) => submit(id, { weight: (i % 5) + 1 }));

    await answerAll(transport, { all });

    assert.deepEqual(transport.ids.flat(), ids);
    assert.deepEqual(
      settled,
      ids.map((id) => `${id}: ${id}`),
    );
  });
});

describe("replies", () => {
  test("nothing settles before the reply to its batch", async () => {
    const { transport, submit, settled } = setUp();
    const all = [submit("a")];
    await transport.whenSent(1);
    all.push(submit("b"));
    await turn();
    assert.deepEqual(settled, []);

    transport.commit();
    await transport.whenSent(2);
    await turn();
    assert.deepEqual(settled, ["a: a"]);

    transport.commit();
    await Promise.all(all);
    assert.deepEqual(settled, ["a: a", "b: b"]);
  });

  test("those who watch are told after a batch is settled, and of none that was not committed", async () => {
    const { transport, group } = setUp();
    const seen: unknown[] = [];
    // Whoever waits for the promise goes on before whoever is told does.
    group.watch(({ accounts }) => void Promise.resolve().then(() => seen.push(accounts)));
    const submit = (id: string): Promise<unknown> =>
      group
        .submit("collectTask", { accountId: 1, id }, { weight: 1, mayShed: false })
        .then(() => seen.push(id));
    const first = submit("a");
    await transport.whenSent(1);
    transport.reply({
      kind: "committed",
      values: [null],
      rejected: [],
      changed: [1, 7],
      hasWritten: true,
    });
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

  test("a rejected operation rejects alone, with an error that is no StoreError", async () => {
    const { transport, group, submit } = setUp();
    const before = submit("before");
    const options = { weight: 1, mayShed: false };
    const bad = group.submit("collectTask", { accountId: 1, id: "bad" }, options);
    const after = submit("after");
    const rejection = assert.rejects(bad, (error: Error) => {
      assert.equal(error.name, "Error");
      assert.match(error.message, /UNIQUE constraint failed/);
      return true;
    });
    await transport.whenSent(1);

    transport.reply({
      kind: "committed",
      values: [1, undefined, 2],
      rejected: [{ index: 1, message: "UNIQUE constraint failed" }],
      changed: [],
      hasWritten: true,
    });

    assert.deepEqual(await Promise.all([before, after]), ["1", "2"]);
    await rejection;
    assert.equal(group.fault, null);
  });

  for (const kind of ["full", "busy"] as const) {
    test(`a ${kind} database rejects the whole batch and nothing else`, async () => {
      const { transport, group, submit } = setUp();
      const lost = [submit("a"), submit("b")];
      await transport.whenSent(1);
      const next = [submit("c"), submit("d")];

      transport.reply({ kind, message: "no room" });
      assert.deepEqual(await Promise.all(lost), [kind, kind]);

      assert.deepEqual(await answerAll(transport, { all: next }), ["c", "d"]);
      assert.equal(group.fault, null);
    });
  }

  test("a batch without room is remembered until one has found some", async () => {
    const { transport, group, submit } = setUp();
    const end = async (reply: BatchReply): Promise<string | null> => {
      const all = [submit("a")];
      await answerAll(transport, { all, answer: reply });
      return group.shortage?.message ?? null;
    };
    const done = { kind: "committed", values: [1], rejected: [], changed: [] } as const;
    assert.equal(group.shortage, null);

    assert.match((await end({ kind: "full", message: "no room" })) ?? "", /no room/);
    // Neither says that there is room now.
    assert.match((await end({ ...done, hasWritten: false })) ?? "", /no room/);
    assert.match((await end({ kind: "busy", message: "locked" })) ?? "", /no room/);
    assert.equal(await end({ ...done, hasWritten: true }), null);
    assert.equal(group.fault, null);
  });

  test("of a batch whose fate is unknown that is said, and of what comes after it that it failed", async () => {
    const { transport, group, submit } = setUp({ batchWeightMax: 1 });
    const lost = submit("a");
    await transport.whenSent(1);
    const waiting = submit("b");
    transport.reply({ kind: "unknown", message: "the writer thread has ended" });

    assert.deepEqual(await Promise.all([lost, waiting]), ["unknown", "failed"]);
    assert.equal(await submit("c"), "failed");
    assert.equal(group.fault?.kind, "failed");
    await group.drain();
  });

  test("an operation that a committed batch has no reply to may have happened", async () => {
    const { transport, submit } = setUp();
    const all = [submit("a"), submit("b")];
    await transport.whenSent(1);
    transport.reply({
      kind: "committed",
      values: ["a"],
      rejected: [],
      changed: [],
      hasWritten: true,
    });

    assert.deepEqual(await Promise.all(all), ["a", "unknown"]);
  });

  test("a transport that throws leaves the fate of its batch unknown, and ends all writing", async () => {
    const { transport, group, submit } = setUp();
    transport.send = () => Promise.reject(new Error("bug"));
    const options = { weight: 1, mayShed: false };

    await assert.rejects(group.submit("collectTask", { accountId: 1, id: "a" }, options), {
      kind: "unknown",
      message: "whether this was written is not known; look before you repeat it: bug",
    });
    assert.equal(await submit("b"), "failed");
    await group.drain();
  });

  test("a store that survives doubt goes on after a batch whose fate is unknown", async () => {
    const { transport, group, submit } = setUp({ batchWeightMax: 1, survivesDoubt: true });
    const lost = submit("a");
    await transport.whenSent(1);
    const waiting = submit("b");
    transport.reply({ kind: "unknown", message: "bug" });
    await transport.whenSent(2);
    transport.commit();

    assert.deepEqual(await Promise.all([lost, waiting]), ["unknown", "b"]);
    assert.equal(group.fault, null);
  });

  test("a failed database rejects what is in flight, what waits and what comes, for good", async () => {
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
    assert(length < 3, "what waited was sent");
    assert.equal(group.fault?.kind, "failed");
    assert.match(group.fault.message, /disk I\/O error/);
  });
});

describe("backlog", () => {
  test("a full backlog sheds what may be shed, and nothing else", async () => {
    const { transport, group, submit } = setUp({ backlogWeightMax: 10 });
    const first = submit("a", { weight: 10, mayShed: true });

    assert.equal(await submit("b", { mayShed: true }), "overloaded");
    const engine = submit("c", { weight: 100 });
    assert.equal(await submit("d", { mayShed: true }), "overloaded");
    assert.equal(group.fault, null);

    assert.deepEqual(await answerAll(transport, { all: [first, engine] }), ["a", "c"]);
    const later = submit("e", { mayShed: true });
    assert.deepEqual(await answerAll(transport, { all: [later] }), ["e"]);
  });

  test("the engine's own work, however much of it waits, refuses no client", async () => {
    const { transport, submit } = setUp({ backlogWeightMax: 10 });
    const engine = submit("a", { weight: 100 });
    const client = submit("b", { weight: 9, mayShed: true });
    const last = submit("c", { mayShed: true });
    assert.equal(await submit("d", { mayShed: true }), "overloaded");
    assert.deepEqual(await answerAll(transport, { all: [engine, client, last] }), ["a", "b", "c"]);
  });

  test("what is being written is no backlog any more", async () => {
    const { transport, submit } = setUp({ backlogWeightMax: 1 });
    const first = submit("a", { mayShed: true });
    await transport.whenSent(1);

    const second = submit("b", { mayShed: true });

    assert.deepEqual(await answerAll(transport, { all: [first, second] }), ["a", "b"]);
  });

  test("a post larger than the whole backlog is taken while nothing waits", async () => {
    const { transport, submit } = setUp({ backlogWeightMax: 5 });

    const large = submit("large", { weight: 100, mayShed: true });
    await transport.whenSent(1);
    transport.commit();

    assert.equal(await large, "large");
  });

  test("a failure leaves no weight behind", async () => {
    const { transport, submit } = setUp({ batchWeightMax: 1, backlogWeightMax: 3 });
    const all = ["a", "b", "c"].map((id) => submit(id));
    const answer: BatchReply = { kind: "full", message: "no room" };
    await answerAll(transport, { all, answer });

    const next = submit("d", { weight: 3, mayShed: true });

    assert.deepEqual(await answerAll(transport, { all: [next] }), ["d"]);
  });
});

describe("draining and closing", () => {
  test("a drain settles after everything that was submitted", async () => {
    const { transport, group, submit, settled } = setUp({ batchWeightMax: 1 });
    const all = ["a", "b", "c"].map((id) => submit(id));
    // Settled outcomes are noted a few microtasks after the promise of the group itself.
    const drained = group
      .drain()
      .then(turn)
      .then(() => [...settled]);

    await answerAll(transport, { all });

    assert.deepEqual(await drained, ["a: a", "b: b", "c: c"]);
  });

  test("a close writes what waits, then closes the transport", async () => {
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
    assert.equal(await submit("late"), "closed");
    assert.equal(group.fault?.kind, "closed");
  });

  test("a database that failed before its close stays failed", async () => {
    const { transport, group, submit } = setUp();
    const lost = submit("a");
    await transport.whenSent(1);
    transport.reply({ kind: "failed", message: "x" });
    await lost;

    await group.close();

    assert.equal(transport.isClosed, true);
    assert.equal(group.fault?.kind, "failed");
  });
});
