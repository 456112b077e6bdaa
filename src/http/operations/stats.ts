import { workDocument } from "../../admin/account.ts";
import type { DayCounts, HostOverview, SeriesBucket as BucketShown } from "../../api/stats.ts";
import { ACTIVE_KEYS_MAX } from "../../domain/account/key.ts";
import type { Clock } from "../../domain/clock/clock.ts";
import { DAY_MS, HOUR_MS } from "../../domain/clock/duration.ts";
import { parseTime, timeText } from "../../domain/clock/time.ts";
import { type AttentionFacts, WAIT_MS_MAX, decideAttention } from "../../domain/stats/attention.ts";
import {
  SERIES_BUCKETS_MAX,
  type SeriesBucket,
  type SeriesCounts,
  type SeriesRange,
  percentile,
  seriesRange,
  successShare,
  sumSteps,
  toSeries,
} from "../../domain/stats/time-series.ts";
import { StatusError } from "../../domain/status.ts";
import { ANY_TASK } from "../../domain/task/task-search.ts";
import { pauseOf } from "../../domain/webhook/delivery-pause.ts";
import type { HostFailure, HostTraffic, Scope } from "../../store/store.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { type AccountRef, type Operation, defineOperation } from "../operation.ts";
import { waitsByType } from "./operator.ts";

const AGE_MS_MAX = 1000;
const HOSTS_READ_MAX = 200;
// More than an operator decides one by one.
const ACCESS_REQUESTS_COUNTED_MAX = 1000;

export function statsOverview(deps: OperationDeps): Operation {
  const { clock, liveFeed } = deps;
  // Every open page asks at the same change, and each must see that change.
  const recent = new RecentValues<Scope, Gathered>({
    clock,
    ageMsMax: AGE_MS_MAX,
    versionOf: (scope) => liveFeed.sentChanges(scope),
  });
  return defineOperation("GET /v1/stats/overview", {
    access: "viewer",
    id: "getOverview",
    summary: "Get the overview",
    description:
      "The open work, the last 24 hours, and problems that need attention. Computed once per second, and at each change that GET /v1/events reports.",
    async handle({ scope, isOperator }) {
      const whose = scope?.accountId ?? null;
      const found = await recent.get(whose, () => gather(scope, deps));
      const { tasks, day, oldestWaitingMs, facts } = found;
      const role = isOperator ? "operator" : "account";
      const fields = {
        tasks,
        day,
        oldest_waiting_ms: oldestWaitingMs,
        attention: decideAttention({ ...facts, role }),
        time: timeText(facts.now),
      };
      return { fields };
    },
  });
}

type Gathered = Awaited<ReturnType<typeof gather>>;

async function gather(account: AccountRef | null, deps: OperationDeps) {
  const { store, clock } = deps;
  const scope = account?.accountId ?? null;
  const now = clock.now();
  const [counts, { steps }, waitsSince] = await Promise.all([
    store.countWork(scope),
    // Changes during the read count too.
    store.findTraffic({ scope, from: now - DAY_MS, to: now + DAY_MS }),
    store.findOldestWaiting(scope),
  ]);
  const oldestWaitingMs = waitsSince === null ? null : Math.max(0, now - waitsSince);
  const { undelivered } = counts;
  const found = await watched(account, { deps, now, oldestWaitingMs });
  return {
    tasks: workDocument(counts),
    day: dayDocument(sumSteps(steps)),
    oldestWaitingMs,
    facts: { ...found, undelivered },
  };
}

interface At {
  readonly deps: OperationDeps;
  readonly now: number;
  /** Null if no task waits. */
  readonly oldestWaitingMs: number | null;
}

type Watched = Omit<AttentionFacts, "role" | "undelivered">;

async function watched(account: AccountRef | null, at: At): Promise<Watched> {
  const { deps, now } = at;
  const scope = account?.accountId ?? null;
  const since = now - HOUR_MS;
  const [page, pauses, own] = await Promise.all([
    deps.store.listHostTraffic({ scope, since, limit: HOSTS_READ_MAX, only: "sent" }),
    deps.store.listDeliveryPauses(),
    scope === null ? ofOperator(at) : ofAccount(scope, at),
  ]);
  const login = account?.login ?? null;
  const hosts = page.hosts.map(({ host, lastFailure, ...counts }) => {
    const isPaused = pauseOf(pauses, { login, host }) !== null;
    return { ...counts, host, failedAt: lastFailure?.endedAt ?? null, isPaused };
  });
  return { now, hosts, ...own };
}

type OwnFacts = Omit<Watched, "now" | "hosts">;

async function ofOperator({ deps, now }: At): Promise<OwnFacts> {
  const [shortage, waits, requests] = await Promise.all([
    deps.shortage(),
    waitsByType(deps, now),
    deps.store.countPendingRequests(ACCESS_REQUESTS_COUNTED_MAX + 1),
  ]);
  const accessRequests = {
    count: Math.min(requests, ACCESS_REQUESTS_COUNTED_MAX),
    isMore: requests > ACCESS_REQUESTS_COUNTED_MAX,
  };
  return { shortage, ...waits, accessRequests, conditions: deps.conditions(), keys: null };
}

async function ofAccount(accountId: number, at: At): Promise<OwnFacts> {
  const [data, typesWithoutWorker] = await Promise.all([
    at.deps.store.findAccountData({ accountId, revokedMax: 0 }),
    accountTypesWithoutWorker(accountId, at),
  ]);
  return {
    shortage: null,
    typesWithoutWorker,
    // A missing worker explains the wait of its tasks, and probably of the oldest.
    oldestWaitingMs: typesWithoutWorker.length > 0 ? null : at.oldestWaitingMs,
    conditions: [],
    accessRequests: { count: 0, isMore: false },
    keys: data === null ? null : { active: data.keys.length, max: ACTIVE_KEYS_MAX },
  };
}

// Each costs a search of the account's tasks.
const TYPES_SEARCHED_MAX = 10;

/** The types without a worker for which tasks of this account wait, once one has waited for long. */
async function accountTypesWithoutWorker(
  accountId: number,
  { deps, now, oldestWaitingMs }: At,
): Promise<readonly string[]> {
  if (oldestWaitingMs === null || oldestWaitingMs <= WAIT_MS_MAX) return [];
  const { typesWithoutWorker } = await waitsByType(deps, now);
  const searched = typesWithoutWorker.slice(0, TYPES_SEARCHED_MAX);
  const pages = await Promise.all(
    searched.map((type) =>
      deps.store.searchTasks({
        scope: accountId,
        search: { ...ANY_TASK, states: ["waiting"], type },
        limit: 1,
        after: null,
      }),
    ),
  );
  return searched.filter((_, i) => pages[i]?.tasks.length === 1);
}

function dayDocument(day: SeriesCounts): DayCounts {
  const { posted, completed, failed, delivered, refused } = day;
  return {
    posted,
    completed,
    failed,
    delivered,
    given_up: day.givenUp,
    refused,
    first_attempts: day.firstAttempts,
    first_delivered: day.firstDelivered,
    success: successShare(day),
  };
}

export function statsSeries({ store, webhooks }: OperationDeps): Operation {
  return defineOperation("GET /v1/stats/series", {
    access: "viewer",
    id: "getSeries",
    summary: "Get counts over time",
    description:
      `The counts of a period in at most ${SERIES_BUCKETS_MAX} equal steps, from a minute to a day. Both ends move ` +
      "outwards to complete steps. Before the last 25 hours the smallest step is an hour.",
    async handle({ scope, query, now }) {
      const range = chooseRange(query, now);
      const { from, to } = range;
      // The traffic of all accounts has a step for each minute in which a daemon ran.
      const all = await store.findTraffic({ scope: null, from, to });
      const own =
        scope === null ? all : await store.findTraffic({ scope: scope.accountId, from, to });
      const buckets = toSeries(range, { ...own, served: all.steps, now }).map(bucketDocument);
      const fields = {
        from: timeText(range.from),
        to: timeText(range.to),
        step_ms: range.stepMs,
        buckets,
        limit_ms: webhooks.timeoutMs,
      };
      return { fields };
    },
  });
}

function chooseRange(
  query: { readonly from: number | null; readonly to: number | null },
  now: number,
): SeriesRange {
  const to = query.to ?? now;
  const from = query.from ?? to - HOUR_MS;
  const range = seriesRange({ from, to, now });
  if (range !== null) {
    if (isWritten(range.from) && isWritten(range.to)) return range;
    throw new StatusError(40000, { detail: OUT_OF_TIME });
  }
  const detail =
    to > from
      ? `From 'from' to 'to' are at most ${SERIES_BUCKETS_MAX} days.`
      : "'from' must be before 'to', which is now unless given.";
  throw new StatusError(40000, { detail });
}

const OUT_OF_TIME = "The steps from 'from' to 'to' must lie in the years 0000 to 9999.";

// A time that is moved outwards may leave the years that RFC 3339 can write.
function isWritten(timeMs: number): boolean {
  return parseTime(timeText(timeMs)) !== null;
}

function bucketDocument(bucket: SeriesBucket): BucketShown {
  const { posted, completed, failed, cancelled, delivered, refused, attempts, isServed } = bucket;
  return {
    at: timeText(bucket.at),
    is_whole: bucket.isWhole,
    posted,
    completed,
    failed,
    cancelled,
    first_attempts: bucket.firstAttempts,
    first_delivered: bucket.firstDelivered,
    delivered,
    given_up: bucket.givenUp,
    refused,
    p50_ms: bucket.p50Ms,
    p95_ms: bucket.p95Ms,
    p99_ms: bucket.p99Ms,
    attempts,
    queued: isServed ? bucket.queued : null,
    oldest_ms: isServed ? bucket.oldestMs : null,
  };
}

const HOSTS_MAX = 200;

export function statsHosts({ store, retentionMs, retentionDays }: OperationDeps): Operation {
  return defineOperation("GET /v1/stats/hosts", {
    access: "viewer",
    id: "listHosts",
    summary: "List the hosts of receivers",
    description:
      `At most ${HOSTS_MAX} hosts with attempts since then, or with given up or refused deliveries: ` +
      "first the hosts with the most given up, refused or retried deliveries, then the hosts that fail most.",
    async handle({ scope, query, now }) {
      const since = query.since ?? now - Math.min(DAY_MS, retentionMs);
      // An hour's grace: a client that asks for everything uses a clock of its own.
      if (since < now - retentionMs - HOUR_MS) throw tooEarly(retentionDays);
      const [page, pauses] = await Promise.all([
        store.listHostTraffic({ scope: scope?.accountId ?? null, since, limit: HOSTS_MAX }),
        store.listDeliveryPauses(),
      ]);
      const login = scope?.login ?? null;
      const hosts = page.hosts.map((each) =>
        hostDocument(each, pauseOf(pauses, { login, host: each.host }) !== null),
      );
      return { fields: { since: timeText(since), hosts, more: page.hasMore } };
    },
  });
}

function tooEarly(days: number): StatusError {
  const detail = `'since' is too early: statistics are kept for ${days === 1 ? "1 day" : `${days} days`}.`;
  return new StatusError(40000, { detail });
}

function hostDocument(host: HostTraffic, isPaused: boolean): HostOverview {
  const { attempts, succeeded, refused, retrying, durations, lastFailure } = host;
  return {
    host: host.host,
    attempts,
    succeeded,
    success: attempts === 0 ? null : succeeded / attempts,
    p50_ms: percentile(durations, 0.5),
    p95_ms: percentile(durations, 0.95),
    given_up: host.givenUp,
    refused,
    retrying,
    is_paused: isPaused,
    last_error: lastFailure === null ? null : failureDocument(lastFailure),
  };
}

function failureDocument({ endedAt, error, httpStatus, taskId }: HostFailure) {
  return { at: timeText(endedAt), error, http_status: httpStatus, task_id: taskId };
}

export interface RecentValuesOptions<Key> {
  readonly clock: Pick<Clock, "monotonic">;
  readonly ageMsMax: number;
  /** A number that changes with the value's source: after a change the value is outdated at any age. */
  readonly versionOf: (key: Key) => number;
}

interface Recent<Value> {
  readonly at: number;
  readonly version: number;
  readonly value: Promise<Value>;
}

/**
 * Values that are computed again when they are too old. Concurrent requests share a computation, so many requests cost
 * no more than a single request. A failure is shared by those who wait for it and then forgotten.
 */
export class RecentValues<Key, Value> {
  readonly #options: RecentValuesOptions<Key>;
  // In the order in which they were computed.
  readonly #recent = new Map<Key, Recent<Value>>();

  constructor(options: RecentValuesOptions<Key>) {
    this.#options = options;
  }

  /** The value of a key, from `decide` where no recent one exists. */
  get(key: Key, decide: () => Promise<Value>): Promise<Value> {
    const now = this.#options.clock.monotonic();
    this.#forgetOld(now);
    const version = this.#options.versionOf(key);
    const known = this.#recent.get(key);
    if (known?.version === version) return known.value;
    const recent = { at: now, version, value: decide() };
    // It goes behind the older ones.
    this.#recent.delete(key);
    this.#recent.set(key, recent);
    recent.value.catch(() => {
      if (this.#recent.get(key) === recent) this.#recent.delete(key);
    });
    return recent.value;
  }

  #forgetOld(now: number): void {
    for (const [key, { at }] of this.#recent) {
      if (now - at < this.#options.ageMsMax) return;
      this.#recent.delete(key);
    }
  }
}
