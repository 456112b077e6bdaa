import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { loadConfig } from "../../src/config/config.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { Condition, ConditionName } from "../../src/domain/stats/condition.ts";
import type { OperatorEvent } from "../../src/domain/webhook/webhook-request.ts";
import { createLogger } from "../../src/log.ts";
import { ConditionBoard, conditionSource } from "../../src/ops/conditions.ts";
import { type GivenUp, ReceiverWatch } from "../../src/ops/events.ts";
import type { TypeSample } from "../../src/ops/metrics.ts";
import { StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const LOOK_MS = 15_000;

function condition(name: ConditionName, subject: string | null = null): Condition {
  return { name, subject, severity: "warning", text: `${name} holds`, remedy: "end it" };
}

/** The state of the daemon. */
interface State {
  found: readonly Condition[] | Error;
  unknown: readonly ConditionName[];
  holds: boolean;
  /** Delays every check. */
  delay: Promise<void> | null;
  /** The webhooks that were given up just now. */
  givenUp: GivenUp | null;
}

async function startBoard({ holds = true } = {}) {
  const clock = createFakeClock();
  const logged: string[] = [];
  const told: OperatorEvent[] = [];
  const losses: (() => void)[] = [];
  const state: State = { found: [], unknown: [], holds, delay: null, givenUp: null };
  const board = new ConditionBoard({
    clock,
    log: createLogger({ level: "info", format: "json", write: (line) => void logged.push(line) }),
    cluster: { holds: () => state.holds },
    async find() {
      await state.delay;
      if (state.found instanceof Error) throw state.found;
      return { conditions: state.found, unknown: new Set(state.unknown) };
    },
    takeGivenUp: (when) => (when === "at once" ? state.givenUp : null),
    tell(event, lost = () => {}) {
      told.push(event);
      losses.push(lost);
    },
  });
  /** Lets time pass, with every check that is due in it. */
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += LOOK_MS) {
      clock.advance(LOOK_MS);
      await setImmediate();
    }
  };
  const lines = (): string[] =>
    told.map(({ type, status, subject }) => `${type} ${status} ${subject ?? "-"}`);
  board.start();
  await setImmediate();
  /** Loses the newest event. */
  const lose = (): void => losses.at(-1)?.();
  return { board, clock, logged, state, pass, lines, lose };
}

test("a condition sends one event when it begins, and one after five minutes without it", async () => {
  const { board, state, pass, lines, logged } = await startBoard();
  state.found = [condition("disk.low")];
  await pass(60 * MINUTE_MS);
  assert.deepEqual(lines(), ["disk.low began -"]);
  assert.equal(board.standing().length, 1);

  for (let i = 0; i < 10; i++) {
    state.found = [];
    await pass(4 * MINUTE_MS);
    state.found = [condition("disk.low")];
    await pass(LOOK_MS);
  }
  assert.deepEqual(lines(), ["disk.low began -"]);

  state.found = [];
  await pass(5 * MINUTE_MS);
  assert.deepEqual(lines(), ["disk.low began -", "disk.low ended -"]);
  assert.deepEqual(board.standing(), []);
  assert.deepEqual(
    logged.map((line) => (JSON.parse(line) as Record<string, string>)["msg"]),
    ["disk.low holds", "no longer so: disk.low holds"],
  );
});

test("of 500 failing hosts 20 have events, and one event has the number of the others", async () => {
  const { board, state, pass, lines } = await startBoard();
  const hosts = Array.from({ length: 500 }, (_, i) => condition("host.failing", `${i}.example`));
  state.found = hosts;
  await pass(MINUTE_MS);
  state.found = [...hosts.toReversed(), condition("disk.low")];
  await pass(10 * MINUTE_MS);

  assert.equal(lines().length, 22);
  assert(lines().includes("disk.low began -"));
  assert(lines().includes("host.failing began -"));
  const rest = board.standing().find(({ name, subject }) => name === "host.failing" && !subject);
  assert.equal(rest?.text, "host.failing: and 480 more, next to the 20 that were reported");

  state.found = hosts.slice(0, 20);
  await pass(6 * MINUTE_MS);
  assert.deepEqual(lines().slice(22).toSorted(), ["disk.low ended -", "host.failing ended -"]);
});

test("in a cluster the node with the sweep role sends the events of shared conditions", async () => {
  const { board, state, pass, lines, logged } = await startBoard({ holds: false });
  state.found = [condition("worker.missing", "print"), condition("certificate.expiring")];
  await pass(10 * MINUTE_MS);
  assert.deepEqual(lines(), ["certificate.expiring began -"]);
  assert.equal(logged.length, 1);
  assert.equal(board.standing().length, 2);

  state.holds = true;
  await pass(LOOK_MS);
  assert.deepEqual(lines().slice(1), ["worker.missing began print"]);

  state.holds = false;
  state.found = [];
  await pass(6 * MINUTE_MS);
  assert.deepEqual(lines().slice(2), ["certificate.expiring ended -"]);
});

test("a new sweep node sends the end of a shared condition within a minute of it", async () => {
  const { board, state, pass, lines } = await startBoard({ holds: false });
  state.found = [condition("worker.missing", "print"), condition("worker.missing", "scan")];
  await pass(10 * MINUTE_MS);
  state.found = [condition("worker.missing", "print")];
  await pass(2 * MINUTE_MS);
  state.found = [];
  // Both end before the next sweep, the first more than a minute before.
  await pass(5 * MINUTE_MS);
  assert.deepEqual(board.standing(), []);

  state.holds = true;
  await pass(10 * MINUTE_MS);
  assert.deepEqual(lines(), ["worker.missing ended print"]);
});

test("a shared condition that returns within a minute of its end is a new condition", async () => {
  const { board, clock, state, pass, lines } = await startBoard({ holds: false });
  const [print, scan] = ["print", "scan"].map((type) => condition("worker.missing", type));
  assert(print && scan);
  state.found = [print, scan];
  await pass(LOOK_MS);
  const firstAt = clock.now();
  state.found = [scan];
  await pass(5 * MINUTE_MS);
  state.found = [print, scan];
  await pass(LOOK_MS);
  assert.deepEqual(
    board.standing().map(({ subject, since }) => [subject, since]),
    [
      ["scan", firstAt],
      ["print", clock.now()],
    ],
  );

  state.holds = true;
  await pass(LOOK_MS);
  assert.deepEqual(lines(), ["worker.missing began scan", "worker.missing began print"]);
});

test("neither a failed check nor a condition that cannot be checked ends a condition", async () => {
  const { state, pass, lines } = await startBoard();
  const found = [condition("disk.low"), condition("proxy.untrusted")];
  state.found = found;
  await pass(LOOK_MS);
  state.found = new Error("out of reach");
  await pass(10 * MINUTE_MS);
  state.found = found;
  await pass(LOOK_MS);
  assert.deepEqual(lines(), ["disk.low began -", "proxy.untrusted began -"]);

  state.found = [];
  state.unknown = ["disk.low"];
  await pass(60 * MINUTE_MS);
  assert.deepEqual(lines().slice(2), ["proxy.untrusted ended -"]);

  state.unknown = [];
  await pass(5 * MINUTE_MS);
  assert.deepEqual(lines().slice(3), ["disk.low ended -"]);
});

test("a new receiver gets every current condition, and a drained board sends nothing", async () => {
  const { board, state, pass, lines, clock } = await startBoard();
  state.found = [condition("disk.low"), condition("host.failing", "a.example")];
  await pass(LOOK_MS);

  board.tellAgain();
  assert.deepEqual(lines().slice(2), ["disk.low began -", "host.failing began a.example"]);

  board.drain();
  state.found = [];
  await pass(10 * MINUTE_MS);
  assert.equal(lines().length, 4);
  assert.deepEqual(clock.pending(), []);
});

test("close waits for the check under way, and logs the webhooks that were given up", async () => {
  const { board, clock, state, logged, lines } = await startBoard();
  const { promise, reject } = Promise.withResolvers<void>();
  state.delay = promise;
  state.givenUp = { count: 2, hosts: [{ host: "a.example", count: 2 }], hostsInAll: 1 };
  clock.advance(LOOK_MS);

  let isClosed = false;
  const closed = board.close().then(() => (isClosed = true));
  await setImmediate();
  assert.equal(isClosed, false);
  reject(new Error("the store is closed"));
  await closed;

  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? "", /2 webhooks .* 1 host/);
  assert.deepEqual(lines(), ["delivery.given_up happened -"]);
});

test("a lost event is sent again after an hour if the condition lasts", async () => {
  const { state, pass, lines, lose, logged } = await startBoard();
  state.found = [condition("disk.low")];
  await pass(LOOK_MS);
  lose();
  await pass(60 * MINUTE_MS - LOOK_MS);
  assert.equal(lines().length, 1);
  await pass(LOOK_MS);
  assert.deepEqual(lines(), ["disk.low began -", "disk.low began -"]);
  assert.equal(logged.length, 1);

  await pass(120 * MINUTE_MS);
  assert.equal(lines().length, 2);
  state.found = [];
  await pass(6 * MINUTE_MS);
  assert.deepEqual(lines().slice(2), ["disk.low ended -"]);
});

test("a condition that ends after its event was lost is logged, and sends no event", async () => {
  const { state, pass, lines, lose, logged } = await startBoard();
  state.found = [condition("disk.low")];
  await pass(LOOK_MS);
  lose();
  state.found = [];
  await pass(120 * MINUTE_MS);

  assert.deepEqual(lines(), ["disk.low began -"]);
  assert.equal(logged.length, 2);
});

type Attempt = Parameters<ReceiverWatch["attempt"]>[0];

function attempt(host: string, outcome: Attempt["outcome"], state: Attempt["state"]): Attempt {
  return { host, outcome, state };
}

test("a host fails after five minutes and three attempts without a success", () => {
  const clock = createFakeClock();
  const watch = new ReceiverWatch(clock);
  const fail = (host: string): void => watch.attempt(attempt(host, "timed_out", "scheduled"));
  for (let i = 0; i < 100; i++) fail("a.example");
  fail("b.example");
  // Neither outcome is about a receiver.
  watch.attempt(attempt("c.example", "refused", "refused"));
  for (let i = 0; i < 5; i++) watch.attempt(attempt("c.example", "interrupted", "scheduled"));
  assert.deepEqual(watch.failing({ isAlone: true }), []);

  const since = clock.now();
  clock.advance(5 * MINUTE_MS);
  assert.deepEqual(watch.failing({ isAlone: true }), [{ host: "a.example", failures: 100, since }]);
  for (let i = 0; i < 2; i++) fail("b.example");
  assert.equal(watch.failing({ isAlone: true }).length, 2);

  watch.attempt(attempt("a.example", "delivered", "delivered"));
  assert.deepEqual(watch.failing({ isAlone: true }), [{ host: "b.example", failures: 3, since }]);
  clock.advance(60 * MINUTE_MS + 1);
  assert.deepEqual(watch.failing({ isAlone: true }), []);
});

test("in a cluster a node forgets a host after twenty minutes without an attempt", () => {
  const clock = createFakeClock();
  const watch = new ReceiverWatch(clock);
  for (let i = 0; i < 4; i++) {
    watch.attempt(attempt("a.example", "failed", "scheduled"));
    clock.advance(5 * MINUTE_MS);
  }
  clock.advance(15 * MINUTE_MS);

  assert.equal(watch.failing({ isAlone: false }).length, 1);
  clock.advance(1);
  assert.equal(watch.failing({ isAlone: true }).length, 1);
  assert.deepEqual(watch.failing({ isAlone: false }), []);
});

test("a host that fails after a thousand dead names is found", () => {
  const clock = createFakeClock();
  const watch = new ReceiverWatch(clock);
  for (let i = 0; i < 1000; i++) watch.attempt(attempt(`${i}.example`, "failed", "given_up"));
  for (let i = 0; i < 3; i++) {
    watch.attempt(attempt("a.example", "failed", "scheduled"));
    clock.advance(5 * MINUTE_MS);
  }

  assert.deepEqual(
    watch.failing({ isAlone: true }).map(({ host }) => host),
    ["a.example"],
  );
});

test("webhooks that are given up to thousands of hosts are counted in bounded memory", () => {
  const clock = createFakeClock();
  const watch = new ReceiverWatch(clock);
  for (let i = 0; i < 5000; i++) watch.attempt(attempt(`${i}.example`, "failed", "given_up"));
  for (let i = 0; i < 3; i++) watch.attempt(attempt("7.example", "failed", "given_up"));
  assert.equal(watch.takeGivenUp("in time"), null);

  clock.advance(5 * MINUTE_MS);
  const givenUp = watch.takeGivenUp("in time");

  assert.equal(givenUp?.count, 5003);
  assert.equal(givenUp.hosts.length, 20);
  assert.deepEqual(givenUp.hosts.slice(0, 2), [
    { host: "others", count: 4000 },
    { host: "7.example", count: 4 },
  ]);
  assert.equal(watch.takeGivenUp("in time"), null);

  watch.attempt(attempt("7.example", "failed", "given_up"));
  assert.equal(watch.takeGivenUp("at once")?.count, 1);
  assert.equal(watch.takeGivenUp("at once"), null);
});

const PRINT: TypeSample = {
  ...{ name: "print", running: 0, waiting: 1, isMoreWaiting: false, oldestMs: 2 * MINUTE_MS },
  ...{ workersWaiting: 0, hasWorker: false },
};

function startSource() {
  const verdict = loadConfig({ flags: {}, env: {}, cwd: "/", readFile: () => null });
  assert(verdict.kind === "config");
  const clock = createFakeClock();
  const state: { types: readonly TypeSample[] | null; diskFreeBytes: number | null } = {
    types: [],
    diskFreeBytes: 1e12,
  };
  const look = conditionSource({
    ...{ config: verdict.config, clock, certificate: () => null, fault: () => null },
    ...{ watch: { warnings: () => [] }, backups: { state: () => null }, nodes: () => 1 },
    ...{ receivers: { failing: () => [] }, floods: { accounts: () => [] } },
    proxies: { address: () => null },
    store: { listNodes: async () => [] },
    shortage: async () => null,
    async workerTypes() {
      if (state.types === null) throw new StoreError("busy", "locked by another process");
      return state.types;
    },
    database: {
      async sizes() {
        const { diskFreeBytes } = state;
        return { bytes: 0, walBytes: 0, diskFreeBytes, diskTotalBytes: null };
      },
    },
  });
  const names = async () => (await look()).conditions.map(({ name }) => name);
  return { clock, state, look, names };
}

test("a missing worker is reported after half a minute of checks, regardless of the wall clock", async () => {
  const { clock, state, names } = startSource();
  clock.advance(MINUTE_MS);
  assert.deepEqual(await names(), []);

  // The clock was set forward: each worker returns a moment later.
  state.types = [PRINT];
  for (let i = 0; i < 2; i++) {
    assert.deepEqual(await names(), []);
    clock.advance(15_000);
  }
  state.types = [{ ...PRINT, hasWorker: true }];
  assert.deepEqual(await names(), []);

  state.types = [PRINT];
  assert.deepEqual(await names(), []);
  clock.advance(15_000);
  assert.deepEqual(await names(), []);
  clock.advance(15_000);
  assert.deepEqual(await names(), ["worker.missing"]);
});

test("conditions of unreadable types and of an unreadable disk are unknown", async () => {
  const { state, look } = startSource();
  assert.deepEqual(await look(), { conditions: [], unknown: new Set() });

  state.types = null;
  state.diskFreeBytes = null;
  const { conditions, unknown } = await look();

  assert.deepEqual(conditions, []);
  assert.deepEqual([...unknown].toSorted(), ["disk.low", "worker.missing"]);
});
