import assert from "node:assert/strict";
import { test } from "node:test";

import { scenarioReport } from "../../scripts/deliveries/report.ts";
import { SCENARIOS, runScenario, type Effort } from "../../scripts/deliveries/scenario.ts";
import { sourceProgram } from "../../scripts/kit/program.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";

const EFFORT: Effort = {
  ...{ seconds: 1, rounds: 1, rate: 40, retries: 60 },
  ...{ "warm-up": 0.5, idle: 0.1, hang: [2] },
};

// What they measure is not asserted: only that they measure, and that what they count on happens.
for (const [name, legs] of [
  ["hanging", 2],
  ["backlog", 2],
] as const) {
  test(`the scenario '${name}' delivers its load beside what disturbs it`, async (t) => {
    const scratch = new ScratchFolder();
    t.after(() => scratch[Symbol.dispose]());
    const scenario = SCENARIOS[name]?.(EFFORT);
    assert(scenario);
    const measured: string[] = [];

    const results = await runScenario(scenario, {
      place: { program: sourceProgram(), folder: scratch.path },
      onResult: (leg) => measured.push(leg.name),
    });

    assert.equal(measured.length, legs);
    for (const { results: runs } of results) {
      const [run] = runs;
      assert(run);
      assert(run.arrivals.fromCompletion.count >= 30, "the fresh ones did not arrive");
      assert(run.cpuPercent.during > 0);
      assert(run.rssBytes > 10e6);
    }
    if (name === "backlog") {
      assert.equal(results[1]?.results[0]?.lateness.count, EFFORT.retries);
      assert.equal(results[1]?.results[0]?.arrivals.retries.count, EFFORT.retries);
    }
    assert.match(scenarioReport(scenario, results), /p99/);
  });
}
