import assert from "node:assert/strict";
import { test } from "node:test";

import { StatusError } from "../../src/domain/status.ts";
import {
  STREAMS_MAX,
  STREAMS_PER_ACCOUNT_MAX,
  STREAMS_PER_CREDENTIAL_MAX,
} from "../../src/http/admission/limits.ts";
import { LiveFeed, type Listener } from "../../src/http/live-feed.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import {
  StoreError,
  type Scope,
  type WorkCounts,
  type ChangeListener,
} from "../../src/store/store.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { EventReader, type StreamMessage } from "./event-stream.ts";

const COUNTS: WorkCounts = {
  ...{ queued: 0, delayed: 0, running: 0, completed: 0, failed: 0, cancelled: 0 },
  ...{ ready: 0, retrying: 0, undelivered: 0, bytes: 0 },
};

/** A feed on a store of the test; `reads` has the scopes that were read. */
function startFeed(fails: () => Error | null = () => null, { isShared = false } = {}) {
  const clock = createFakeClock();
  const reads: Scope[] = [];
  const logged: unknown[] = [];
  let queued = 0;
  let listener: ChangeListener | null = null;
  const write = (facts: unknown): void => void logged.push(facts);
  const feed = new LiveFeed({
    store: {
      cluster: isShared ? new FakeCluster(clock) : newLoneNode(clock),
      countWork: async (scope) => {
        const error = fails();
        if (error !== null) throw error;
        reads.push(scope);
        return { ...COUNTS, queued };
      },
      watch(told) {
        assert.equal(listener, null, "it is watched once");
        listener = told;
        return () => (listener = null);
      },
    },
    clock,
    log: { debug: write, info: write, warn: write, error: write },
    boot: "boot",
  });
  return {
    ...{ clock, feed, reads, logged },
    isWatched: () => listener !== null,
    change(...accounts: readonly number[]) {
      queued++;
      listener?.({ accounts, types: [], lanes: [], ended: [] });
    },
    /** A change of another node without a notification. */
    changeUnheard: () => void queued++,
    open(listening: Partial<Listener> = {}): EventReader {
      return new EventReader(feed.open(asListener(listening)));
    },
  };
}

function asListener(listening: Partial<Listener>): Listener {
  return {
    ...{ scope: 1, credential: "key_1", stillAdmitted: async () => true, lastEventId: null },
    ...listening,
  };
}

/** All messages of a stream until its end. */
async function readAll(events: EventReader): Promise<readonly StreamMessage[]> {
  const all: StreamMessage[] = [];
  for (;;) {
    const message = await events.next();
    if (message === null) return all;
    all.push(message);
  }
}

/** Runs all pending callbacks. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

test("the number of sent changes differs after a change of the scope was sent", async () => {
  const { open, change, feed, clock } = startFeed();
  const events = open({ scope: 1 });
  await events.change();
  const before = feed.sentChanges(1);
  assert.equal(feed.sentChanges(1), before);
  change(1);
  assert.equal(feed.sentChanges(1), before, "a change was sent too early");
  clock.advance(250);
  await events.change();
  assert.notEqual(feed.sentChanges(1), before);
  assert.equal(feed.sentChanges(2), before);
});

test("a stream sends the current counts, then every change of its scope", async () => {
  const { open, change, reads, clock } = startFeed();
  const events = open();
  assert.equal(await events.block(), "retry: 2000");
  const message = await events.next();
  assert.equal(message?.id, "boot.0");
  assert.deepEqual(JSON.parse(message.data ?? ""), {
    tasks: { waiting: 0, delayed: 0, running: 0, ready: 0, retrying: 0, undelivered: 0 },
    time: "2026-01-01T00:00:00.000Z",
  });

  const next = events.change();
  change(2);
  await settle();
  assert.deepEqual(reads, [1]);
  clock.advance(250);
  change(1);
  assert.deepEqual(await next, {
    id: "boot.1",
    tasks: { waiting: 2, delayed: 0, running: 0, ready: 0, retrying: 0, undelivered: 0 },
  });
});

test("a change of another node is sent once, within a second and without a notification", async () => {
  const { open, changeUnheard, reads, clock } = startFeed(undefined, { isShared: true });
  const events = open();
  await events.change();
  clock.advance(1000);
  await settle();
  assert.equal(reads.length, 2, "an unchanged scope is not read again");
  changeUnheard();
  const next = events.change();
  clock.advance(1000);
  assert.deepEqual((await next).tasks, {
    ...{ waiting: 1, delayed: 0, running: 0, ready: 0, retrying: 0, undelivered: 0 },
  });
  const looks = reads.length;
  clock.advance(1000);
  await settle();
  assert.equal(reads.length, looks + 1);
});

test("a feed of a single node reads nothing while nothing changes", async () => {
  const { open, reads, clock } = startFeed();
  await open().change();
  for (let second = 0; second < 5; second++) {
    clock.advance(1000);
    await settle();
  }
  assert.equal(reads.length, 1);
});

test("a stream of all accounts sends every change, a stream of one account its own", async () => {
  const { open, change, clock } = startFeed();
  const [all, one, two] = [open({ scope: null }), open(), open({ scope: 2 })];
  for (const events of [all, one, two]) assert.equal((await events.change()).id, "boot.0");
  clock.advance(250);
  const told = [all.change(), one.change()];
  change(1, 3);
  assert.deepEqual(
    (await Promise.all(told)).map(({ id }) => id),
    ["boot.1", "boot.1"],
  );
  clock.advance(250);
  const later = [all.change(), two.change()];
  change(2);
  assert.deepEqual(
    (await Promise.all(later)).map(({ id }) => id),
    ["boot.2", "boot.1"],
  );
});

test("a stream sends four changes per second at most, and one read serves all streams of a scope", async () => {
  const { feed, open, change, reads, clock } = startFeed();
  const streams = Array.from({ length: 3 }, (_, i) => readAll(open({ credential: `key_${i}` })));
  await settle();
  assert.equal(reads.length, 3);
  for (let ms = 0; ms < 2000; ms += 10) {
    change(1);
    clock.advance(10);
    await settle();
  }
  assert.equal(reads.length, 3 + 8);
  feed.close();
  for (const messages of await Promise.all(streams)) {
    const ids = messages.flatMap(({ event, id }) => (event === "change" ? [id] : []));
    assert.equal(ids.length, 1 + 8);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(ids[0], "boot.0");
  }
});

test("a stream that opens between two changes sends the second one", async () => {
  const { open, change, clock } = startFeed();
  const first = open();
  await first.change();
  clock.advance(250);
  const told = [first.change(), first.change()];
  change(1);
  await settle();
  change(1);
  clock.advance(200);
  const second = open();
  assert.equal((await second.change()).id, "boot.2");
  const next = second.change();
  await settle();
  change(1);
  clock.advance(50);
  assert.deepEqual(
    (await Promise.all(told)).map(({ id }) => id),
    ["boot.1", "boot.3"],
  );
  clock.advance(250);
  assert.equal((await next).id, "boot.3");
});

test("a stream that continues at its last event sends nothing until the next change", async () => {
  const { open, change, reads, clock } = startFeed();
  const first = open();
  await first.change();
  clock.advance(250);
  change(1);
  const { id } = await first.change();
  await first.cancel();

  const second = open({ lastEventId: id });
  const next = second.change();
  await settle();
  assert.equal(reads.length, 2);
  clock.advance(250);
  change(1);
  assert.equal((await next).id, "boot.2");
  await second.cancel();

  change(1);
  for (const lastEventId of [id, "boot.2", "other.3", "boot", "boot.3x", "", null]) {
    const third = open({ lastEventId });
    assert.equal((await third.change()).id, "boot.3", String(lastEventId));
    await third.cancel();
  }
});

test("the store is watched from the first stream on, and no timer is left after the last", async () => {
  const { open, clock, isWatched } = startFeed();
  assert.equal(isWatched(), false);
  assert.deepEqual(clock.pending(), []);
  const [one, other] = [open(), open({ scope: null })];
  await Promise.all([one.change(), other.change()]);
  assert.equal(isWatched(), true);
  assert.deepEqual(clock.pending(), [1000]);
  await one.cancel();
  await other.cancel();
  assert.deepEqual(clock.pending(), []);
});

test("a stream sends a comment every 15 seconds", async () => {
  const { open, clock } = startFeed();
  const events = open();
  await events.change();
  for (let i = 0; i < 3; i++) {
    const next = events.next();
    await settle();
    clock.advance(15_000);
    assert.equal((await next)?.event, ":");
  }
});

test("a stream without a reader costs no reads, and sends the current counts to its reader", async () => {
  const { feed, change, clock, reads } = startFeed();
  const body = feed.open(asListener({}));
  await settle();
  for (let i = 0; i < 1000; i++) {
    change(1);
    clock.advance(1000);
    await settle();
  }
  assert.deepEqual(reads, []);
  const events = new EventReader(body);
  assert.equal(await events.block(), "retry: 2000");
  assert.equal((await events.change()).id, "boot.1000");
  assert.deepEqual(reads, [1]);
});

test("one key or session has ten streams at most, and there are two hundred in all", async () => {
  const { feed, open } = startFeed();
  const refused = (error: unknown): boolean =>
    error instanceof StatusError &&
    error.code === 42900 &&
    Number(error.headers["retry-after"]) > 0;
  const own = Array.from({ length: STREAMS_PER_CREDENTIAL_MAX }, (_, i) => open({ scope: i }));
  assert.throws(() => feed.open(asListener({ scope: null })), refused);
  await own[0]?.cancel();
  const bodies = [feed.open(asListener({ scope: null }))];
  for (let i = bodies.length + own.length - 1; i < STREAMS_MAX; i++) {
    bodies.push(feed.open(asListener({ scope: i % 50, credential: `other ${i % 50}` })));
  }
  assert.throws(() => feed.open(asListener({ credential: "new" })), refused);
  await bodies[0]?.cancel();
  feed.open(asListener({ credential: "new" }));
});

test("one account has fifty streams at most with any number of keys, and leaves room for others", async () => {
  const { feed, open } = startFeed();
  const own = Array.from({ length: STREAMS_PER_ACCOUNT_MAX }, (_, i) =>
    open({ credential: `key_${i}` }),
  );
  const isFull = (error: unknown): boolean =>
    error instanceof StatusError &&
    error.code === 42900 &&
    error.details.some(({ detail }) => detail.startsWith("An account"));
  assert.throws(() => feed.open(asListener({ credential: "new" })), isFull);
  feed.open(asListener({ scope: null, credential: "session 1" }));
  feed.open(asListener({ scope: 2, credential: "session 2" }));
  await own[0]?.cancel();
  feed.open(asListener({ credential: "new" }));
});

test("a stream ends before its next change or comment if its session has ended", async () => {
  for (const what of ["change", "comment"]) {
    const { open, change, clock } = startFeed();
    let isIn = true;
    const [gone, stays] = [open({ stillAdmitted: async () => isIn }), open()];
    await Promise.all([gone.change(), stays.change()]);
    isIn = false;
    const [end, other] = [gone.next(), stays.next()];
    await settle();
    if (what === "change") change(1);
    clock.advance(what === "change" ? 250 : 15_000);
    assert.deepEqual(await end, { event: "end", id: null, data: '{"reason":"signed_out"}' });
    assert.equal(await gone.next(), null);
    assert.equal((await other)?.event, what === "change" ? "change" : ":");
  }
});

test("a stream ends within a second after its session, without any change", async () => {
  const { open, clock } = startFeed();
  let isIn = true;
  const events = open({ stillAdmitted: async () => isIn });
  await events.change();
  const end = events.next();
  clock.advance(1000);
  await settle();
  isIn = false;
  clock.advance(1000);
  assert.deepEqual(await end, { event: "end", id: null, data: '{"reason":"signed_out"}' });
});

test("an ended session gets no change", async () => {
  const { open, reads } = startFeed();
  const events = open({ stillAdmitted: async () => false });
  assert.equal((await events.next())?.event, "end");
  assert.equal(await events.next(), null);
  assert.deepEqual(reads, []);
});

test("a close ends all streams, aborts those without a reader, and new streams end immediately", async () => {
  const { feed, open, clock, change, isWatched } = startFeed();
  const all = readAll(open());
  const stuck = feed.open(asListener({}));
  await settle();
  change(1);
  clock.advance(15_000);
  await settle();

  feed.close();
  assert.equal(isWatched(), false);
  const [first, ...others] = await all;
  assert.equal(first?.event, "change");
  assert.deepEqual(others.at(-1), { event: "end", id: null, data: '{"reason":"stopping"}' });
  await assert.rejects(stuck.getReader().closed);
  const late = open();
  assert.equal((await late.next())?.event, "end");
  assert.equal(await late.next(), null);
  assert.deepEqual(clock.pending(), []);
});

test("a change that cannot be read is sent with the next comment, and only faults are logged", async () => {
  let error: Error | null = null;
  const { open, change, clock, logged } = startFeed(() => error);
  const events = open();
  await events.change();
  const all = [events.next(), events.next()];
  await settle();
  clock.advance(250);
  error = new StoreError("busy", "no");
  change(1);
  await settle();
  assert.deepEqual(clock.pending(), [750]);
  assert.deepEqual(logged, []);
  error = new Error("a bug");
  change(1);
  clock.advance(250);
  await settle();
  assert.equal(logged.length, 1);
  error = null;
  clock.advance(14_500);
  const kinds = (await Promise.all(all)).map((message) => message?.event);
  assert.deepEqual(new Set(kinds), new Set([":", "change"]));
});
