import { workerDocument } from "../../admin/worker.ts";
import type { RunnerType } from "../../api/node.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { WAITING_COUNTED_MAX } from "../../domain/observer.ts";
import type { TypeWork, Worker } from "../../store/store.ts";
import type { ConfiguredType, OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

// Twice the time that a worker may wait for a task before it asks again.
const UNHEARD_MS_MAX = MINUTE_MS;

export function runnerList(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/runners", {
    access: "operator",
    doc: {
      id: "listRunners",
      group: "Operator",
      summary: "List runners and workers",
      description: "Every configured type with what waits for it, and every worker.",
    },
    async handle({ now }) {
      const { types, workers } = await lookAtTypes(deps, now);
      return { fields: { types, workers: workers.map(workerDocument) } };
    },
  });
}

/** The types with waiting tasks and without a connected worker, and the longest wait of the other types. */
export async function waitsByType(deps: OperationDeps, now: number) {
  const { types } = await lookAtTypes(deps, now);
  const waits = types
    .filter((type) => type.has_worker !== false)
    .flatMap(({ oldest_waiting_ms: oldestMs }) => oldestMs ?? []);
  return {
    typesWithoutWorker: types.filter((type) => type.has_worker === false).map(({ name }) => name),
    oldestWaitingMs: waits.length === 0 ? null : Math.max(...waits),
  };
}

/** The part of an operation's means with which types are looked at. */
export type TypeLook = Pick<OperationDeps, "runnerTypes" | "workerUsage" | "workersWaiting"> & {
  readonly store: Pick<OperationDeps["store"], "listTypeWork" | "listWorkers">;
};

/** Every configured type with what waits for it, and every worker. */
export async function lookAtTypes(deps: TypeLook, now: number) {
  const { store, workerUsage } = deps;
  const runnerTypes = deps.runnerTypes();
  const names = runnerTypes.map(({ name }) => name);
  const lastUses = workerUsage.lastUses();
  const [works, stored] = await Promise.all([
    store.listTypeWork({ types: names, waitingMax: WAITING_COUNTED_MAX }),
    store.listWorkers(),
  ]);
  const workers = stored.map((worker) => {
    const lastSeenAt = lastUses(worker.workerId, worker.lastSeenAt);
    return { ...worker, lastSeenAt };
  });
  const types = runnerTypes.map((type) => {
    const work = works.find((each) => each.type === type.name) ?? NO_WORK;
    return typeDocument({ type, work, workers, now }, deps);
  });
  return { types, workers };
}

const NO_WORK = { running: 0, waiting: 0, isMoreWaiting: false, oldestAt: null };

interface TypeFacts {
  readonly type: ConfiguredType;
  readonly work: Omit<TypeWork, "type">;
  readonly workers: readonly Worker[];
  readonly now: number;
}

function typeDocument({ type, work, workers, now }: TypeFacts, deps: TypeLook): RunnerType {
  const workersWaiting = type.kind === "worker" ? deps.workersWaiting(type.name) : null;
  // These include workers that wait at the desk: nobody waits for so long.
  const isHeard = (): boolean => workers.some((worker) => isHeardFor(type.name, { worker, now }));
  // Field by field: a type has secrets that no answer may have.
  const { name, kind, runs, concurrency, timeout_ms, lease_ms, retries } = type;
  const facts = { name, kind, runs, concurrency, timeout_ms, lease_ms, retries };
  return {
    ...facts,
    running: work.running,
    waiting: work.waiting,
    waiting_is_more: work.isMoreWaiting,
    oldest_waiting_ms: work.oldestAt === null ? null : Math.max(0, now - work.oldestAt),
    workers_waiting: workersWaiting,
    has_worker: type.kind === "worker" ? work.waiting === 0 || isHeard() : null,
  };
}

function isHeardFor(
  type: string,
  { worker, now }: { readonly worker: Worker; readonly now: number },
): boolean {
  const { lastSeenAt, revokedAt, types } = worker;
  if (lastSeenAt === null || revokedAt !== null || !types.includes(type)) return false;
  return now - lastSeenAt <= UNHEARD_MS_MAX;
}
