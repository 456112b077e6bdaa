import assert from "node:assert/strict";
import { test } from "node:test";

import type { DeliveryRun } from "../../scripts/deliveries/delivery-run.ts";
import { budgetLines, scenarioReport } from "../../scripts/deliveries/report.ts";
import { SCENARIOS, type Effort, type Scenario } from "../../scripts/deliveries/scenario.ts";

const EFFORT: Effort = {
  ...{ seconds: 1, rounds: 1, rate: 1, retries: 1 },
  ...{ "warm-up": 1, idle: 1, hang: [2] },
};

function run(p99Ms: number, { late = 0, cpuAfter = Number.NaN } = {}): DeliveryRun {
  const spread = { count: 1, p50Ms: 1, p99Ms, p999Ms: p99Ms, maxMs: p99Ms };
  const lateness = { ...spread, count: late === 0 ? 0 : 1, p50Ms: late, p99Ms: late, maxMs: late };
  return {
    arrivals: {
      ...{ fromCompletion: spread, fromPost: spread, retries: lateness },
      ...{ repeated: 0, verified: 0, badSignatures: 0 },
    },
    ...{ posts: spread, arrivedPerSecond: 500, lateness, rssBytes: 1e6 },
    cpuPercent: { before: 0, during: 50, after: cpuAfter },
  };
}

function scenarioOf(name: string): Scenario {
  const scenario = SCENARIOS[name]?.(EFFORT);
  assert(scenario);
  return scenario;
}

function resultsOf(scenario: Scenario, runs: readonly (readonly DeliveryRun[])[]) {
  return scenario.legs.map((leg, i) => ({ leg, results: runs[i] ?? [] }));
}

test("a ratio is the median of the ratios within each round", () => {
  const scenario = scenarioOf("hanging");
  // 1.1, 1.5 and 1.2 times the first leg; the medians of the legs themselves are 10 and 22.
  const first = [run(10), run(20), run(10)];
  const hanging = [run(11), run(30), run(12)];

  const kept = budgetLines(scenario, resultsOf(scenario, [first, hanging]));
  const missed = budgetLines(scenario, resultsOf(scenario, [first, [run(13), run(30), run(12)]]));

  assert.match(kept, /: 1\.20, at most 1\.2: kept$/);
  assert.match(missed, /: 1\.30, at most 1\.2: MISSED$/);
});

test("the report has a table of retries where there were any, and a dash for what was not looked at", () => {
  const scenario = scenarioOf("backlog");
  const without = scenarioReport(scenario, resultsOf(scenario, [[run(10)], [run(11)]]));
  const runs = [[run(10)], [run(11, { late: 900, cpuAfter: 3 })]];
  const having = scenarioReport(scenario, resultsOf(scenario, runs));

  assert.doesNotMatch(without, /due → begun/);
  assert.match(without, /\| +– \|/);
  assert.match(having, /due → begun/);
  assert.match(having, /CPU when all wait again, % of a core: 3\.00, at most 2: MISSED/);
});

test("retries that are late by a tick keep the bound, later ones miss it", () => {
  const scenario = scenarioOf("lateness");
  const lines = (late: number): string =>
    budgetLines(scenario, resultsOf(scenario, [[run(1)], [run(1)], [run(1, { late })]]));

  assert.match(lines(1150), /due to begun, ms: 1150.00, at most 1200: kept/);
  assert.match(lines(1300), /MISSED/);
});
