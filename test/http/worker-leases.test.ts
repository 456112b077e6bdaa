import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import fc from "fast-check";

import type { LeaseOutcome } from "../../src/domain/lease/lease.ts";
import type { WorkerDesk } from "../../src/http/operation-deps.ts";
import { StoreError } from "../../src/store/store.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { ask } from "./answer.ts";
import { startRing } from "./ring.ts";
import {
  askAsWorker,
  outcomesOf,
  tasksOf,
  workerPost,
  type Called,
  type ShownOutcome,
} from "./worker-requests.ts";

const ID = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
const LEASE = { id: ID, lease_id: "lease-1" };
const RESULT_BYTES = 2048;

const OPERATIONS = ["heartbeat", "complete", "fail", "release"] as const;

type Asked = readonly [operation: (typeof OPERATIONS)[number], leases: readonly unknown[]];

/** The HTTP ring before a desk that notes what it is asked and answers `ok`, or what it is told to. */
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

/** The name of the list in an operation's body. */
function listOf(operation: Asked[0]): string {
  return operation === "heartbeat" ? "leases" : "tasks";
}

/** A lease for each operation, as a worker names it. */
function itemFor(operation: Asked[0], lease: object = LEASE): object {
  return operation === "fail" ? { ...lease, message: "No." } : lease;
}

async function outcomesOfItems(
  called: Called,
  operation: Asked[0],
  items: readonly unknown[],
): Promise<readonly ShownOutcome[]> {
  return outcomesOf(called, operation, { [listOf(operation)]: items });
}

test("what is no lease is lost, says why, and spoils nothing beside it", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const none = [null, 1, "x", true, [], [[]], [LEASE], 1.5, {}, { lease_id: "x" }, { id: 5 }];
  const strange = [
    { ...LEASE, id: null },
    { ...LEASE, id: ID.toUpperCase() },
    { ...LEASE, id: `${ID}x` },
    { ...LEASE, id: "x".repeat(100_000) },
    { ...LEASE, id: "\u0000\ud800" },
    { ...LEASE, id: { id: ID } },
    { id: ID },
    { id: ID, lease_id: null },
    { id: ID, lease_id: 7 },
    { id: ID, lease_id: "" },
    { id: ID, lease_id: "x".repeat(65) },
    { id: ID, lease_id: ["lease-1"] },
    JSON.parse(`{"__proto__":${JSON.stringify(LEASE)}}`),
  ];
  const bad = [...none, ...strange];
  for (const operation of OPERATIONS) {
    const good = itemFor(operation);
    const told = await outcomesOfItems(called, operation, [good, ...bad, good]);
    const rest = told.slice(1, -1);
    const fine = { id: ID, outcome: "ok" };
    assert.deepEqual([told.length, told[0], told.at(-1)], [bad.length + 2, fine, fine], operation);
    for (const [i, { id, outcome, detail }] of rest.entries()) {
      const given = Object(bad[i]);
      const expected = Object.hasOwn(given, "id") && typeof given.id === "string" ? given.id : null;
      assert.deepEqual([id, outcome], [expected, "lost"], JSON.stringify(bad[i]));
      assert.match(detail ?? "", /^It must \S.*\.$/);
    }
    assert.equal(asked.at(-1)?.[1].length, 2, "the desk is asked about leases only");
  }
  assert.deepEqual(
    asked.map(([operation]) => operation),
    OPERATIONS,
  );
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

test("whatever stands in a list, each item has its outcome, and the desk is asked about leases alone", async (t) => {
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

test("a list of nothing but garbage asks the desk for nothing", async (t) => {
  const { asked, ...called } = await startDesk(t);
  for (const operation of OPERATIONS) {
    const told = await outcomesOfItems(called, operation, Array.from({ length: 100 }).fill(null));
    assert.ok(told.every(({ outcome }) => outcome === "lost"));
  }
  assert.deepEqual(asked, []);
});

const LENGTHS = { heartbeat: [0, 1000], release: [1, 1000], complete: [1, 100], fail: [1, 100] };

test("a list is as long as it may be, and never cut: one more, 10,000, or too few is 40501", async (t) => {
  const { asked, ...called } = await startDesk(t);
  for (const operation of OPERATIONS) {
    const [min = 0, max = 0] = LENGTHS[operation];
    const name = listOf(operation);
    const many = (length: number) => Array.from({ length }).fill(itemFor(operation));
    for (const length of [min, max]) {
      assert.equal((await outcomesOfItems(called, operation, many(length))).length, length);
    }
    const before = asked.length;
    const others = [many(max + 1), many(10_000), {}, "x", 1, true, { length: 1, 0: LEASE }];
    for (const list of min === 0 ? others : [...others, []]) {
      const { code, body } = await askAsWorker(called, operation, { [name]: list });
      assert.equal(code, 40501, `${operation} of ${JSON.stringify(list).slice(0, 50)}`);
      assert.deepEqual(
        body.errors?.map(({ pointer }) => pointer),
        [`/${name}`],
      );
    }
    assert.equal(asked.length, before);
  }
});

test("outcomes are told in the order asked, the same lease twice too", async (t) => {
  const outcomes = ["ok", "lost", "cancelled", "ok"] as const;
  const answer = async (_: number, leases: readonly unknown[]) =>
    leases.flatMap((_, i) => outcomes[i] ?? []);
  const desk = { heartbeat: answer, complete: answer, fail: answer, release: answer };
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

test("a member that an item does not have is named, and the item counts all the same", async (t) => {
  const { asked, ...called } = await startDesk(t);
  for (const operation of OPERATIONS) {
    const [told] = await outcomesOfItems(called, operation, [
      { ...itemFor(operation), resutl: 5, constructor: 1 },
    ]);
    assert.equal(told?.outcome, "ok");
    assert.match(told?.detail ?? "", /^Only these members are known here: id, lease_id.*\.$/);
  }
  assert.deepEqual(asked[1]?.[1], [{ id: ID, leaseId: "lease-1", resultText: "null" }]);
});

test("a body that cannot be read is refused whole, and the desk is not asked", async (t) => {
  const { asked, ...called } = await startDesk(t);
  for (const operation of OPERATIONS) {
    const name = listOf(operation);
    const item = JSON.stringify(itemFor(operation));
    const bodies: readonly (readonly [number, string | Uint8Array])[] = [
      [40502, ""],
      [40503, `{"${name}":[${item}`],
      [40503, `[${item}]`],
      [40503, Buffer.from(`{"${name}":[${item},"\xff"]}`, "latin1")],
      [40503, `{"${name}":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
      [40503, `{"${name}":[${item},${"[".repeat(2000)}${"]".repeat(2000)}]}`],
      [40501, `{"${name}":[${item}],"nonsense":1}`],
      [40501, "{}"],
      [41300, `{"${name}":[${item},"${"x".repeat(1024 * 1024)}"]}`],
    ];
    for (const [code, body] of bodies) {
      const answer = await askAsWorker(called, operation, body);
      assert.equal(answer.code, code, `${operation} ${body.slice(0, 60).toString()}`);
    }
    const typed = workerPost(called, { operation, body: {} });
    const headers = [typed.headers?.[0] ?? "", "Content-Type: text/plain"];
    assert.equal((await ask(called.url, { ...typed, headers })).code, 41500);
  }
  assert.deepEqual(asked, []);
});

test("a desk that cannot reach its disk is 50300 for the whole batch, which may be sent again", async (t) => {
  const broken = () => Promise.reject(new StoreError("busy", "SECRET"));
  const desk = { heartbeat: broken, complete: broken, fail: broken, release: broken };
  const called = await startDesk(t, desk);
  for (const operation of OPERATIONS) {
    const body = { [listOf(operation)]: [itemFor(operation)] };
    const { code, response } = await askAsWorker(called, operation, body);
    assert.deepEqual([code, headerOf(response, "retry-after")], [50300, "1"]);
    assert.doesNotMatch(response.body.toString(), /SECRET/);
  }
  assert.deepEqual(called.logged, []);
});

test("a desk that forgets an outcome is a fault, and no lease is told another's", async (t) => {
  const short = async () => ["ok"] as const;
  const called = await startDesk(t, { heartbeat: short, complete: short, release: short });
  for (const operation of ["heartbeat", "release", "complete"] as const) {
    const body = { [listOf(operation)]: [LEASE, LEASE, LEASE] };
    const { code } = await askAsWorker(called, operation, body);
    // Of completions the rest is asked for until each has its outcome.
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

test("a result is kept as it came: every digit, every character, up to 64 levels deep", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const results = [
    ["1.0", "-0", "12345678901234567890", "0.10", "1E400", "1e-7", "[1.50,2]", "null", "true"],
    [`{"a":{"b":[]},"":0,"__proto__":{"x":1}}`, '"\\ud800"', '"é😀"', nested(64), '"\\u0000"'],
    [`"${"x".repeat(RESULT_BYTES - 2)}"`],
  ].flat();
  for (const result of results) {
    assert.deepEqual(await completeWith(called, result), { id: ID, outcome: "ok" }, result);
    const [operation, leases] = asked.at(-1) ?? [];
    assert.equal(operation, "complete");
    assert.deepEqual(leases, [{ id: ID, leaseId: "lease-1", resultText: result }]);
  }
  await outcomesOf(called, "complete", { tasks: [LEASE] });
  assert.deepEqual(asked.at(-1)?.[1], [{ id: ID, leaseId: "lease-1", resultText: "null" }]);
});

test("the largest result is taken in any spelling, whatever other bodies may have", async (t) => {
  const { asked, ...called } = await startDesk(t, { bodyBytes: 1024 });
  // Two bytes each in UTF-8, six in ASCII.
  const characters = (RESULT_BYTES - 2) / 2;
  const told = await completeWith(called, `"${"\\u00e9".repeat(characters)}"`);
  assert.deepEqual(told, { id: ID, outcome: "ok" });
  assert.equal(asked.at(-1)?.[0], "complete");
  const padded = (bytes: number) => JSON.stringify({ tasks: [LEASE] }).padEnd(bytes);
  assert.equal((await askAsWorker(called, "complete", padded(4 * RESULT_BYTES))).code, 20000);
  assert.equal((await askAsWorker(called, "complete", padded(4 * RESULT_BYTES + 1))).code, 41300);
  const beat = JSON.stringify({ leases: [LEASE] });
  assert.equal((await askAsWorker(called, "heartbeat", beat.padEnd(1024))).code, 20000);
  assert.equal((await askAsWorker(called, "heartbeat", beat.padEnd(1025))).code, 41300);
});

test("a result that is too large or too deep fails its run, as the type's retries say, and says so", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const results = [
    [`"${"x".repeat(RESULT_BYTES - 1)}"`, /is over 2048 bytes/],
    [`"${"é".repeat(RESULT_BYTES / 2)}"`, /is over 2048 bytes/],
    [nested(65), /is nested deeper than 64 levels/],
    [`{"a":${nested(900)}}`, /is nested deeper than 64 levels/],
  ] as const;
  for (const [result, reason] of results) {
    const told = await completeWith(called, result);
    assert.equal(told?.outcome, "ok");
    assert.match(told?.detail ?? "", reason);
    const [operation, failures] = asked.at(-1) ?? [];
    assert.equal(operation, "fail");
    const [{ message, ...failure }] = failures as [{ readonly message: string }];
    assert.match(message, reason);
    assert.deepEqual(failure, { id: ID, leaseId: "lease-1", detailText: "null", retry: null });
  }
});

test("good and bad results of one batch go to the desk in the order asked", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const bad = { ...LEASE, result: "x".repeat(RESULT_BYTES) };
  const items = [LEASE, null, LEASE, bad, bad, LEASE, { id: "x" }, bad];
  const told = await outcomesOfItems(called, "complete", items);

  const shape = asked.map(([operation, leases]) => [operation, leases.length]);
  assert.deepEqual(shape, [
    ["complete", 2],
    ["fail", 2],
    ["complete", 1],
    ["fail", 1],
  ]);
  const isPlain = told.map(({ detail }) => detail === undefined);
  assert.deepEqual(isPlain, [true, false, true, false, false, true, false, false]);
  assert.equal(told.filter(({ outcome }) => outcome === "ok").length, 6);
});

// Failures.

const CLEAN = { detailText: "null", retry: null };

test("a failure always counts, with what of it can be kept; the rest is said in detail", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const cases: readonly (readonly [object, object, RegExp | null])[] = [
    [{ message: "No." }, { message: "No.", ...CLEAN }, null],
    [{ message: "a\nb\tc" }, { message: "a\nb\tc", ...CLEAN }, null],
    [{ message: "a\r\nb\rc" }, { message: "a\nb\nc", ...CLEAN }, null],
    [{ message: "a\u0000\u001b[1m\u0085b" }, { message: "a [1m b", ...CLEAN }, null],
    [{ message: "a\ud800b" }, { message: "a\ufffdb", ...CLEAN }, null],
    [{ message: "😀".repeat(1000) }, { message: "😀".repeat(1000), ...CLEAN }, null],
    [{ message: "😀".repeat(1001) }, { message: "😀".repeat(1000), ...CLEAN }, /cut to 1000/],
    [{ message: "x".repeat(500_000) }, { message: "x".repeat(1000), ...CLEAN }, /cut to 1000/],
    ...[{}, { message: null }, { message: 5 }, { message: "" }, { message: " \u0000\n" }].map(
      (item) =>
        [item, { message: "The worker gave no reason.", ...CLEAN }, /There was no mess/] as const,
    ),
    [{ message: "x", retry: true }, { message: "x", ...CLEAN, retry: true }, null],
    [{ message: "x", retry: false }, { message: "x", ...CLEAN, retry: false }, null],
    [{ message: "x", retry: null }, { message: "x", ...CLEAN }, null],
    [{ message: "x", retry: "no" }, { message: "x", ...CLEAN }, /retry must be true or false/],
    [{ message: "x", retry: 0 }, { message: "x", ...CLEAN }, /retry must be true or false/],
    [{ message: "x", detail: 0 }, { message: "x", ...CLEAN, detailText: "0" }, null],
    [{ message: "x", detail: ["y"] }, { message: "x", ...CLEAN, detailText: '["y"]' }, null],
    [{ message: "x", detail: "x".repeat(RESULT_BYTES) }, { message: "x", ...CLEAN }, /left out/],
    [
      { message: 1, detail: JSON.parse(nested(65)), retry: [] },
      { message: "The worker gave no reason.", ...CLEAN },
      /left out.*retry must be.*no message/,
    ],
  ];
  for (const [item, failure, detail] of cases) {
    const [told] = await outcomesOfItems(called, "fail", [{ ...LEASE, ...item }]);
    const label = JSON.stringify(item).slice(0, 80);
    assert.deepEqual(asked.at(-1), ["fail", [{ id: ID, leaseId: "lease-1", ...failure }]], label);
    assert.equal(told?.outcome, "ok");
    if (detail === null) assert.equal(told?.detail, undefined, label);
    else assert.match(told?.detail ?? "", detail, label);
  }
});

// Heartbeats.

test("progress stands at the top for all leases, or beside one for it alone", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const body = {
    leases: [
      LEASE,
      { ...LEASE, progress: { progress: 1, note: "é" } },
      { ...LEASE, progress: null },
    ],
    progress: { progress: 0.5 },
  };
  await outcomesOf(called, "heartbeat", body);
  await outcomesOf(called, "heartbeat", { leases: [LEASE] });

  const ref = { id: ID, leaseId: "lease-1" };
  const half = { progress: 0.5, note: null };
  assert.deepEqual(asked, [
    [
      "heartbeat",
      [
        { ...ref, progress: half },
        { ...ref, progress: { progress: 1, note: "é" } },
        { ...ref, progress: half },
      ],
    ],
    ["heartbeat", [{ ...ref, progress: null }]],
  ]);
});

test("what is no progress is 40501 at the top, and passed over with a word beside a lease", async (t) => {
  const { asked, ...called } = await startDesk(t);
  const none = [
    [5, "x", true, [], {}, [0.5], { progress: null }, { progress: "0.5" }, { progress: 1.01 }],
    [{ progress: -0.01 }, { progress: 0.5, note: 5 }, { progress: 0.5, note: "a\nb" }],
    [{ progress: 0.5, note: "x".repeat(256) }, { note: "x" }, { progress: [0.5] }],
  ].flat();
  for (const progress of none) {
    const before = asked.length;
    const top = await askAsWorker(called, "heartbeat", { leases: [LEASE], progress });
    assert.equal(top.code, 40501, JSON.stringify(progress));
    assert.equal(top.body.errors?.[0]?.pointer, "/progress");
    assert.equal(asked.length, before);
    const [told] = await outcomesOfItems(called, "heartbeat", [{ ...LEASE, progress }]);
    assert.equal(told?.outcome, "ok");
    assert.match(told?.detail ?? "", /^The progress was passed over: it must be an object/);
    const [, leases] = asked.at(-1) ?? [];
    assert.deepEqual(leases, [{ id: ID, leaseId: "lease-1", progress: null }]);
  }
});

test("a heartbeat says whether the daemon stops, also to a worker that holds nothing", async (t) => {
  for (const isDraining of [false, true]) {
    const { asked, ...called } = await startDesk(t, { isDraining });
    for (const leases of [[], [LEASE]]) {
      const answer = await askAsWorker(called, "heartbeat", { leases });
      assert.equal(tasksOf(answer).length, leases.length);
      const { drain } = JSON.parse(answer.response.body.toString());
      assert.equal(drain, isDraining);
    }
    assert.equal(asked.length, 1);
  }
});

test("outcomes are the desk's, whatever they are", async (t) => {
  for (const outcome of ["ok", "lost", "cancelled"] as const) {
    const called = await startDesk(t, { outcome });
    for (const operation of OPERATIONS) {
      const told = await outcomesOfItems(called, operation, [itemFor(operation)]);
      assert.deepEqual(told, [{ id: ID, outcome }]);
    }
  }
});
