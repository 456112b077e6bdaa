import { JSON_DEPTH_MAX } from "../../domain/json/json.ts";
import type { LeaseOutcome } from "../../domain/lease/lease.ts";
import type { Ending } from "../lease-bodies.ts";
import { answerItems } from "../lease-items.ts";
import { parseLong, workerOwner } from "../long-parses.ts";
import { EXAMPLE_LEASE } from "../openapi/worker-example.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

export function workerComplete({ desk, limits, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/complete", {
    access: "worker",
    doc: {
      id: "completeTasks",
      group: "Workers",
      summary: "Complete tasks",
      description:
        "Ends runs with their results, which are on disk when the answer comes. Again with the same lease answers " +
        `the same. A result over the limit of results, or deeper than ${JSON_DEPTH_MAX} levels, fails its run like ` +
        "a command's that wrote too much; `detail` says so. The body may have four times the limit of results.",
      codes: [50700],
      examples: { one: { tasks: [{ ...EXAMPLE_LEASE, result: { width: 200, height: 150 } }] } },
    },
    async handle({ worker: { workerId }, bodyBytes: bytes }) {
      const body = { bytes, resultBytesMax: limits.resultBytes };
      const read = await parseLong("completions", body, { parser, owner: workerOwner(workerId) });
      return answerItems(read, { ask: (endings) => endRuns(endings, { desk, workerId }) });
    },
  });
}

export function workerFail({ desk, limits, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/fail", {
    access: "worker",
    doc: {
      id: "failTasks",
      group: "Workers",
      summary: "Fail tasks",
      description:
        "Ends runs that failed. `retry` true queues the task again, false is final, and without it the " +
        "type's `retries` decide. A failure always counts: parts that cannot be kept are left out or cut, and " +
        "`detail` says so.",
      codes: [50700],
      examples: {
        one: { tasks: [{ ...EXAMPLE_LEASE, message: "a.mp4 is no video." }] },
        final: {
          tasks: [{ ...EXAMPLE_LEASE, message: "No.", detail: { exit_code: 1 }, retry: false }],
        },
      },
    },
    async handle({ worker: { workerId }, bodyBytes: bytes }) {
      const body = { bytes, resultBytesMax: limits.resultBytes };
      const read = await parseLong("failures", body, { parser, owner: workerOwner(workerId) });
      return answerItems(read, { ask: (failures) => desk.fail(workerId, failures) });
    },
  });
}

/** In the order of the request, though completions and failures go to the desk apart: a task may occur twice. */
async function endRuns(
  endings: readonly Ending[],
  { desk, workerId }: Pick<OperationDeps, "desk"> & { readonly workerId: number },
): Promise<readonly LeaseOutcome[]> {
  const outcomes: LeaseOutcome[] = [];
  for (let at = 0; at < endings.length; at = outcomes.length) {
    const rest = endings.slice(at);
    const completions = leading(rest, (each) => each.kind === "completion" && each.completion);
    const failures = leading(rest, (each) => each.kind === "failure" && each.failure);
    if (completions.length > 0) outcomes.push(...(await desk.complete(workerId, completions)));
    else outcomes.push(...(await desk.fail(workerId, failures)));
    if (outcomes.length === at) throw new Error("the desk gave no outcome");
  }
  return outcomes;
}

/** The values made of the first items, up to the first item of which none is made. */
function leading<From, To extends object>(
  all: readonly From[],
  make: (each: From) => To | false,
): readonly To[] {
  const made: To[] = [];
  for (const each of all) {
    const next = make(each);
    if (next === false) break;
    made.push(next);
  }
  return made;
}
