import { type Clock, aliveDuring, systemClock } from "../domain/clock/clock.ts";
import { createFunctionRunner } from "../run/function.ts";
import type { Runner } from "../run/runner.ts";
import type { Pool } from "./held-run.ts";
import type { TaskWorker } from "./options.ts";
import { readSettings, type TaskWorkerPlan } from "./settings.ts";
import { openWorker } from "./worker.ts";

const GRACE_MS = 25_000;

/** Makes a worker for a program: `createWorker` documents what it takes and promises. */
export function newTaskWorker(
  settings: unknown,
  { clock = systemClock }: { readonly clock?: Clock } = {},
): TaskWorker {
  const plan = readSettings(settings);
  const worker = openWorker({ ...plan, pools: toPools(plan, clock), clock });
  let isStopped = false;
  let ended: Promise<void> | null = null;
  const work = async (): Promise<void> => {
    const end = await aliveDuring(() => worker.work());
    if (end.kind === "refused") throw new Error(end.reason);
  };
  const stop = async ({ graceMs = GRACE_MS }: { readonly graceMs?: number | undefined } = {}) => {
    isStopped = true;
    worker.stop({ graceMs });
    // How it ended is for the one who runs it.
    await ended?.catch(() => {});
  };
  return {
    run() {
      if (ended !== null) return Promise.reject(new Error("the worker runs already, or has ended"));
      ended = isStopped ? Promise.resolve() : work();
      return ended;
    },
    stop,
    [Symbol.asyncDispose]: () => stop(),
  };
}

/** One for all types, or one for each type that has places of its own. */
function toPools(plan: TaskWorkerPlan, clock: Clock): readonly Pool[] {
  const { handlers, concurrency } = plan;
  const runners = [...handlers].map(([type, run]) => {
    const places = typeof concurrency === "number" ? concurrency : (concurrency.get(type) ?? 1);
    // The daemon enforces the type's timeout and the limit of results.
    const limits = { concurrency: places, timeoutMs: Infinity, resultBytesMax: Infinity };
    const threw: TaskWorkerPlan["onError"] = (thrown, { id, tag, marketplace }) => {
      try {
        plan.onError(thrown, { id, type, tag, marketplace });
      } catch (err) {
        plan.log.error({ err, task: id }, "onError threw");
      }
    };
    return [type, createFunctionRunner({ run, clock, threw, ...limits })] as const;
  });
  if (typeof concurrency !== "number") {
    return runners.map(([type, runner]) => ({ types: [type], runner }));
  }
  const byType = new Map(runners);
  const runner: Runner = {
    concurrency,
    // A task of a type that was not claimed is given back.
    run: async (request, options) =>
      (await byType.get(request.type)?.run(request, options)) ?? { kind: "aborted" },
  };
  return [{ types: [...handlers.keys()], runner }];
}
