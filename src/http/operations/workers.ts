import type { LeaseOutcome as LeaseOutcomeShown } from "../../api/lease.ts";
import { JSON_DEPTH_MAX } from "../../domain/json/json.ts";
import type { LeaseCompletion, LeaseFailure, LeaseOutcome } from "../../domain/lease/lease.ts";
import { StatusError } from "../../domain/status.ts";
import { leasedTaskJson, tasksEnvelope } from "../../domain/task/envelope.ts";
import type { LeasedTask, WorkerHolder } from "../../store/store.ts";
import { ClientGoneError } from "../body.ts";
import { invalidField } from "../inputs.ts";
import { type Ending, type ReadItem, parseLong } from "../long-bodies.ts";
import { CLAIM_EXAMPLES, EXAMPLE_LEASE, EXAMPLE_TYPE } from "../openapi/examples.ts";
import type { OperationDeps, WorkerDesk } from "../operation-deps.ts";
import { type Call, type Operation, type WholeAnswer, defineOperation } from "../operation.ts";

type ClaimOrder = Parameters<WorkerDesk["claim"]>[0];

export function workerClaim(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/claim", {
    access: "worker",
    id: "claimTasks",
    summary: "Claim tasks",
    description:
      "Starts queued tasks for this worker, each with a lease that heartbeats have to extend. When nothing is " +
      "queued the response waits for `wait_seconds` at most; it is immediate and empty while the daemon stops. Wait on " +
      "a separate connection: requests of one connection are served one after the other. " +
      "`tasks_error` is always 0 in the answers to workers: outcomes stand beside the tasks.",
    answerExamples: CLAIM_EXAMPLES,
    codes: [40301, 50700],
    examples: {
      one: { types: [EXAMPLE_TYPE] },
      waiting: { types: [EXAMPLE_TYPE], max: 10, wait_seconds: 30 },
    },
    async handle(call) {
      const { worker, body } = call;
      checkTypes(body.types, { worker, workerTypes: deps.workerTypes });
      if (deps.desk.isDraining) return claimAnswer([]);
      // Not an empty response: a worker that claims again immediately would loop forever.
      if (!deps.isAccepting()) throw new StatusError(50300, { headers: { "retry-after": "5" } });
      await call.room.forAnswer();
      const order = { workerId: worker.workerId, types: body.types, max: body.max };
      const waitMs = Math.round(body.wait_seconds * 1000);
      const tasks = await claim(call, { deps, order: { ...order, gone: call.gone(), waitMs } });
      if (tasks.length > 0) await checkTaker(call, { deps, tasks });
      return claimAnswer(tasks);
    },
  });
}

/** Without a place to wait in, the worker gets the tasks that are there now, or 42900. */
async function claim(
  call: Call,
  { deps, order }: { readonly deps: OperationDeps; readonly order: ClaimOrder },
): Promise<readonly LeasedTask[]> {
  if (order.waitMs === 0) return deps.desk.claim(order);
  const refusal = call.room.waitRefusal();
  if (refusal === null) return call.room.whileWaiting(() => deps.desk.claim(order));
  const tasks = await deps.desk.claim({ ...order, waitMs: 0 });
  // Not an empty response: a worker that claims again immediately would loop forever.
  if (tasks.length === 0) throw refusal;
  return tasks;
}

function checkTypes(
  types: readonly string[],
  { worker, workerTypes }: { readonly worker: WorkerHolder } & Pick<OperationDeps, "workerTypes">,
): void {
  const foreign = types.findIndex((type) => !worker.types.includes(type));
  if (foreign !== -1) {
    const detail = `This token is not for this type. It is for: ${worker.types.join(", ")}.`;
    throw new StatusError(40301, { details: [{ pointer: `/types/${foreign}`, detail }] });
  }
  if (types.every((type) => workerTypes.has(type))) return;
  const known = worker.types.filter((type) => workerTypes.has(type));
  const [first] = types.filter((type) => !workerTypes.has(type));
  throw invalidField(
    "types",
    `${first} is not configured as a type of workers. Of this token's types these are: ${known.join(", ") || "none"}.`,
  );
}

/**
 * A claim may have waited long: tasks for a worker that has disconnected, or whose token was revoked meanwhile, go back
 * immediately.
 */
async function checkTaker(
  call: Call & { readonly worker: WorkerHolder },
  { deps, tasks }: { readonly deps: OperationDeps; readonly tasks: readonly LeasedTask[] },
): Promise<void> {
  try {
    await call.admitAgain();
    if (call.gone().aborted) throw new ClientGoneError("the client closed the connection");
  } catch (error) {
    const leases = tasks.map(({ id, leaseId }) => ({ id, leaseId }));
    await deps.desk.release(call.worker.workerId, leases);
    throw error;
  }
}

function claimAnswer(tasks: readonly LeasedTask[]): WholeAnswer {
  const items = tasks.map((task) => ({ code: 20000, text: leasedTaskJson(task) }) as const);
  return { status: 200, text: tasksEnvelope(items) };
}

export function workerHeartbeat({ desk, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/heartbeat", {
    access: "worker",
    id: "heartbeatLeases",
    summary: "Keep leases",
    description:
      "Extends each lease to its full time from now on, at most until the type's timeout. Send one every third " +
      "of a lease. `lost` and `cancelled` mean: stop this task, its result no longer counts. Progress is given at the " +
      "top level for all leases, or next to a lease for that lease; an invalid progress is ignored, and " +
      "`detail` says so.",
    codes: [50700],
    examples: {
      one: { leases: [EXAMPLE_LEASE], progress: { progress: 0.25, note: "30 of 120 frames" } },
      each: { leases: [{ ...EXAMPLE_LEASE, progress: { progress: 0.5 } }] },
      none: { leases: [] },
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
    id: "releaseLeases",
    summary: "Give tasks back",
    description:
      "Back to the queue immediately, for any worker, and without spending a run: for a worker that stops before it " +
      "has begun a task.",
    codes: [50700],
    examples: { one: { tasks: [EXAMPLE_LEASE] } },
    async handle({ worker: { workerId }, bodyBytes: bytes }) {
      const read = await parseLong("releases", { bytes }, { parser, owner: `worker ${workerId}` });
      return answer(await askDesk(read, (leases) => desk.release(workerId, leases)));
    },
  });
}

export function workerComplete({ desk, limits, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/complete", {
    access: "worker",
    id: "completeTasks",
    summary: "Complete tasks",
    description:
      "Ends runs with their results, which are on disk when the answer comes. Again with the same lease answers " +
      `the same. A result over the limit of results, or deeper than ${JSON_DEPTH_MAX} levels, fails its run like ` +
      "a command's that wrote too much; `detail` says so. The body may have four times the limit of results.",
    codes: [50700],
    examples: { one: { tasks: [{ ...EXAMPLE_LEASE, result: { width: 200, height: 150 } }] } },
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
    id: "failTasks",
    summary: "Fail tasks",
    description:
      "Ends runs that failed. `retry` true queues the task again, false is final, and without it the " +
      "type's `retries` decide. A failure always counts: parts that cannot be kept are left out or cut, and " +
      "`detail` says so.",
    codes: [50700],
    examples: {
      one: { tasks: [{ ...EXAMPLE_LEASE, message: "a.mp4 is not a video." }] },
      final: {
        tasks: [{ ...EXAMPLE_LEASE, message: "No.", detail: { exit_code: 1 }, retry: false }],
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

/** The index of the first ending of a kind; the length without one. */
function endOf(endings: readonly Ending[], isKind: (ending: Ending) => boolean): number {
  const at = endings.findIndex(isKind);
  return at === -1 ? endings.length : at;
}
