import { stateAtPost } from "../../domain/task/task.ts";
import type { Audited, AuditEntry, Changes, LeaseEnd, Store, TaskPost } from "../store.ts";
import type { SubmitOptions } from "./group-commit.ts";

/** The changes of a batch that other nodes hear of: the same that its own node takes from the results of its calls. */
export type News = Partial<Changes>;

/** A task by its id or its number. */
export type TaskRef = string | number;

type WeightOf<Args> = SubmitOptions | ((args: Args) => SubmitOptions);

/** What a write is to group commit, the audit and other nodes, besides its statements. */
interface WriteRule<Args, Result> {
  /** How it counts in batch and backlog; as one row that is never refused unless given. */
  readonly weight?: WeightOf<Args>;
  /** The same on PostgreSQL, if it differs. */
  readonly postgresWeight?: WeightOf<Args>;
  /** It may bring an entry of the audit along, which is recorded if this returns true: it took effect. */
  readonly hasEffect?: (result: Result, args: Args) => boolean;
  /** The tasks that it locks in PostgreSQL's queue: in a statement for all of its name, or in one each. */
  readonly locks?: (args: Args) => readonly TaskRef[];
  readonly locksEach?: (args: Args) => readonly TaskRef[];
  /** It passes over rows that others hold. */
  readonly waitsForNone?: true;
  /** What other nodes hear of it, besides the accounts. */
  readonly news?: (args: Args, result: Result) => News;
}

type WriteRules = {
  readonly [Name in keyof Store]?: Store[Name] extends (args: infer Args) => Promise<infer Result>
    ? WriteRule<Args, Result>
    : never;
};

/** The most weight of a batch. */
export const BATCH_WEIGHT_MAX = 256;

/** A client's write: it can come again. */
const CLIENT_WRITE: SubmitOptions = { weight: 1, mayShed: true };
// It holds up every other write, and happens at a start or when the machine's clock was set.
const WHOLE_TABLES: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// It counts the rows that it writes and those that it reads before: as much as half a batch.
const STEP_WRITE: SubmitOptions = { weight: BATCH_WEIGHT_MAX / 2, mayShed: false };
// It waits for rows that nobody named before: in a batch with others it would wait while it holds theirs.
const LOCKS_UNNAMED: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// A step of the operator, or of the engine, whose own limits bound the number of its steps.
const ONE_ROW = rows(1);

// A claim asks for as many as there are places, and mostly brings a few. Weighed as if it brought them all, each had a
// commit of its own: with 1,000 types posts of 100 tasks filled the backlog with claims (measured: 944 of 960 refused).
const PLACES_PER_ROW = 8;

const idOf = ({ id }: { readonly id: string }): string => id;
const seqOf = ({ seq }: { readonly seq: number }): readonly number[] => [seq];
const always = (): boolean => true;

/**
 * All writes of the store. On PostgreSQL batches lock tasks in one order, so that none waits for another in a circle:
 * first what their operations name, by its numbers; then what goes with it; last, without waiting for anybody, what is
 * claimed. An operation that waits for tasks which it does not name has the weight of a whole batch, and so one of its
 * own.
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
    // Whoever hears that a task has ended lets go of it: it must not be told of one that runs somewhere else by now.
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

  // Workers hold what they claimed: refusing them would cost more than letting them in.
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

/** How the operations of a write count in batch and backlog, by their arguments. */
export function submitOptionsOf(
  store: "sqlite" | "postgres",
  name: string,
): (args: unknown) => SubmitOptions {
  const { weight = ONE_ROW, postgresWeight = weight } = RULES[name] ?? {};
  const own = store === "postgres" ? postgresWeight : weight;
  return typeof own === "function" ? (args) => own(args as never) : () => own;
}

/** The entry that this operation brought along; null if it brought none, or took no effect. */
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

/** The tasks that an operation names; null for a write that names none, `each` if a statement locks those of one. */
export function locksOf(
  name: string,
): { readonly refsOf: (args: never) => readonly TaskRef[]; readonly each: boolean } | null {
  const { locks, locksEach } = RULES[name] ?? {};
  const refsOf = locks ?? locksEach;
  return refsOf === undefined ? null : { refsOf, each: locks === undefined };
}

/** True for a write that passes over rows that others hold. */
export function waitsForNone(name: string): boolean {
  return RULES[name]?.waitsForNone === true;
}

/** What other nodes hear of an operation. */
export function newsOf(name: string, args: unknown, value: unknown): News | undefined {
  return RULES[name]?.news?.(args as never, value as never);
}

/** A write of so many rows that is never refused. */
function rows(weight: number): SubmitOptions {
  return { weight, mayShed: false };
}

/** How much a claim weighs that may bring so many. */
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
