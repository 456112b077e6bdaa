import { entryDocument, readAudit } from "../../admin/context.ts";
import {
  listPauses,
  pauseDeliveries,
  pauseDocument,
  resumeDeliveries,
} from "../../admin/delivery.ts";
import { nodeDocument, workerDocument } from "../../admin/worker.ts";
import { COUNTED_PAUSES_MAX } from "../../api/delivery.ts";
import type { DatabaseOverview, NodeOverview, RunnerType } from "../../api/node.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { WAITING_COUNTED_MAX } from "../../domain/observer.ts";
import {
  type DatabaseHealth,
  type HeldSnapshot,
  databaseWarnings,
} from "../../domain/stats/health.ts";
import { StatusError } from "../../domain/status.ts";
import { PAUSES_MAX, scopeKey, scopeText } from "../../domain/webhook/delivery-pause.ts";
import type {
  DeliveryPause,
  ListedAuditEntry,
  NodeSummary,
  PauseScope,
  TypeWork,
  Worker,
} from "../../store/store.ts";
import { invalidField } from "../inputs.ts";
import { openCursor } from "../list-cursor.ts";
import type { ApiStore, ConfiguredType, OperationDeps } from "../operation-deps.ts";
import { type Operation, defineOperation } from "../operation.ts";

export function nodeList({ store, nodeId }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/nodes", {
    access: "operator",
    id: "listNodes",
    summary: "List nodes",
    description:
      "The daemons that share the database, and the daemons that ended within the last day, newest first. Each reports its " +
      "facts every few seconds. With SQLite the list has one node. Also the health of " +
      "PostgreSQL, as far as the daemons have the permission.",
    async handle() {
      const [nodes, health] = await Promise.all([store.listNodes(), store.findDatabaseHealth()]);
      return {
        fields: {
          nodes: nodes.map((node) => toShown(node, nodeId())),
          database: health && toShownDatabase(health),
        },
      };
    },
  });
}

function toShown(node: NodeSummary, self: string): NodeOverview {
  const { id, name, version, url, ...rest } = nodeDocument(node);
  return { id, name, version, url, answers: id === self, ...rest };
}

function toShownDatabase(health: DatabaseHealth): DatabaseOverview {
  const { version, bytes, connections, oldestSnapshot, standbys, deadRows } = health;
  return {
    version,
    bytes,
    connections,
    oldest_snapshot: oldestSnapshot && toShownSnapshot(oldestSnapshot),
    standbys: standbys.map(({ syncState, lagBytes, lagMs, ...standby }) => ({
      ...standby,
      sync_state: syncState,
      lag_bytes: lagBytes,
      lag_ms: lagMs,
    })),
    commits_wait: health.commitsWait,
    dead_rows: deadRows,
    warnings: databaseWarnings(health).map(({ text }) => text),
  };
}

function toShownSnapshot({
  ageMs,
  ...snapshot
}: HeldSnapshot): DatabaseOverview["oldest_snapshot"] {
  return { ...snapshot, age_ms: ageMs };
}

// As others pause by commands: which session it was is in the audit.
const PAUSED_BY = "operator";

const EXAMPLE = { host: "hooks.example.com" };

export function pauseList({ store }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/delivery_pauses", {
    access: "operator",
    id: "listDeliveryPauses",
    summary: "List paused webhooks",
    description:
      "The pauses with their reasons and the number of waiting webhooks, oldest first. A webhook is sent when no pause " +
      "covers it. If two pauses cover a webhook, both count it.",
    async handle() {
      return { fields: { pauses: await listPauses({ store }, COUNTED_PAUSES_MAX) } };
    },
  });
}

export function pauseCreate({ store, pausesChanged }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/delivery_pauses", {
    access: "operator",
    id: "pauseDeliveries",
    summary: "Pause webhooks",
    description:
      "Pauses the webhooks of an account, to a host, or both; without both, all webhooks. After two seconds no daemon starts " +
      "an attempt; attempts in flight end. A pause uses up no retries: due retries run after the " +
      "resume. A repetition changes nothing.",
    codes: [50700],
    examples: { host: { ...EXAMPLE, reason: "maintenance" }, all: {} },
    async handle({ body: { login, host, reason }, audit, now }) {
      const scope = await scopeOf({ login, host }, store);
      const by = { reason, pausedBy: PAUSED_BY };
      const { outcome, waiting } = await pauseDeliveries({ scope, login }, by, {
        store,
        now,
        audit,
      });
      if (outcome === "too many") throw tooMany();
      if (outcome === "paused") pausesChanged();
      const kept = (await findPause(scope, store)) ?? { ...scope, ...by, login, since: now };
      return { fields: { pause: { ...pauseDocument(kept), waiting } } };
    },
  });
}

export function pauseEnd({ store, pausesChanged }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/delivery_pauses/resume", {
    access: "operator",
    id: "resumeDeliveries",
    summary: "Resume paused webhooks",
    description:
      "Ends the pause with the same account and host; 40400 if it does not exist. Its webhooks are sent, " +
      "unless another pause covers them.",
    codes: [40400, 50700],
    examples: { host: EXAMPLE, all: {} },
    async handle({ body: { login, host }, audit, now }) {
      const scope = await scopeOf({ login, host }, store);
      const resumed = await resumeDeliveries({ scope, login }, { store, now, audit });
      if (resumed === null) {
        const detail = `No pause matches ${scopeText({ login, host })} exactly: GET /v1/operator/delivery_pauses lists all pauses.`;
        throw new StatusError(40400, { detail });
      }
      pausesChanged();
      const { left, waiting } = resumed;
      return { fields: { login, host, waiting, pauses_left: left.length } };
    },
  });
}

interface NamedScope {
  readonly login: string | null;
  readonly host: string | null;
}

async function scopeOf({ login, host }: NamedScope, store: ApiStore): Promise<PauseScope> {
  if (login === null) return { accountId: null, host };
  const account = await store.findAccount(login);
  if (account === null) throw invalidField("login", "No account has this login.");
  return { accountId: account.accountId, host };
}

/** The pause of exactly this scope; null if it was resumed meanwhile. */
async function findPause(scope: PauseScope, store: ApiStore): Promise<DeliveryPause | null> {
  const pauses = await store.listDeliveryPauses();
  return pauses.find((each) => scopeKey(each) === scopeKey(scope)) ?? null;
}

function tooMany(): StatusError {
  const detail = `${PAUSES_MAX} pauses exist, which is the limit: resume some, or pause a wider scope.`;
  return new StatusError(40000, { detail });
}

// Some dozens of milliseconds of the reader, in parts that others come between.
const EXAMINED_MAX = 10_000;

const VIEW = { list: "audit", scope: null } as const;

export function auditList({ store, cursors }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/audit", {
    access: "operator",
    id: "listAudit",
    summary: "List who did what",
    description:
      "The audit log, newest first: keys, secrets that were shown or replaced, sign-ins, accounts, access, " +
      "workers, redeliveries, erasures, pauses. An entry never changes and contains no secret. Entries are kept for 400 days, " +
      "up to one million entries.",
    async handle({ query: { action, account: login, since, cursor, limit } }) {
      const before = openCursor(cursor, { cursors, ...VIEW })?.seq ?? null;
      const order = { login, action, since, before, limit, examinedMax: EXAMINED_MAX };
      const { entries, next } = await readAudit(order, store);
      const cursorOf = ({ at, seq }: ListedAuditEntry): string =>
        cursors.seal({ timeMs: at, seq }, VIEW);
      const next_cursor = next && cursorOf(next);
      return { fields: { entries: entries.map(entryDocument), next_cursor } };
    },
  });
}

export function systemShow({ systemFacts, serviceStatus }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/system", {
    access: "operator",
    id: "getSystem",
    summary: "Get the system",
    description:
      "The process, its database, its configuration with the source of each value, and the last lines of its log.",
    async handle() {
      const [facts, status] = await Promise.all([systemFacts(), serviceStatus()]);
      return { fields: { ...facts, status } };
    },
  });
}

// Twice the time that a worker may wait for a task before it asks again.
const UNHEARD_MS_MAX = MINUTE_MS;

export function runnerList(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/runners", {
    access: "operator",
    id: "listRunners",
    summary: "List runners and workers",
    description: "Every configured type with its queue, and every worker.",
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

/** Every configured type with its queue, and every worker. */
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
  // These include workers with a waiting claim: no claim waits for so long.
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
