import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import fc from "fast-check";

import type { LeaseOutcome } from "../../src/domain/lease/lease.ts";
import type { WorkerDesk } from "../../src/http/operation-deps.ts";
import { StoreError } from "../../src/store/store.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { startRing } from "./ring.ts";
import { atStore } from "./session-requests.ts";
import {
  askAsWorker,
  claim,
  createTestWorker,
  outcomesOf,
  tasksOf,
  type Called,
  type ShownOutcome,
} from "./worker-requests.ts";

const ID = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
const LEASE = { id: ID, lease_id: "lease-1" };
const REF = { id: ID, leaseId: "lease-1" };
const OK = { id: ID, outcome: "ok" };
const RESULT_BYTES = 2048;

const OPERATIONS = ["heartbeat", "complete", "fail", "release"] as const;

type Asked = readonly [operation: (typeof OPERATIONS)[number], leases: readonly unknown[]];

/** The HTTP ring before a desk that notes its calls and returns `ok`, or the other outcome, for each lease. */
async function startDesk(
  t: TestContext,
  {
    outcome = "ok",
    bodyBytes = 1024 * 1024,
    ...more
  }: {
    readonly outcome?: LeaseOutcome;
    readonly bodyBytes?: number;
  } & Partial<WorkerDesk> = {},
) {
  const asked: Asked[] = [];
  const take =
    (operation: Asked[0]) =>
    async (_: number, leases: readonly unknown[]): Promise<readonly LeaseOutcome[]> => {
      asked.push([operation, leases]);
      return leases.map(() => outcome);
    };
  const desk = Object.fromEntries(OPERATIONS.map((each) => [each, take(each)]));
  const limits = { bodyBytes, resultBytes: RESULT_BYTES };
  const ring = await startRing(t, { desk: { ...desk, ...more }, limits });
  return { ...ring, asked };
}

/** A desk with one step for all operations. */
function deskOf(
  step: (_: number, leases: readonly unknown[]) => Promise<readonly LeaseOutcome[]>,
): Partial<WorkerDesk> {
  return { heartbeat: step, complete: step, fail: step, release: step };
}

/** The name of the list in an operation's body. */
function listOf(operation: Asked[0]): string {
  return operation === "heartbeat" ? "leases" : "tasks";
}

/** A lease for each operation, as a worker names it. */
function itemFor(operation: Asked[0]): object {
  return operation === "fail" ? { ...LEASE, message: "No." } : LEASE;
}

async function outcomesOfItems(
  called: Called,
  operation: Asked[0],
  items: readonly unknown[],
): Promise<readonly ShownOutcome[]> {
  return outcomesOf(called, operation, { [listOf(operation)]: items });
}

test("an item that is not a lease is lost with a detail, and does not affect other items", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const bad = [
    ...[null, 1, "x", [], [LEASE], {}, { lease_id: "x" }, { id: 5 }, { ...LEASE, id: null }],
    ...[ID.toUpperCase(), `${ID}x`, "x".repeat(100_000), "\u0000\ud800", { id: ID }].map((id) => ({
      ...LEASE,
      id,
    })),
    ...[undefined, null, 7, "", "x".repeat(65), ["lease-1"]].map((lease_id) => ({
      ...LEASE,
      lease_id,
    })),
    JSON.parse(`{"__proto__":${JSON.stringify(LEASE)}}`),
  ];
  for (const operation of OPERATIONS) {
    const good = itemFor(operation);
    const told = await outcomesOfItems(called, operation, [good, ...bad, good]);
    assert.deepEqual([told.length, told[0], told.at(-1)], [bad.length + 2, OK, OK], operation);
    for (const [i, { id, outcome, detail }] of told.slice(1, -1).entries()) {
      const given = Object(bad[i]);
      const expected = Object.hasOwn(given, "id") && typeof given.id === "string" ? given.id : null;
      assert.deepEqual([id, outcome], [expected, "lost"], JSON.stringify(bad[i]));
      assert.match(detail ?? "", /\S/);
    }
    assert.equal(asked.at(-1)?.[1].length, 2);
    await outcomesOfItems(called, operation, bad);
  }
  assert.equal(asked.length, OPERATIONS.length);
});

// One seed, so that a failure comes again; fast-check prints it with the smallest input that fails.
const SEED = 20_260_718;

/** Any JSON, and leases that were almost or entirely right. */
const ITEM = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.record(
    {
      id: fc.oneof(fc.constant(ID), fc.jsonValue()),
      lease_id: fc.oneof(fc.constant("lease-1"), fc.jsonValue()),
      result: fc.jsonValue(),
      message: fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue()),
      detail: fc.jsonValue(),
      retry: fc.oneof(fc.boolean(), fc.jsonValue()),
      progress: fc.oneof(fc.record({ progress: fc.double(), note: fc.string() }), fc.jsonValue()),
    },
    { requiredKeys: [] },
  ),
);

test("every item of a list of arbitrary JSON has an outcome, and the desk gets the leases alone", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const property = fc.asyncProperty(
    fc.constantFrom(...OPERATIONS),
    fc.array(ITEM, { minLength: 1, maxLength: 8 }),
    async (operation, items) => {
      asked.length = 0;
      const told = await outcomesOfItems(called, operation, items);
      assert.equal(told.length, items.length);
      const leases = asked.flatMap(([, each]) => each) as readonly { readonly id: unknown }[];
      assert.equal(told.filter(({ outcome }) => outcome === "ok").length, leases.length);
      assert.ok(leases.every(({ id }) => id === ID));
      assert.ok(told.every(({ outcome, detail }) => outcome === "ok" || detail !== undefined));
    },
  );
  await fc.assert(property, { seed: SEED, numRuns: 500 });
});

const LENGTHS = { heartbeat: [0, 1000], release: [1, 1000], complete: [1, 100], fail: [1, 100] };

test("a list with too few or too many leases is 40501 and never cut", async (t) => {
  const { asked, ...called } = await startDesk(t);
  for (const operation of OPERATIONS) {
    const [min = 0, max = 0] = LENGTHS[operation];
    const name = listOf(operation);
    const many = (length: number) => Array.from({ length }).fill(itemFor(operation));
    for (const length of [min, max]) {
      assert.equal((await outcomesOfItems(called, operation, many(length))).length, length);
    }
    const before = asked.length;
    const others = [many(max + 1), many(10_000), { length: 1, 0: LEASE }];
    for (const list of min === 0 ? others : [...others, []]) {
      const { code, body } = await askAsWorker(called, operation, { [name]: list });
      const label = `${operation} of ${JSON.stringify(list).slice(0, 50)}`;
      assert.deepEqual([code, body.errors?.[0]?.pointer], [40501, `/${name}`], label);
    }
    assert.equal(asked.length, before);
  }
});

test("outcomes are the desk's, in the order of the items, and a lease may stand twice", async (t) => {
  const outcomes = ["ok", "lost", "cancelled", "ok"] as const;
  const desk = deskOf(async (_, leases) => leases.flatMap((_, i) => outcomes[i] ?? []));
  const called = await startDesk(t, desk);
  for (const operation of OPERATIONS) {
    const item = itemFor(operation);
    const told = await outcomesOfItems(called, operation, [item, item, null, item, item]);
    assert.deepEqual(
      told.map(({ outcome }) => outcome),
      ["ok", "lost", "lost", "cancelled", "ok"],
      operation,
    );
  }
});

test("an unknown member of an item is named in its detail, and the item counts", async (t) => {
  const { asked, ...called } = await startDesk(t);
  for (const operation of OPERATIONS) {
    const item = { ...itemFor(operation), resutl: 5, constructor: 1 };
    const [told] = await outcomesOfItems(called, operation, [item]);
    assert.equal(told?.outcome, "ok");
    assert.match(told.detail ?? "", / id, lease_id/);
  }
  assert.deepEqual(asked[1]?.[1], [{ ...REF, resultText: "null" }]);
});

test("a batch whose outcomes the store cannot give is 50300, and may be sent again", async (t) => {
  const called = await startDesk(
    t,
    deskOf(() => Promise.reject(new StoreError("busy", "SECRET"))),
  );
  for (const operation of OPERATIONS) {
    const body = { [listOf(operation)]: [itemFor(operation)] };
    const { code, response } = await askAsWorker(called, operation, body);
    assert.deepEqual([code, headerOf(response, "retry-after")], [50300, "1"]);
    assert.doesNotMatch(response.body.toString(), /SECRET/);
  }
  assert.deepEqual(called.logged, []);
});

test("a desk with fewer outcomes than leases is a fault, unless it is called again for the rest", async (t) => {
  const called = await startDesk(
    t,
    deskOf(async () => ["ok"]),
  );
  for (const operation of ["heartbeat", "release", "complete"] as const) {
    const body = { [listOf(operation)]: [LEASE, LEASE, LEASE] };
    const { code } = await askAsWorker(called, operation, body);
    assert.equal(code, operation === "complete" ? 20000 : 50000, operation);
  }
});

// Results.

/** Arrays inside one another. */
function nested(levels: number): string {
  return "[".repeat(levels) + "]".repeat(levels);
}

async function completeWith(called: Called, result: string): Promise<ShownOutcome | undefined> {
  const body = `{"tasks":[{"id":"${ID}","lease_id":"lease-1","result":${result}}]}`;
  return (await outcomesOf(called, "complete", body))[0];
}

test("a result is stored as it was sent, up to 64 levels deep", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const results = [
    ["1.0", "-0", "12345678901234567890", "0.10", "1E400", "1e-7", "[1.50,2]", "null", "true"],
    [`{"a":{"b":[]},"":0,"__proto__":{"x":1}}`, '"\\ud800"', '"é😀"', nested(64), '"\\u0000"'],
    [`"${"x".repeat(RESULT_BYTES - 2)}"`],
  ].flat();
  for (const result of results) {
    assert.deepEqual(await completeWith(called, result), OK, result);
    assert.deepEqual(asked.at(-1), ["complete", [{ ...REF, resultText: result }]]);
  }
  await outcomesOf(called, "complete", { tasks: [LEASE] });
  assert.deepEqual(asked.at(-1)?.[1], [{ ...REF, resultText: "null" }]);
});

test("the largest result fits into a body in every spelling, with a low limits.body too", async (t) => {
  const { asked, ...called } = await startDesk(t, { bodyBytes: 1024 });
  // Two bytes each in UTF-8, six in ASCII.
  const characters = (RESULT_BYTES - 2) / 2;
  assert.deepEqual(await completeWith(called, `"${"\\u00e9".repeat(characters)}"`), OK);
  assert.equal(asked.at(-1)?.[0], "complete");
});

test("a result that is too large or too deep fails its run with a reason", async (t) => {
  const { asked, ...called } = await startDesk(t);
  for (const [result, reason] of [
    [`"${"x".repeat(RESULT_BYTES - 1)}"`, / 2048 bytes/],
    [`"${"é".repeat(RESULT_BYTES / 2)}"`, / 2048 bytes/],
    [nested(65), / 64 levels/],
    [`{"a":${nested(900)}}`, / 64 levels/],
  ] as const) {
    const told = await completeWith(called, result);
    assert.equal(told?.outcome, "ok");
    assert.match(told.detail ?? "", reason);
    const [operation, failures] = asked.at(-1) ?? [];
    const [{ message, ...failure }] = failures as [{ readonly message: string }];
    assert.match(message, reason);
    assert.deepEqual([operation, failure], ["fail", { ...REF, detailText: "null", retry: null }]);
  }
});

test("good and bad results of a batch go to the desk in their order", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const bad = { ...LEASE, result: "x".repeat(RESULT_BYTES) };
  const items = [LEASE, null, LEASE, bad, bad, LEASE, { id: "x" }, bad];
  const told = await outcomesOfItems(called, "complete", items);

  assert.deepEqual(
    asked.map(([operation, leases]) => `${operation} ${leases.length}`),
    ["complete 2", "fail 2", "complete 1", "fail 1"],
  );
  assert.deepEqual(
    told.map(({ outcome, detail }) => outcome + (detail === undefined ? "" : " with detail")),
    [
      ...["ok", "lost with detail", "ok", "ok with detail", "ok with detail"],
      ...["ok", "lost with detail", "ok with detail"],
    ],
  );
});

// Failures.

const CLEAN = { detailText: "null", retry: null };
const NO_REASON = "The worker gave no reason.";

test("a failure always counts, and its detail names the parts that are not stored", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const message = (sent: unknown, stored: unknown, detail: RegExp | null = null) =>
    [{ message: sent }, { message: stored }, detail] as const;
  const cases: readonly (readonly [item: object, failure: object, detail: RegExp | null])[] = [
    message("a\nb\tc", "a\nb\tc"),
    message("a\r\nb\rc", "a\nb\nc"),
    message("a\u0000\u001b[1m\u0085b", "a [1m b"),
    message("a\ud800b", "a\ufffdb"),
    message("😀".repeat(1000), "😀".repeat(1000)),
    message("😀".repeat(1001), "😀".repeat(1000), / 1000 /),
    message("x".repeat(500_000), "x".repeat(1000), / 1000 /),
    ...[undefined, null, 5, "", " \u0000\n"].map((sent) => message(sent, NO_REASON, /message/)),
    ...[true, false, null].map((retry) => [{ retry }, { retry }, null] as const),
    ...["no", 0].map((retry) => [{ retry }, {}, /retry/] as const),
    [{ detail: 0 }, { detailText: "0" }, null],
    [{ detail: ["y"] }, { detailText: '["y"]' }, null],
    [{ detail: "x".repeat(RESULT_BYTES) }, {}, /detail/],
    [
      { message: 1, detail: JSON.parse(nested(65)), retry: [] },
      { message: NO_REASON },
      /detail.*retry.*message/,
    ],
  ];
  for (const [item, failure, detail] of cases) {
    const [told] = await outcomesOfItems(called, "fail", [{ ...LEASE, message: "x", ...item }]);
    const label = JSON.stringify(item).slice(0, 80);
    const stored = { ...REF, ...CLEAN, message: "x", ...failure };
    assert.deepEqual(asked.at(-1), ["fail", [stored]], label);
    assert.equal(told?.outcome, "ok");
    assert.equal(told.detail === undefined, detail === null, label);
    if (detail !== null) assert.match(told.detail ?? "", detail, label);
  }
});

// Heartbeats.

test("progress of a heartbeat is for all leases, and progress of an item for that lease", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const full = { progress: 1, note: "é" };
  const leases = [LEASE, { ...LEASE, progress: full }, { ...LEASE, progress: null }];
  await outcomesOf(called, "heartbeat", { leases, progress: { progress: 0.5 } });
  await outcomesOf(called, "heartbeat", { leases: [LEASE] });

  const half = { progress: 0.5, note: null };
  assert.deepEqual(asked, [
    ["heartbeat", [half, full, half].map((progress) => ({ ...REF, progress }))],
    ["heartbeat", [{ ...REF, progress: null }]],
  ]);
});

test("bad progress is 40501 for a heartbeat, and a detail of the outcome for an item", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const bad = [
    [5, "x", true, [], {}, [0.5], { progress: null }, { progress: "0.5" }, { progress: 1.01 }],
    [{ progress: -0.01 }, { progress: 0.5, note: 5 }, { progress: 0.5, note: "a\nb" }],
    [{ progress: 0.5, note: "x".repeat(256) }, { note: "x" }, { progress: [0.5] }],
  ].flat();
  for (const progress of bad) {
    const before = asked.length;
    const label = JSON.stringify(progress);
    const { code, body } = await askAsWorker(called, "heartbeat", { leases: [LEASE], progress });
    assert.deepEqual([code, body.errors?.[0]?.pointer], [40501, "/progress"], label);
    assert.equal(asked.length, before);
    const [told] = await outcomesOfItems(called, "heartbeat", [{ ...LEASE, progress }]);
    assert.equal(told?.outcome, "ok");
    assert.match(told.detail ?? "", /progress/);
    assert.deepEqual(asked.at(-1)?.[1], [{ ...REF, progress: null }]);
  }
});

test("drain of a heartbeat is true while the daemon stops, with and without leases", async (t) => {
  for (const isDraining of [false, true]) {
    const { asked, ...called } = await startDesk(t, { isDraining });
    for (const leases of [[], [LEASE]]) {
      const answer = await askAsWorker(called, "heartbeat", { leases });
      assert.equal(tasksOf(answer).length, leases.length);
      assert.equal(JSON.parse(answer.response.body.toString()).drain, isDraining);
    }
    assert.equal(asked.length, 1);
  }
});

test("a lease of another worker is lost like an unknown one, and its own worker still holds it", async (t) => {
  const toml = '[types.print]\nrunner = "worker"\n';
  const daemon = await startTestDaemon(t, { toml });
  const press = { ...daemon, token: await createTestWorker(daemon.file, ["print"]) };
  const other = { ...daemon, token: await createTestWorker(daemon.file, ["print"], "other") };
  await daemon.post({ type: "print" });
  const [held] = await claim(press, { types: ["print"] });
  const lease = { id: held?.id ?? "", lease_id: held?.lease_id };
  for (const [operation, body] of [
    ["heartbeat", { leases: [{ ...lease, progress: { progress: 0.5 } }] }],
    ["complete", { tasks: [{ ...lease, result: "forged" }] }],
    ["fail", { tasks: [{ ...lease, message: "forged", retry: false }] }],
    ["release", { tasks: [lease] }],
  ] as const) {
    const told = await outcomesOf(other, operation, body);
    assert.deepEqual(told, [{ id: lease.id, outcome: "lost" }], operation);
  }

  const shown = await (await daemon.call(`/v1/tasks/task_get/${lease.id}`)).text();
  assert.match(shown, /"state":"running",.*"progress":null/);
  const result = { ...lease, result: "mine" };
  const told = await outcomesOf(press, "complete", { tasks: [result] });
  assert.deepEqual(told, [{ id: lease.id, outcome: "ok" }]);
  assert.equal((await daemon.get(lease.id)).result, "mine");
});

test("a new worker with the name of a revoked one holds none of its leases", async (t) => {
  const daemon = await startTestDaemon(t, { toml: '[types.print]\nrunner = "worker"\n' });
  const press = { ...daemon, token: await createTestWorker(daemon.file, ["print"]) };
  await daemon.post({ type: "print" });
  const [held] = await claim(press, { types: ["print"] });
  await atStore(daemon.file, (store) => store.revokeWorker({ name: "press", revokedAt: 1 }));
  const again = { ...daemon, token: await createTestWorker(daemon.file, ["print"]) };

  const tasks = [{ id: held?.id ?? "", lease_id: held?.lease_id, result: "forged" }];
  const told = await outcomesOf(again, "complete", { tasks });
  assert.deepEqual(
    told.map(({ outcome }) => outcome),
    ["lost"],
  );
});
