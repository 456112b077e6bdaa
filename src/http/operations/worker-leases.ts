import type { LeaseOutcome as LeaseOutcomeShown } from "../../api/lease.ts";
import { JSON_DEPTH_MAX } from "../../domain/json/json.ts";
import type { LeaseCompletion, LeaseFailure, LeaseOutcome } from "../../domain/lease/lease.ts";
import { tasksEnvelope } from "../../domain/task/envelope.ts";
import type { Ending, ReadItem } from "../lease-bodies.ts";
import { parseLong } from "../long-parses.ts";
import { EXAMPLE_LEASE } from "../openapi/worker-example.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation, type WholeAnswer } from "../operation.ts";

export function workerHeartbeat({ desk, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/heartbeat", {
    access: "worker",
    doc: {
      id: "heartbeatLeases",
      group: "Workers",
      summary: "Keep leases",
      description:
        "Extends each lease to its full time from now on, at most until the type's timeout. Send one every third " +
        "of a lease. `lost` and `cancelled` mean: stop this task, its result no longer counts. Progress is given at the " +
        "top for all of the leases, or beside one for it alone; what is no progress there is passed over, and " +
        "`detail` says so.",
      codes: [50700],
      examples: {
        one: { leases: [EXAMPLE_LEASE], progress: { progress: 0.25, note: "30 of 120 frames" } },
        each: { leases: [{ ...EXAMPLE_LEASE, progress: { progress: 0.5 } }] },
        none: { leases: [] },
      },
    },
    async handle({ worker: { workerId }, bodyBytes: bytes }) {
      const read = await parseLong("beats", { bytes }, { parser, owner: `worker ${workerId}` });
      const answered = await askDesk(read, (beats) => desk.heartbeat(workerId, beats));
      return answer(answered, `"drain":${desk.isDraining}`);
    },
  });
}

export function workerRelease({ desk, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/release", {
    access: "worker",
    doc: {
      id: "releaseLeases",
      group: "Workers",
      summary: "Give tasks back",
      description:
        "Back to the queue at once, for any worker, and without spending a run: for a worker that stops before it " +
        "has begun a task.",
      codes: [50700],
      examples: { one: { tasks: [EXAMPLE_LEASE] } },
    },
    async handle({ worker: { workerId }, bodyBytes: bytes }) {
      const read = await parseLong("releases", { bytes }, { parser, owner: `worker ${workerId}` });
      return answer(await askDesk(read, (leases) => desk.release(workerId, leases)));
    },
  });
}

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
      const read = await parseLong("completions", body, { parser, owner: `worker ${workerId}` });
      return answer(await askDesk(read, (endings) => endRuns(endings, { desk, workerId })));
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
      const read = await parseLong("failures", body, { parser, owner: `worker ${workerId}` });
      return answer(await askDesk(read, (failures) => desk.fail(workerId, failures)));
    },
  });
}

/** Passes the items of a list that can be leases to the desk, and shows each item in its place. */
async function askDesk<Asked>(
  read: readonly ReadItem<Asked>[],
  ask: (asked: readonly Asked[]) => Promise<readonly LeaseOutcome[]>,
): Promise<readonly LeaseOutcomeShown[]> {
  const asked = read.flatMap((item) => (item.kind === "lease" ? [item.asked] : []));
  const outcomes = asked.length === 0 ? [] : await ask(asked);
  if (outcomes.length !== asked.length) throw new Error("not every lease has an outcome");
  const left = outcomes.values();
  return read.map(({ kind, id, detail }) => {
    const outcome = kind === "lease" ? (left.next().value ?? "lost") : "lost";
    return { id, outcome, ...(detail === undefined ? {} : { detail }) };
  });
}

function answer(shown: readonly LeaseOutcomeShown[], fieldsText?: string): WholeAnswer {
  const items = shown.map((item) => ({ code: 20000, text: JSON.stringify(item) }) as const);
  return { status: 200, text: tasksEnvelope(items, fieldsText) };
}

/** In the order of the request, though completions and failures go to the desk apart: a task may occur twice. */
async function endRuns(
  endings: readonly Ending[],
  { desk, workerId }: Pick<OperationDeps, "desk"> & { readonly workerId: number },
): Promise<readonly LeaseOutcome[]> {
  const outcomes: LeaseOutcome[] = [];
  for (let at = 0; at < endings.length; at = outcomes.length) {
    const rest = endings.slice(at);
    const completions = rest.slice(0, endOf(rest, isFailure)).filter(isCompletion);
    const failures = rest.slice(0, endOf(rest, isCompletion)).filter(isFailure);
    if (completions.length > 0) outcomes.push(...(await desk.complete(workerId, completions)));
    else outcomes.push(...(await desk.fail(workerId, failures)));
    if (outcomes.length === at) throw new Error("the desk gave no outcome");
  }
  return outcomes;
}

function isCompletion(ending: Ending): ending is LeaseCompletion {
  return "resultText" in ending;
}

function isFailure(ending: Ending): ending is LeaseFailure {
  return !isCompletion(ending);
}

/** The place of the first ending of a kind; the end where there is none. */
function endOf(endings: readonly Ending[], isKind: (ending: Ending) => boolean): number {
  const at = endings.findIndex(isKind);
  return at === -1 ? endings.length : at;
}
