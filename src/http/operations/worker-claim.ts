import { StatusError } from "../../domain/status.ts";
import { leasedTaskJson, tasksEnvelope } from "../../domain/task/envelope.ts";
import type { LeasedTask, WorkerHolder } from "../../store/store.ts";
import { ClientGoneError } from "../body.ts";
import { invalidField } from "../fields.ts";
import { CLAIM_EXAMPLES, EXAMPLE_TYPE } from "../openapi/worker-example.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Call, type Operation, type WholeAnswer } from "../operation.ts";
import type { WorkerDesk } from "../worker-desk.ts";

type ClaimOrder = Parameters<WorkerDesk["claim"]>[0];

export function workerClaim(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/claim", {
    access: "worker",
    doc: {
      id: "claimTasks",
      group: "Workers",
      summary: "Claim tasks",
      description:
        "Starts queued tasks for this worker, each with a lease that heartbeats have to extend. When nothing is " +
        "queued the answer waits for `wait_seconds` at most; it comes at once and empty while the daemon stops. Wait on " +
        "a separate connection: requests of one connection are served one after the other. " +
        "`tasks_error` is always 0 in the answers to workers: outcomes stand beside the tasks.",
      answerExamples: CLAIM_EXAMPLES,
      codes: [40301, 50700],
      examples: {
        one: { types: [EXAMPLE_TYPE] },
        waiting: { types: [EXAMPLE_TYPE], max: 10, wait_seconds: 30 },
      },
    },
    async handle(call) {
      const { worker, body } = call;
      checkTypes(body.types, { worker, workerTypes: deps.workerTypes });
      if (deps.desk.isDraining) return claimAnswer([]);
      // Not an empty answer: a worker that asks again at once would do so without end.
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
  // Not an empty answer: a worker that asks again at once would do so without end.
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
 * A claim may have waited long: tasks that came for a worker that is gone, or whose token was revoked meanwhile, go
 * back at once.
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
