import { stateAtPost } from "../../domain/task/task.ts";
import type { Audited, AuditEntry, Changes, LeaseEnd, Store, TaskPost } from "../store.ts";
import type { SubmitOptions } from "./group-commit.ts";

/** The changes of a batch that other nodes are notified of. The node's own callers have them in their results. */
export type News = Partial<Changes>;

/** A task by its id or its number. */
export type TaskRef = string | number;

type WeightOf<Args> = SubmitOptions | ((args: Args) => SubmitOptions);

/** The properties of a write besides its statements: its weight, its audit entry, its locks and its notifications. */
interface WriteRule<Args, Result> {
  /** Its weight in a batch and in the backlog. Default: one row, never refused. */
  readonly weight?: WeightOf<Args>;
  /** The same on PostgreSQL, if it differs. */
  readonly postgresWeight?: WeightOf<Args>;
  /** The write may carry an audit entry, which is recorded if this returns true. */
  readonly hasEffect?: (result: Result, args: Args) => boolean;
  /** The tasks to lock in PostgreSQL's queue: by one statement for all operations of the name, or by one for each. */
  readonly locks?: (args: Args) => readonly TaskRef[];
  readonly locksEach?: (args: Args) => readonly TaskRef[];
  /** The write skips rows that other transactions have locked. */
  readonly waitsForNone?: true;
  /** The notification to other nodes, besides the accounts. */
  readonly news?: (args: Args, result: Result) => News;
}

type WriteRules = {
  readonly [Name in keyof Store]?: Store[Name] extends (args: infer Args) => Promise<infer Result>
    ? WriteRule<Args, Result>
    : never;
};

/** The most weight of a batch. */
export const BATCH_WEIGHT_MAX = 256;

/** A client's write: it may be refused, because a client can repeat it. */
const CLIENT_WRITE: SubmitOptions = { weight: 1, mayShed: true };
// Delays every other write. It runs at a start, or after the machine's clock was set.
const WHOLE_TABLES: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// Counts the rows that the step reads and writes: half a batch.
const STEP_WRITE: SubmitOptions = { weight: BATCH_WEIGHT_MAX / 2, mayShed: false };
// Waits for rows that it does not name, so it runs in a batch of its own: a shared batch would hold other rows meanwhile.
const LOCKS_UNNAMED: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// A step of the operator or the engine. The engine's own limits bound the number of steps.
const ONE_ROW = rows(1);

// A claim requests one task for each free slot and mostly gets a few. With the full weight each claim had a commit of its
// own, and claims filled the backlog: with 1,000 types, 944 of 960 posts of 100 tasks were refused (measured).
const PLACES_PER_ROW = 8;

const idOf = ({ id }: { readonly id: string }): string => id;
const seqOf = ({ seq }: { readonly seq: number }): readonly number[] => [seq];
const always = (): boolean => true;

/**
 * All writes of the store. On PostgreSQL every batch locks tasks in the same order, which prevents deadlocks: first the
 * tasks that its operations name, by number; then their dependent rows; last the claimed tasks, without waiting. An
 * operation that waits for tasks which it does not name has the weight of a batch, so it gets a batch of its own.
 */
export const WRITES = {
  createAccount: { hasEffect: (outcome) => outcome === "created" },
  changeLimits: { hasEffect: (limits) => limits !== null },
  setAccountDisabled: {
    hasEffect: (account, { disabledAt }) => account?.disabledAt === disabledAt,
  },
  eraseAccountPart: { postgresWeight: LOCKS_UNNAMED, hasEffect: ({ kind }) => kind === "done" },
  createKey: { hasEffect: (outcome) => outcome === "created" },
  revokeKey: { hasEffect: (key, { revokedAt }) => key?.revokedAt === revokedAt },
  touchKeys: { weight: (uses) => rows(uses.length) },
  rotateSecret: { hasEffect: (outcome) => outcome === "rotating" },
  finishRotation: { hasEffect: (outcome) => outcome === "finished" },

  insertAccessRequest: { weight: CLIENT_WRITE },
  approveAccessRequest: { hasEffect: (outcome) => outcome === "approved" },
  denyAccessRequest: { hasEffect: (outcome) => outcome === "denied" },
  denyAccessRequests: { postgresWeight: LOCKS_UNNAMED, hasEffect: (count) => count > 0 },

  createSession: { weight: CLIENT_WRITE, hasEffect: (outcome) => outcome === "created" },
  touchSessions: { weight: (uses) => rows(uses.length) },
  endSession: {},
  createSignInLink: { hasEffect: always },
  useSignInLink: { hasEffect: (outcome) => outcome === "created" },

  createWorker: { hasEffect: (outcome) => outcome === "created" },
  revokeWorker: { hasEffect: (worker, { revokedAt }) => worker?.revokedAt === revokedAt },
  touchWorkers: { weight: (uses) => rows(uses.length) },

  insertTasks: {
    weight: weightOfPost,
    news({ accepted, createdAt }, { kind }) {
      if (kind !== "inserted") return {};
      const queued = accepted.filter((task) => stateAtPost(task, createdAt) === "queued");
      return { types: [...new Set(queued.map(({ type }) => type))] };
    },
  },
  collectTask: { weight: CLIENT_WRITE },
  cancelTask: {
    weight: CLIENT_WRITE,
    locksEach: (task) => [idOf(task)],
    news: ({ id }, outcome) => ({ ended: outcome === "cancelled" ? [id] : [] }),
  },
  cancelTasks: {
    weight: ({ ids }) => ({ weight: ids.length, mayShed: true }),
    locksEach: ({ ids }) => ids,
    news: (_, { queued, running }) => ({ ended: [...queued, ...running] }),
  },
  eraseTask: {
    hasEffect: (outcome) => outcome === "erased",
    locks: (task) => [idOf(task)],
    news: ({ id }, outcome) => ({ ended: outcome === "erased" ? [id] : [] }),
  },

  claimTasks: {
    weight: ({ max }) => rows(max),
    postgresWeight: ({ max }) => claimOf(max),
    waitsForNone: true,
  },
  finishTask: {
    locks: seqOf,
    // A node drops its run of an ended task, so a task that runs on another node by now must not be in the notification.
    news: ({ id }, lanes) => (lanes === null ? {} : { lanes, ended: id === undefined ? [] : [id] }),
  },
  retryTask: { locks: seqOf },
  requeueTasks: {
    postgresWeight: (which) => ("of" in which ? LOCKS_UNNAMED : ONE_ROW),
    locks: (which) => ("of" in which ? [] : seqOf(which)),
  },
  releaseTask: { locks: seqOf },
  releaseDelayed: { weight: ({ max }) => rows(max), waitsForNone: true },
  expireQueued: {
    weight: STEP_WRITE,
    postgresWeight: LOCKS_UNNAMED,
    news: (_, { tasks, lanes }) => ({ lanes, ended: tasks.map(idOf) }),
  },
  markQueue: {},
  noteProgress: { locks: (runs) => runs.map(idOf) },

  // Never refused: workers hold the tasks already, and a refusal would cost more than the write.
  claimLeases: {
    weight: ({ max }) => rows(max),
    postgresWeight: ({ max }) => claimOf(max),
    waitsForNone: true,
  },
  extendLeases: {
    weight: ({ leases }) => rows(leases.length),
    locks: ({ leases }) => leases.map(idOf),
  },
  endLeases: {
    weight: ({ ends }) => rows(ends.reduce((sum, end) => sum + weightOfEnd(end), 0)),
    locks: ({ ends }) => ends.map(idOf),
    news({ ends }, results) {
      const ended = ends.filter(
        ({ sequel }, i) => sequel.kind === "finish" && results[i]?.isNew === true,
      );
      return { lanes: results.flatMap(({ lanes }) => lanes), ended: ended.map(idOf) };
    },
  },
  resumeLeases: { weight: WHOLE_TABLES },

  claimAttempts: {
    weight: ({ lanes }) => rows(placesOf(lanes)),
    postgresWeight: ({ lanes }) => claimOf(placesOf(lanes)),
    waitsForNone: true,
  },
  recordAttempt: {},
  redeliver: {
    weight: { weight: 2, mayShed: true },
    hasEffect: (lanes) => lanes.length > 0,
    news: (_, lanes) => ({ lanes }),
  },
  pauseDeliveries: { hasEffect: (outcome) => outcome === "paused" },
  resumeDeliveries: { hasEffect: (isResumed) => isResumed },
  orderRedelivery: { hasEffect: (order) => order !== "busy" },
  cancelRedeliveryOrder: {},
  stepRedeliveryOrder: { weight: STEP_WRITE, news: (_, { lanes }) => ({ lanes }) },

  sampleQueues: { weight: STEP_WRITE },
  foldTraffic: { weight: STEP_WRITE },
  keepClockReading: {},
  resumeClock: { weight: WHOLE_TABLES },
  shiftTimes: { weight: WHOLE_TABLES },
  hastenAttempts: { weight: WHOLE_TABLES },
  keepSecret: {},
  noteAudit: {},
  eraseExpired: { weight: ({ max }) => rows(max) },
  eraseStale: { weight: ({ max }) => rows(2 * max) },
  reclaimSpace: {},
  tryWrite: {},
} satisfies WriteRules;

export type WriteName = keyof typeof WRITES;

// Keyed by the names of writes, each with functions of that write's own arguments and result.
const RULES: Readonly<Record<string, WriteRule<never, never>>> = WRITES;

/** The weight of an operation in a batch and in the backlog. */
export function submitOptionsOf(
  store: "sqlite" | "postgres",
  name: string,
): (args: unknown) => SubmitOptions {
  const { weight = ONE_ROW, postgresWeight = weight } = RULES[name] ?? {};
  const own = store === "postgres" ? postgresWeight : weight;
  return typeof own === "function" ? (args) => own(args as never) : () => own;
}

/** The audit entry of an operation; null if it carries none, or had no effect. */
export function entryOf(
  name: string,
  { args, value }: { readonly args: unknown; readonly value: unknown },
): AuditEntry | null {
  const hasEffect = RULES[name]?.hasEffect;
  if (hasEffect === undefined) return null;
  // Every write with this rule takes an object.
  const { audit } = args as Audited;
  return audit !== undefined && hasEffect(value as never, args as never) ? audit : null;
}

/** The names of the writes that {@link entryOf} knows. */
export const AUDITED_WRITES = Object.keys(RULES).filter(
  (name) => RULES[name]?.hasEffect !== undefined,
);

/** The tasks that an operation names; null for a write without tasks. `each`: one statement for each operation locks them. */
export function locksOf(
  name: string,
): { readonly refsOf: (args: never) => readonly TaskRef[]; readonly each: boolean } | null {
  const { locks, locksEach } = RULES[name] ?? {};
  const refsOf = locks ?? locksEach;
  return refsOf === undefined ? null : { refsOf, each: locks === undefined };
}

/** True for a write that skips rows which other transactions have locked. */
export function waitsForNone(name: string): boolean {
  return RULES[name]?.waitsForNone === true;
}

/** The notification of an operation to other nodes. */
export function newsOf(name: string, args: unknown, value: unknown): News | undefined {
  return RULES[name]?.news?.(args as never, value as never);
}

/** The weight of a write of so many rows, which is never refused. */
function rows(weight: number): SubmitOptions {
  return { weight, mayShed: false };
}

/** The weight of a claim of at most so many tasks. */
function claimOf(places: number): SubmitOptions {
  return rows(Math.ceil(places / PLACES_PER_ROW));
}

function placesOf(lanes: readonly { readonly fresh: number; readonly retries: number }[]): number {
  return lanes.reduce((sum, lane) => sum + lane.fresh + lane.retries, 0);
}

function weightOfPost({ accepted, refused, idempotency }: TaskPost): SubmitOptions {
  let weight = idempotency === null ? 0 : 1 + pagesOf(idempotency.answerText);
  for (const task of accepted) weight += weightOfTask(task);
  for (const task of refused) weight += weightOfTask(task);
  return { weight, mayShed: true };
}

// A page of text weighs as much as a row, so that the limits of batch and backlog bound their bytes too.
function weightOfTask(task: {
  readonly dataText: string;
  readonly inputText: string | null;
}): number {
  return 1 + pagesOf(task.dataText, task.inputText ?? "");
}

function weightOfEnd({ sequel }: LeaseEnd): number {
  if (sequel.kind !== "finish") return 1;
  return 1 + pagesOf(sequel.resultText ?? "", sequel.errorText ?? "");
}

function pagesOf(...texts: readonly string[]): number {
  return Math.floor(texts.reduce((sum, text) => sum + text.length, 0) / 4096);
}
