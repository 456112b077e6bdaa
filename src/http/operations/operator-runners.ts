import type {
  RunnerKind,
  RunnerType as RunnerTypeShown,
  WorkerOverview,
} from "../../api/runner.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import type { Store, TypeWork, Worker } from "../../store/store.ts";
import { defineOperation, type Operation } from "../operation.ts";
import type { UsageNotes } from "../usage-notes.ts";

/** A configured type, as the operator is shown it. */
export interface RunnerType {
  readonly name: string;
  readonly kind: RunnerKind;
  /** What runs it, without anything that may be a secret; null when there is nothing to name. */
  readonly runs: string | null;
  readonly concurrency: number;
  readonly timeoutMs: number;
  /** For a worker type. */
  readonly leaseMs: number | null;
  readonly retries: number;
}

export interface OperatorRunnersDeps {
  readonly store: Pick<Store, "listTypeWork" | "listWorkers">;
  readonly runnerTypes: readonly RunnerType[];
  /** How many requests of workers wait for tasks of a type now. */
  readonly workersWaiting: (type: string) => number;
  readonly workerUsage: UsageNotes<number>;
}

/** Of each type. An index entry each: some milliseconds, in a thread of its own. */
export const WAITING_COUNTED_MAX = 10_000;

// Twice the time that a worker may wait for a task before it asks again.
const UNHEARD_MS_MAX = 60_000;

/** GET /v1/operator/runners: what runs each type, what waits for it, and the workers. */
export function runnerList(deps: OperatorRunnersDeps): Operation {
  return defineOperation({
    method: "GET",
    path: "/v1/operator/runners",
    access: "operator",
    doc: {
      id: "listRunners",
      group: "Operator",
      summary: "List runners and workers",
      description: "Every configured type with what waits for it, and every worker.",
      codes: [],
    },
    async handle({ now }) {
      const { types, workers } = await lookAtTypes(deps, now);
      return { fields: { types, workers: workers.map(toShown) } };
    },
  });
}

/** The types whose tasks wait although no worker for them was heard lately. */
export async function typesWithoutWorker(
  deps: OperatorRunnersDeps,
  now: number,
): Promise<readonly string[]> {
  const { types } = await lookAtTypes(deps, now);
  return types.filter((type) => type.has_worker === false).map(({ name }) => name);
}

async function lookAtTypes(deps: OperatorRunnersDeps, now: number) {
  const { store, runnerTypes, workerUsage } = deps;
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
    const work = works.find((each) => each.type === type.name) ?? nothing(type.name);
    return typeDocument({ type, work, workers, now }, deps);
  });
  return { types, workers };
}

function nothing(type: string): TypeWork {
  return { type, running: 0, waiting: 0, isMoreWaiting: false, oldestAt: null };
}

interface TypeFacts {
  readonly type: RunnerType;
  readonly work: TypeWork;
  readonly workers: readonly Worker[];
  readonly now: number;
}

function typeDocument(
  { type, work, workers, now }: TypeFacts,
  deps: OperatorRunnersDeps,
): RunnerTypeShown {
  const workersWaiting = type.kind === "worker" ? deps.workersWaiting(type.name) : null;
  // These include workers that wait at the desk: nobody waits for so long.
  const isHeard = (): boolean => workers.some((worker) => isHeardFor(type.name, { worker, now }));
  return {
    name: type.name,
    kind: type.kind,
    runs: type.runs,
    concurrency: type.concurrency,
    timeout_ms: type.timeoutMs,
    lease_ms: type.leaseMs,
    retries: type.retries,
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

function toShown(worker: Worker): WorkerOverview {
  return {
    name: worker.name,
    types: worker.types,
    last_four: worker.lastFour,
    created_at: timeText(worker.createdAt),
    last_seen_at: timeOrNull(worker.lastSeenAt),
    revoked_at: timeOrNull(worker.revokedAt),
    leases: worker.leases,
  };
}
