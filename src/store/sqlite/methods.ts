import { messageOf } from "../../domain/message-of.ts";
import type { ReadOwner } from "../common/read-turns.ts";
import { TurnMemo } from "../common/turn-memo.ts";
import {
  CLIENT_WRITE,
  rows,
  STEP_WRITE,
  weightOfEnds,
  weightOfPost,
  WHOLE_TABLES,
} from "../common/write-weight.ts";
import { StoreError } from "../store.ts";
import type {
  AccessRequestStore,
  AccountStore,
  ChangeStore,
  ClockStore,
  DeliveryCountStep,
  DeliveryStore,
  LeaseStore,
  QueueStore,
  RedeliveryOrderStore,
  RunStore,
  Scope,
  SearchStore,
  SessionStore,
  TaskStore,
  TrafficStore,
  UpkeepStore,
  WorkerStore,
} from "../store.ts";
import { onlyRef } from "./attempt-claims.ts";
import type { FileAccess } from "./file-access.ts";
import { listByTurns } from "./list-turns.ts";
import { toPostRow } from "./post-row.ts";
import { isShortRead } from "./task-list.ts";
import { toTraffic } from "./traffic.ts";

/** The methods of the store, noun by noun: whether each is a read or a write, and its weight. */

/** Accounts, their keys, and requests for both. */
export function accountMethods(access: FileAccess): AccountStore & AccessRequestStore {
  const { reads, read, readLong, write } = access;
  const holders = new TurnMemo<ReturnType<typeof reads.findKeyHolder>>();
  return {
    createAccount: forgetting(holders, write("createAccount")),
    listAccounts: read(reads.listAccounts),
    hasSeveralAccounts: read(reads.hasSeveralAccounts),
    findAccount: read(reads.findAccount),
    changeLimits: forgetting(holders, write("changeLimits")),
    setAccountDisabled: forgetting(holders, write("setAccountDisabled")),
    listHoldChanges: read(reads.listHoldChanges),
    findHeldWork: readLong("findHeldWork", byAccount),
    eraseAccountPart: forgetting(holders, write("eraseAccountPart")),
    createKey: forgetting(holders, write("createKey")),
    listKeys: read(reads.listKeys),
    revokeKey: forgetting(holders, write("revokeKey")),
    // A KeyHolder holds nothing of it.
    touchKeys: write("touchKeys", (uses) => rows(uses.length)),
    findKeyHolder: read((hash: string) => holders.get(hash, () => reads.findKeyHolder(hash))),
    findAccountData: read(reads.findAccountData),
    findSecrets: read(reads.findSecrets),
    rotateSecret: write("rotateSecret"),
    finishRotation: write("finishRotation"),

    insertAccessRequest: write("insertAccessRequest", CLIENT_WRITE),
    approveAccessRequest: forgetting(holders, write("approveAccessRequest")),
    denyAccessRequest: write("denyAccessRequest"),
    listAccessRequests: read(reads.listAccessRequests),
    countPendingRequests: read(reads.countPendingRequests),
  };
}

/** The limits of a page of a list. */
export interface ListLimits {
  /** How many tasks a page may look at; undefined takes the number of {@link TaskStore.listTasks}. */
  readonly examineMax: number | undefined;
}

/** Tasks, for those who post them. */
export function taskMethods(access: FileAccess, { examineMax }: ListLimits): TaskStore {
  const { reads, read, readLong, write, commit } = access;
  const findTask = read(reads.findTask);
  const findLargeTask = readLong("findLargeTask", byAccount);
  const listReadySoon = read(reads.listReady);
  const listReadyLong = readLong("listReady", byScope);
  const listTasks = readLong("listTasks", byScope);
  return {
    insertTasks: (post) => commit.submit("insertTasks", toPostRow(post), weightOfPost(post)),
    findKeptAnswer: read(reads.findKeptAnswer),
    async findTask(look) {
      const found = await findTask(look);
      return found === "large" ? findLargeTask(look) : found;
    },
    collectTask: write("collectTask", CLIENT_WRITE),
    cancelTask: write("cancelTask", CLIENT_WRITE),
    cancelTasks: write("cancelTasks", ({ ids }) => ({ weight: ids.length, mayShed: true })),
    eraseTask: write("eraseTask"),
    listTasks: (query) => listByTurns(query, listTasks, examineMax),
    listReady: (query) => listByTurns(query, isShortRead(query) ? listReadySoon : listReadyLong),
  };
}

/** Tasks that wait, and those that the daemon itself runs. */
export function runMethods({ reads, read, readLong, write }: FileAccess): RunStore & QueueStore {
  return {
    claimTasks: write("claimTasks", ({ max }) => rows(max)),
    finishTask: write("finishTask"),
    retryTask: write("retryTask"),
    requeueTasks: write("requeueTasks"),
    releaseTask: write("releaseTask"),
    findEndedTasks: readLong("findEndedTasks"),

    releaseDelayed: write("releaseDelayed", ({ max }) => rows(max)),
    findOldestQueued: read(reads.findOldestQueued),
    listTypeWork: readLong("listTypeWork"),
    listQueuedTypes: read(reads.listQueuedTypes),
    markQueue: write("markQueue"),
    expireQueued: write("expireQueued", STEP_WRITE),
  };
}

/** Workers and their leases. Workers hold what they claimed: refusing them would cost more than letting them in. */
export function leaseMethods({ reads, read, write }: FileAccess): LeaseStore & WorkerStore {
  const holders = new TurnMemo<ReturnType<typeof reads.findWorkerHolder>>();
  return {
    claimLeases: write("claimLeases", ({ max }) => rows(max)),
    extendLeases: write("extendLeases", ({ leases }) => rows(leases.length)),
    endLeases: write("endLeases", weightOfEnds),
    resumeLeases: write("resumeLeases", WHOLE_TABLES),
    findLeases: read(reads.findLeases),
    listDueLeases: read(reads.listDueLeases),

    createWorker: forgetting(holders, write("createWorker")),
    listWorkers: read(reads.listWorkers),
    revokeWorker: forgetting(holders, write("revokeWorker")),
    // A WorkerHolder holds nothing of it.
    touchWorkers: write("touchWorkers", (uses) => rows(uses.length)),
    findWorkerHolder: read((hash: string) => holders.get(hash, () => reads.findWorkerHolder(hash))),
  };
}

/** Deliveries, their attempts, and orders to send them again. */
export function deliveryMethods(access: FileAccess): DeliveryStore & RedeliveryOrderStore {
  const { reads, read, readLong, write } = access;
  const listAllLanes = read(reads.listLanes);
  const listOwnLanes = readLong("listLanes");
  const makeLargePostback = readLong("makeLargePostback", byAccount);
  const recordAttempt = write("recordAttempt");
  return {
    listLanes: (of) => (of.accountId === "all" ? listAllLanes(of) : listOwnLanes(of)),
    listProvenLanes: read(reads.listProvenLanes),
    claimAttempts: attemptClaims(access),
    makeLargePostback: (attempt) => makeLargePostback(onlyRef(attempt)),
    listInFlight: read(reads.listInFlight),
    recordAttempt: (record) => recordAttempt({ ...record, attempt: onlyRef(record.attempt) }),
    listDeliveries: read(reads.listDeliveries),
    redeliver: write("redeliver", { weight: 2, mayShed: true }),
    findTaskDeliveries: read(reads.findTaskDeliveries),
    listAllDeliveries: readLong("listAllDeliveries"),
    countEndedDeliveries: readLong("countEndedDeliveries"),

    orderRedelivery: write("orderRedelivery"),
    listRedeliveryOrders: read(reads.listRedeliveryOrders),
    cancelRedeliveryOrder: write("cancelRedeliveryOrder"),
    listOpenRedeliveryOrders: read(reads.listOpenRedeliveryOrders),
    stepRedeliveryOrder: write("stepRedeliveryOrder", STEP_WRITE),
  };
}

// This thread reads the attempts to send after the commit: the writer looks up only which it starts.
function attemptClaims(access: FileAccess): DeliveryStore["claimAttempts"] {
  const { reads, read, write, commit } = access;
  const readStarted = read(reads.readStarted);
  const claimAttempts = write("claimAttempts", ({ lanes }) =>
    rows(lanes.reduce((sum, lane) => sum + lane.fresh + lane.retries, 0)),
  );
  return async (claim) => {
    const { started, lanes, held } = await claimAttempts(claim);
    const attempts = await readStarted(started).catch((error: unknown) => {
      // The claim is committed: another claim would leave these attempts in flight for good.
      throw new StoreError("unknown", `attempts were started: ${messageOf(error)}`, {
        cause: error,
      });
    });
    // The writer does not look up whose attempts they are.
    commit.tell([...new Set(attempts.map(({ accountId }) => accountId))]);
    return { attempts, lanes, held };
  };
}

/** Sign-ins to the dashboard. */
export function sessionMethods({ reads, read, write }: FileAccess): SessionStore {
  return {
    createSession: write("createSession", CLIENT_WRITE),
    findSession: read(reads.findSession),
    touchSessions: write("touchSessions", (uses) => rows(uses.length)),
    endSession: write("endSession"),
    createSignInLink: write("createSignInLink"),
    useSignInLink: write("useSignInLink"),
  };
}

/** The reads for people: what there is, what happened, and what they search for. */
export function shownMethods(
  access: FileAccess,
  { examineMax }: ListLimits,
): SearchStore & TrafficStore & ChangeStore {
  const { reads, read, readLong, write, commit } = access;
  const searchTasks = readLong("searchTasks", byScope);
  const byLogin = ({ filter }: DeliveryCountStep): ReadOwner => filter.login;
  const countEndedDeliveriesStep = readLong("countEndedDeliveriesStep", byLogin);
  const readTraffic = readLong("readTraffic", byScope);
  return {
    searchTasks: (query) => listByTurns(query, searchTasks, examineMax),
    // Its texts are long, and signing them would take the main thread as long again.
    findTimeline: readLong("findTimeline", byScope),
    countEndedDeliveriesStep: (step) => countEndedDeliveriesStep({ ...step, examineMax }),

    countWork: scoped(readLong("countAllWork"), read(reads.countAccountWork)),
    findFirstSteps: scoped(readLong("findAnyFirstSteps"), read(reads.findAccountFirstSteps)),
    findOldestWaiting: scoped(
      readLong("findAnyOldestWaiting"),
      read(reads.findAccountOldestWaiting),
    ),
    findTraffic: async (query) => toTraffic(await readTraffic(query)),
    listHostTraffic: readLong("listHostTraffic", byScope),
    listAccountOverviews: readLong("listAccountOverviews"),
    sampleQueues: write("sampleQueues", STEP_WRITE),
    foldTraffic: write("foldTraffic", STEP_WRITE),

    watch: (listener) => commit.watch(listener),
  };
}

/** The machine's clock, and the file itself. */
export function upkeepMethods(access: FileAccess): ClockStore & UpkeepStore {
  const { reads, read, write, commit, guard } = access;
  const reclaimSpace = write("reclaimSpace");
  const tryWrite = write("tryWrite");
  return {
    findClockReading: read(reads.findClockReading),
    keepClockReading: write("keepClockReading"),
    resumeClock: write("resumeClock", WHOLE_TABLES),
    shiftTimes: write("shiftTimes", WHOLE_TABLES),
    hastenAttempts: write("hastenAttempts", WHOLE_TABLES),

    keepSecret: write("keepSecret"),
    eraseExpired: write("eraseExpired", ({ max }) => rows(max)),
    eraseStale: write("eraseStale", ({ max }) => rows(2 * max)),
    usedBytes: read(reads.usedBytes),
    reclaimSpace: () => reclaimSpace(undefined),
    fault: () => commit.fault,
    shortage: () => commit.shortage,
    tryWrite: () => tryWrite(undefined),
    lookAtFile: () => guard.look(),
    async checkFile() {
      access.refuseWhenClosed();
      return guard.check();
    },
    close: () => access.close(),
  };
}

/** A write that may make anything that is remembered of holders untrue. */
function forgetting<Args, Value>(
  holders: TurnMemo<unknown>,
  write: (args: Args) => Promise<Value>,
): (args: Args) => Promise<Value> {
  return async (args) => {
    const value = await write(args);
    holders.forget();
    return value;
  };
}

/** One read for all accounts, and another for one of them. */
function scoped<Value>(
  ofAll: (scope: null) => Promise<Value>,
  ofAccount: (accountId: number) => Promise<Value>,
): (scope: Scope) => Promise<Value> {
  return (scope) => (scope === null ? ofAll(scope) : ofAccount(scope));
}

function byAccount({ accountId }: { readonly accountId: number }): number {
  return accountId;
}

function byScope({ scope }: { readonly scope: number | null }): number | null {
  return scope;
}
