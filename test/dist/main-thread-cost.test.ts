import assert from "node:assert/strict";
import { test } from "node:test";

import { z } from "zod";

import { measure, UNEXPLAINED_MS_MAX } from "../../scripts/bench/main-thread/case.ts";
import { prepareCases } from "../../scripts/bench/main-thread/cases.ts";
import { withWorld, type World } from "../../scripts/bench/main-thread/world.ts";
import { chooseProgram } from "../../scripts/kit/daemon.ts";
import { median } from "../../scripts/kit/measure.ts";
import { ScratchFolder } from "../../scripts/kit/scratch.ts";

// A thread's time excludes other processes, but a busy machine has cold caches.
const SLOW_MACHINE = 5;
// Of so little the collection of garbage alone is as much.
const LEAST_MS = 15;

// It takes long next to other tests.
const PATIENT = { timeout: 300_000 };

test(
  "no operation takes more of the main thread's time than its bound, with the worst accepted input",
  PATIENT,
  async (t) => {
    const scratch = new ScratchFolder();
    t.after(() => scratch[Symbol.dispose]());
    const place = { program: chooseProgram("binary"), folder: scratch.path };
    await withWorld(place, async (world) => {
      const cases = await prepareCases(world);
      const { anybody: caller, daemon } = world;
      for (const each of cases) {
        const { operation: name, worst, ms, why } = each;
        assert(
          ms <= UNEXPLAINED_MS_MAX || why !== null,
          `${name} does not say why it costs ${ms} ms`,
        );
        if (each.pace === "very slow") continue;
        const often =
          each.pace === "slow" ? { uncounted: 0, counted: 1 } : { uncounted: 1, counted: 3 };
        const costsMs = await measure(each, { caller, pid: daemon.pid, ...often });
        const most = Math.max(LEAST_MS, SLOW_MACHINE * ms);
        const cost = median(costsMs);
        assert(cost <= most, `${name} (${worst}) cost ${cost} ms, of ${ms}`);
      }
      const named = await operationsOf(world);
      const bounded = new Set(cases.map((each) => each.operation));
      assert.deepEqual(
        named.filter((id) => !bounded.has(id)),
        [],
        "without bound",
      );
      assert(named.length > 40, "the document names its operations otherwise");
    });
  },
);

const apiDocument = z.object({
  paths: z.record(z.string(), z.record(z.string(), z.unknown())),
});
const operation = z.object({ operationId: z.string() });

/** The names of all operations, by the daemon's own document. */
async function operationsOf({ anybody }: World): Promise<readonly string[]> {
  const text = await anybody.done(anybody.get("/openapi.json"));
  const { paths } = apiDocument.parse(JSON.parse(text));
  return Object.values(paths).flatMap((methods) =>
    Object.values(methods).map((method) => operation.parse(method).operationId),
  );
}
