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

/** A feed on a store of the test's making; `reads` are the scopes that were counted. */
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
    /** What another node does, of which this one hears nothing. */
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

/** Everything that comes over a stream until it ends. */
async function readAll(events: EventReader): Promise<readonly StreamMessage[]> {
  const all: StreamMessage[] = [];
  for (;;) {
    const message = await events.next();
    if (message === null) return all;
    all.push(message);
  }
}

/** Lets everything happen that waits for nothing but its turn. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

test("what was read before a change is known as such once streams were told of it, by scope", async () => {
  const { open, change, feed, clock } = startFeed();
  const events = open({ scope: 1 });
  await events.change();
  const before = feed.sentChanges(1);
  assert.equal(feed.sentChanges(1), before);
  change(1);
  assert.equal(feed.sentChanges(1), before, "nobody was told yet");
  clock.advance(250);
  await events.change();
  assert.notEqual(feed.sentChanges(1), before);
  assert.equal(feed.sentChanges(2), before);
});

test("a stream is told at once how things are, then of every change of its scope", async () => {
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

test("what another node changed is told within a second though nothing was heard of it, and once", async () => {
  const { open, changeUnheard, reads, clock } = startFeed(undefined, { isShared: true });
  const events = open();
  await events.change();
  clock.advance(1000);
  await settle();
  assert.equal(reads.length, 2, "it looked, and nothing had changed");
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

test("a feed of one node looks at nothing while nothing changes", async () => {
  const { open, reads, clock } = startFeed();
  await open().change();
  for (let second = 0; second < 5; second++) {
    clock.advance(1000);
    await settle();
  }
  assert.equal(reads.length, 1);
});

test("whoever sees all accounts is told of every change, and an account of its own alone", async () => {
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

test("however much changes, a stream is told four times a second, and all of a scope by one read", async () => {
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

test("the last change is told, though it came right after another", async () => {
  const { open, change, clock } = startFeed();
  const events = open();
  await events.change();
  change(1);
  change(1);
  await settle();
  clock.advance(250);
  assert.deepEqual(await events.change(), {
    id: "boot.2",
    tasks: { waiting: 2, delayed: 0, running: 0, ready: 0, retrying: 0, undelivered: 0 },
  });
});

test("a stream that was opened between two changes is told of the second, though others were told before", async () => {
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

test("a stream that comes back is told nothing until something is new", async () => {
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

test("nothing is watched and no timer waits before the first stream, nor a timer after the last", async () => {
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

test("a stream says something every 15 seconds", async () => {
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

test("a stream that takes nothing is passed over, and told how things are when it does", async () => {
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

test("one account has fifty streams at most, by however many keys, and leaves room to the operator and others", async () => {
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

test("a stream ends before its next change or comment when its session is over", async () => {
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

test("a stream ends within a second of its session, though nothing else happens", async () => {
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

test("a session that is over is told nothing at all", async () => {
  const { open, reads } = startFeed();
  const events = open({ stillAdmitted: async () => false });
  assert.equal((await events.next())?.event, "end");
  assert.equal(await events.next(), null);
  assert.deepEqual(reads, []);
});

test("a close ends every stream, cuts off one that takes nothing, and ends new ones at once", async () => {
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

test("a change that cannot be read is told with the next comment, and only faults are logged", async () => {
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
