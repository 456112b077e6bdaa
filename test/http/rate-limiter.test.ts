import assert from "node:assert/strict";
import { test } from "node:test";

import { RateLimiter, rateLimitHeaders } from "../../src/http/admission/quota.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

function setUp(options: { readonly limit?: number; readonly entriesMax?: number } = {}) {
  const clock = createFakeClock({ now: 0 });
  const limiter = new RateLimiter({ limit: 2, windowMs: 60_000, clock, ...options });
  const isAllowed = (key: string): boolean => limiter.count(key).isAllowed;
  return { clock, limiter, isAllowed };
}

test("counts each key separately", () => {
  const { isAllowed } = setUp();

  assert.deepEqual([isAllowed("a"), isAllowed("a"), isAllowed("a")], [true, true, false]);
  assert.deepEqual([isAllowed("b"), isAllowed("__proto__")], [true, true]);
});

test("allows the node's part of a shared limit, rounded up, for the current number of nodes", () => {
  const clock = createFakeClock({ now: 0 });
  let count = 3;
  const limiter = new RateLimiter({ limit: 10, windowMs: 60_000, clock, nodes: () => count });
  const allowed = (key: string, limit?: number) => {
    let events = 0;
    while (limiter.count(key, limit === undefined ? {} : { limit }).isAllowed) events++;
    return events;
  };
  assert.equal(allowed("a"), 4);
  assert.equal(allowed("own", 30), 10);
  count = 1;
  assert.equal(allowed("a"), 6);
  count = 3;
  assert.equal(limiter.count("a").isAllowed, false);
  clock.advance(60_000);
  assert.equal(allowed("a"), 4);
});

test("allows a burst within the limit of all nodes once", () => {
  const clock = createFakeClock({ now: 0 });
  const limiter = new RateLimiter({ limit: 10, windowMs: 60_000, clock, nodes: () => 4 });
  assert.equal(limiter.count("a", { events: 11 }).isAllowed, false);
  assert.equal(limiter.count("a", { events: 10 }).isAllowed, true);
  assert.equal(limiter.count("a", { events: 1 }).isAllowed, false);
});

test("a limit of 0 is unlimited with any number of nodes", () => {
  const clock = createFakeClock({ now: 0 });
  const limiter = new RateLimiter({ limit: 0, windowMs: 60_000, clock, nodes: () => 4 });
  assert.deepEqual(limiter.count("a", { events: 9 }).limit, 0);
});

test("allows a key again after its own window", () => {
  const { clock, isAllowed } = setUp();
  isAllowed("a");
  clock.advance(30_000);
  isAllowed("b");
  isAllowed("a");
  isAllowed("b");

  clock.advance(30_000);

  assert.deepEqual([isAllowed("a"), isAllowed("a"), isAllowed("a")], [true, true, false]);
  assert.equal(isAllowed("b"), false);
});

test("does not change with the machine's clock", () => {
  const { clock, isAllowed } = setUp();
  isAllowed("a");
  isAllowed("a");

  clock.step(86_400_000);
  assert.equal(isAllowed("a"), false);
  clock.step(-2 * 86_400_000);
  assert.equal(isAllowed("a"), false);
});

test("keeps a limited number of keys and drops the oldest", () => {
  const { clock, isAllowed } = setUp({ limit: 1, entriesMax: 3 });
  for (const key of ["a", "b", "c"]) {
    isAllowed(key);
    clock.advance(1);
  }

  isAllowed("d");

  assert.deepEqual(["b", "c", "d"].map(isAllowed), [false, false, false]);
  assert.equal(isAllowed("a"), true);
});

test("drops ended windows before open ones", () => {
  const { clock, isAllowed } = setUp({ limit: 1, entriesMax: 3 });
  isAllowed("a");
  isAllowed("b");
  clock.advance(59_999);
  isAllowed("c");
  clock.advance(1);

  isAllowed("d");
  isAllowed("e");

  assert.deepEqual(["c", "d", "e"].map(isAllowed), [false, false, false]);
});

test("a key with a new window is among the youngest", () => {
  const { clock, isAllowed } = setUp({ limit: 1, entriesMax: 2 });
  isAllowed("a");
  clock.advance(30_000);
  isAllowed("b");
  clock.advance(30_000);
  isAllowed("a");

  isAllowed("c");

  assert.deepEqual(["a", "c"].map(isAllowed), [false, false]);
});

test("keeps a refused key while other keys come", () => {
  const { isAllowed } = setUp({ limit: 1, entriesMax: 10_000 });
  isAllowed("a");

  for (let i = 0; i < 9_999; i++) isAllowed(String(i));

  assert.equal(isAllowed("a"), false);
});

test("a limit of 0 refuses no key and keeps none", () => {
  const { limiter, isAllowed } = setUp({ limit: 0 });

  for (let i = 0; i < 100; i++) assert.equal(isAllowed("a"), true);

  assert.deepEqual(rateLimitHeaders("requests", limiter.count("a")), {});
});

test("the limit is sent in structured fields", () => {
  const { clock, limiter } = setUp();
  limiter.count("a");
  clock.advance(20_001);

  const verdict = limiter.count("a");

  assert.deepEqual(rateLimitHeaders("requests", verdict), {
    "ratelimit-policy": '"requests";q=2;w=60',
    ratelimit: '"requests";r=0;t=40',
  });
});
