import { RESULT_RULE, RUN_END } from "../api/dev.ts";
import { isId } from "../domain/id.ts";
import { isJsonObject } from "../domain/json/json.ts";
import { StatusError } from "../domain/status.ts";
import { TASKS_READING, parseBody } from "../http/body.ts";
import { invalidField, parseFields } from "../http/inputs.ts";
import { toKeptJson } from "../http/long-bodies.ts";
import type { OperationDeps } from "../http/operation-deps.ts";
import { type Operation, defineOperation } from "../http/operation.ts";
import { TASK_ID_PARAM, taskNotFound } from "../http/operations/tasks.ts";
import type { OrderedFaults } from "./ordered-faults.ts";
import type { OrderedEnd, OrderedResults, ResultRule } from "./ordered-results.ts";

type Deps = Pick<OperationDeps, "limits" | "store" | "retentionMs" | "workerTypes">;

/** Results that are ordered instead of computed. */
export function devResults(results: OrderedResults, deps: Deps): readonly Operation[] {
  return [orderResults(deps, results), finishTask(deps, results)];
}

function orderResults(deps: Deps, results: OrderedResults): Operation {
  return defineOperation("PUT /dev/results", {
    access: "developer",
    id: "orderResults",
    summary: "Order results",
    description:
      "The first rule that matches a task ends its run, instead of its type's runner. The list replaces the previous " +
      "list; an empty list removes all rules. A rule has one of `result`, `error` and `hold`. A run with `hold` or " +
      "`after_ms` uses a slot of its type, can time out, and ends when its task is " +
      "cancelled. A failed run is retried by its type's settings. Types with the runner `worker` have no rules.",
    examples: {
      results: [
        { type: "echo", tag: "slow", result: { ok: true }, after_ms: 5000 },
        { tag: "bad", error: "a.mp4 is not a video." },
        { tag: "later", hold: true },
      ],
    },
    handle({ bodyBytes }) {
      const body = parseBody(bodyBytes, TASKS_READING);
      if (!Array.isArray(body)) {
        throw new StatusError(40503, { detail: "The body must be a list of rules." });
      }
      const given: readonly unknown[] = body;
      const rules = given.map((each, i) =>
        at(`/${i}`, () => parseRule(each, { ...deps, results })),
      );
      results.order(rules);
      return { fields: { rules_count: rules.length } };
    },
  });
}

function finishTask(deps: Deps, results: OrderedResults): Operation {
  return defineOperation("POST /dev/tasks/:id/finish", {
    access: "developer",
    id: "finishTask",
    summary: "Finish a held task",
    description:
      "Ends the run of a task that a rule holds, with `result` or `error`. The end is on disk before the response. A task " +
      "that is not held returns 40501.",
    params: { id: TASK_ID_PARAM },
    codes: [40401, 40403],
    examples: { result: { result: { ok: true } }, error: { error: "a.mp4 is not a video." } },
    async handle({ params, bodyBytes, gone, now }) {
      const id = params["id"] ?? "";
      const body = parseBody(bodyBytes, TASKS_READING);
      const { error } = parseFields(withoutResult(body), RUN_END);
      const end = endOf(body, { ...deps, error });
      if (end === null) throw invalidField("result", ONE_END);
      if (await results.finish(id, { end, gone: gone() })) return { fields: { id } };
      const found = isId(id) ? await deps.store.findTimeline({ scope: null, id }) : null;
      if (found === null) throw taskNotFound(id, { ...deps, now });
      const { state } = found.task;
      throw invalidField("id", `Task ${id} is ${state}, and no rule of PUT /dev/results holds it.`);
    },
  });
}

const ONE_END = "Give one of result and error.";

function parseRule(
  body: unknown,
  { results, workerTypes, ...deps }: Deps & { readonly results: OrderedResults },
): ResultRule {
  const { error, ...rule } = parseFields(withoutResult(body), RESULT_RULE);
  const { type, tag, after_ms: afterMs, hold } = rule;
  const end = endOf(body, { ...deps, error });
  if (type !== null && workerTypes.has(type)) {
    const remedy = "claim its tasks with the worker protocol, and complete or fail them";
    throw invalidField("type", `Workers run ${type}, which have no rules: ${remedy}.`);
  }
  if (type !== null && !results.types.has(type)) {
    const known = [...results.types].join(", ");
    throw invalidField("type", `It must be a type that this daemon runs itself: ${known}.`);
  }
  if ((end !== null) === hold) {
    throw invalidField("hold", "A rule has exactly one of result, error and hold.");
  }
  if (hold && afterMs > 0)
    throw invalidField("after_ms", "A request ends a held run: omit after_ms.");
  return { type, tag, end, afterMs };
}

/** The end of a run in an object; null where it has none. */
function endOf(
  body: unknown,
  { error, limits }: Pick<Deps, "limits"> & { readonly error: string | null },
): OrderedEnd | null {
  // A result that is null is one.
  const hasResult = isJsonObject(body) && Object.hasOwn(body, "result");
  if (hasResult && error !== null) throw invalidField("result", ONE_END);
  if (error !== null) return { kind: "error", message: error };
  if (!hasResult) return null;
  const kept = toKeptJson(body["result"], limits.resultBytes);
  if (kept.kind === "fault") throw invalidField("result", `It ${kept.reason}.`);
  return { kind: "result", text: kept.text };
}

function withoutResult(body: unknown): unknown {
  if (!isJsonObject(body)) return body;
  const { result: _result, ...others } = body;
  return others;
}

/** Names the place in the body in what a part of it is refused for. */
function at<Value>(pointer: string, parse: () => Value): Value {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    const { code, message } = error;
    const details = error.details.map((each) => ({ ...each, pointer: pointer + each.pointer }));
    throw new StatusError(code, { message, details });
  }
}

/** Faults of deliveries: for proving that a receiver copes. */
export function devFaults(faults: OrderedFaults): readonly Operation[] {
  return [
    defineOperation("GET /dev/faults", {
      access: "developer",
      id: "showFaults",
      summary: "Show the faults of deliveries",
      description: "The ordered faults.",
      handle: () => ({ fields: faults.faults }),
    }),
    defineOperation("PUT /dev/faults", {
      access: "developer",
      id: "orderFaults",
      summary: "Order faults of deliveries",
      description:
        "Deliveries have the faults of real networks, to test a receiver. An omitted fault is 0. " +
        "`--seed` decides which attempts are affected, so that each run is the same.",
      examples: {
        all: { duplicate: 0.2, reorder: 0.2, drop_answer: 0.1, crash_during_attempt: 0.05 },
        none: {},
      },
      handle({ body }) {
        faults.order(body);
        return { fields: faults.faults };
      },
    }),
  ];
}
