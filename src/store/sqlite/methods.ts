import { hostname } from "node:os";

import { version } from "../../assets.ts";
import { messageOf } from "../../domain/error.ts";
import { listByTurns } from "../common/list-turns.ts";
import type { LoneNode } from "../common/lone-node.ts";
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
import type { DeliveryCountStep, DeliveryStore, Scope, Store } from "../store.ts";
import { onlyRef } from "./attempts.ts";
import type { FileAccess } from "./file-access.ts";
import { toPostRow } from "./posts.ts";
import { isShortRead } from "./task-list.ts";
import { sortTraffic } from "./traffic.ts";

/**
 * The methods of the store, noun by noun: the writes with their weights, and the reads that are more than a read that
 * is answered at once, as all others are (reads.ts).
 */

/** Accounts, their keys, and requests for both. */
export function accountMethods(access: FileAccess) {
  const { reads, readLong, write } = access;
  const holders = new TurnMemo<ReturnType<typeof reads.findKeyHolder>>();
  return {
    createAccount: forgetting(holders, write("createAccount")),
    changeLimits: forgetting(holders, write("changeLimits")),
    setAccountDisabled: forgetting(holders, write("setAccountDisabled")),
    findHeldWork: readLong("findHeldWork", byAccount),
    eraseAccountPart: forgetting(holders, write("eraseAccountPart")),
    createKey: forgetting(holders, write("createKey")),
    revokeKey: forgetting(holders, write("revokeKey")),
    // A KeyHolder holds nothing of it.
    touchKeys: write("touchKeys", (uses) => rows(uses.length)),
    findKeyHolder: (hash) => holders.get(hash, () => reads.findKeyHolder(hash)),
    rotateSecret: write("rotateSecret"),
    finishRotation: write("finishRotation"),

    insertAccessRequest: write("insertAccessRequest", CLIENT_WRITE),
    approveAccessRequest: forgetting(holders, write("approveAccessRequest")),
    denyAccessRequest: write("denyAccessRequest"),
    denyAccessRequests: write("denyAccessRequests"),
  } satisfies Partial<Store>;
}

/** The limits of a page of a list. */
export interface ListLimits {
  /** How many tasks a page may look at; undefined takes the number of {@link TaskStore.listTasks}. */
  readonly examineMax: number | undefined;
}

/** Tasks, for those who post them. */
export function taskMethods(access: FileAccess, { examineMax }: ListLimits) {
  const { reads, readLong, write, commit } = access;
  const findLargeTask = readLong("findLargeTask", byAccount);
  const listReadyLong = readLong("listReady", byScope);
  const listTasks = readLong("listTasks", byScope);
  return {
    insertTasks: (post) => commit.submit("insertTasks", toPostRow(post), weightOfPost(post)),
    async findTask(look) {
      const found = await reads.findTask(look);
      return found === "large" ? findLargeTask(look) : found;
    },
    collectTask: write("collectTask", CLIENT_WRITE),
    cancelTask: write("cancelTask", CLIENT_WRITE),
    cancelTasks: write("cancelTasks", ({ ids }) => ({ weight: ids.length, mayShed: true })),
    eraseTask: write("eraseTask"),
    listTasks: (query) => listByTurns(query, listTasks, examineMax),
    listReady: (query) => listByTurns(query, isShortRead(query) ? reads.listReady : listReadyLong),
  } satisfies Partial<Store>;
}

/** Tasks that wait, and those that the daemon itself runs. */
export function runMethods(access: FileAccess) {
  const { readLong, write } = access;
  return {
    claimTasks: write("claimTasks", ({ max }) => rows(max)),
    finishTask: write("finishTask"),
    retryTask: write("retryTask"),
    requeueTasks: write("requeueTasks"),
    releaseTask: write("releaseTask"),
    findEndedTasks: readLong("findEndedTasks"),
    ...noProgress(access),

    releaseDelayed: write("releaseDelayed", ({ max }) => rows(max)),
    listTypeWork: readLong("listTypeWork"),
    markQueue: write("markQueue"),
    expireQueued: write("expireQueued", STEP_WRITE),
  } satisfies Partial<Store>;
}

/** The engine of the one node knows the progress of all runs, so nothing is kept. */
function noProgress(access: FileAccess): Pick<Store, "noteProgress" | "findProgress"> {
  return {
    async noteProgress() {
      access.refuseWhenClosed();
    },
    async findProgress() {
      access.refuseWhenClosed();
      return [];
    },
  };
}

/** The nodes: this one. */
export function clusterMethods(access: FileAccess, node: LoneNode) {
  return {
    cluster: node,
    async listNodes() {
      access.refuseWhenClosed();
      return [node.summary({ name: hostname(), version })];
    },
    async findDatabaseHealth() {
      access.refuseWhenClosed();
      return null;
    },
  } satisfies Partial<Store>;
}

/** Workers and their leases. Workers hold what they claimed: refusing them would cost more than letting them in. */
export function leaseMethods({ reads, write }: FileAccess) {
  const holders = new TurnMemo<ReturnType<typeof reads.findWorkerHolder>>();
  return {
    claimLeases: write("claimLeases", ({ max }) => rows(max)),
    extendLeases: write("extendLeases", ({ leases }) => rows(leases.length)),
    endLeases: write("endLeases", weightOfEnds),
    resumeLeases: write("resumeLeases", WHOLE_TABLES),

    createWorker: forgetting(holders, write("createWorker")),
    revokeWorker: forgetting(holders, write("revokeWorker")),
    // A WorkerHolder holds nothing of it.
    touchWorkers: write("touchWorkers", (uses) => rows(uses.length)),
    findWorkerHolder: (hash) => holders.get(hash, () => reads.findWorkerHolder(hash)),
  } satisfies Partial<Store>;
}

/** Deliveries, their attempts, and orders to send them again. */
export function deliveryMethods(access: FileAccess) {
  const { reads, readLong, write } = access;
  const listLanes = readLong("listLanes");
  const makeLargePostback = readLong("makeLargePostback", byAccount);
  const recordAttempt = write("recordAttempt");
  return {
    // Most starts find nothing scheduled, and the thread that reads takes 60 ms to start, and 15 MB.
    listLanes: async (of) => ((await reads.hasScheduled()) ? listLanes(of) : []),
    listDueLanes: readLong("listDueLanes"),
    claimAttempts: attemptClaims(access),
    makeLargePostback: (attempt) => makeLargePostback(onlyRef(attempt)),
    recordAttempt: (record) => recordAttempt({ ...record, attempt: onlyRef(record.attempt) }),
    redeliver: write("redeliver", { weight: 2, mayShed: true }),
    pauseDeliveries: write("pauseDeliveries"),
    resumeDeliveries: write("resumeDeliveries"),
    countScheduled: readLong("countScheduled"),
    listAllDeliveries: readLong("listAllDeliveries"),
    listAttempts: readLong("listAttempts", byAccount),
    countEndedDeliveries: readLong("countEndedDeliveries"),

    orderRedelivery: write("orderRedelivery"),
    cancelRedeliveryOrder: write("cancelRedeliveryOrder"),
    stepRedeliveryOrder: write("stepRedeliveryOrder", STEP_WRITE),
  } satisfies Partial<Store>;
}

// This thread reads the attempts to send after the commit: the writer looks up only which it starts.
function attemptClaims(access: FileAccess): DeliveryStore["claimAttempts"] {
  const { reads, write, commit } = access;
  const claimAttempts = write("claimAttempts", ({ lanes }) =>
    rows(lanes.reduce((sum, lane) => sum + lane.fresh + lane.retries, 0)),
  );
  return async (claim) => {
    const { started, lanes, held } = await claimAttempts(claim);
    const attempts = await reads.readStarted(started).catch((error: unknown) => {
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
export function sessionMethods({ write }: FileAccess) {
  return {
    createSession: write("createSession", CLIENT_WRITE),
    touchSessions: write("touchSessions", (uses) => rows(uses.length)),
    endSession: write("endSession"),
    createSignInLink: write("createSignInLink"),
    useSignInLink: write("useSignInLink"),
  } satisfies Partial<Store>;
}

/** The reads for people: what there is, what happened, and what they search for. */
export function shownMethods(access: FileAccess, { examineMax }: ListLimits) {
  const { reads, readLong, write, commit } = access;
  const searchTasks = readLong("searchTasks", byScope);
  const byLogin = ({ filter }: DeliveryCountStep): ReadOwner => filter.login;
  const countEndedDeliveriesStep = readLong("countEndedDeliveriesStep", byLogin);
  const readTraffic = readLong("readTraffic", byScope);
  return {
    searchTasks: (query) => listByTurns(query, searchTasks, examineMax),
    // Its texts are long, and signing them would take the main thread as long again.
    findTimeline: readLong("findTimeline", byScope),
    countEndedDeliveriesStep: (step) => countEndedDeliveriesStep({ ...step, examineMax }),

    countWork: scoped(readLong("countAllWork"), reads.countAccountWork),
    findOldestWaiting: scoped(readLong("findAnyOldestWaiting"), reads.findAccountOldestWaiting),
    findTraffic: async (query) => sortTraffic(await readTraffic(query)),
    listHostTraffic: readLong("listHostTraffic", byScope),
    listAccountOverviews: readLong("listAccountOverviews"),
    sampleQueues: write("sampleQueues", STEP_WRITE),
    foldTraffic: write("foldTraffic", STEP_WRITE),

    watch: (listener) => commit.watch(listener),
  } satisfies Partial<Store>;
}

/** The machine's clock, and the file itself. */
export function upkeepMethods(access: FileAccess) {
  const { readLong, write, commit, guard } = access;
  const reclaimSpace = write("reclaimSpace");
  const tryWrite = write("tryWrite");
  return {
    keepClockReading: write("keepClockReading"),
    resumeClock: write("resumeClock", WHOLE_TABLES),
    shiftTimes: write("shiftTimes", WHOLE_TABLES),
    hastenAttempts: write("hastenAttempts", WHOLE_TABLES),

    keepSecret: write("keepSecret"),
    eraseExpired: write("eraseExpired", ({ max }) => rows(max)),
    noteAudit: write("noteAudit"),
    listAudit: readLong("listAudit"),
    eraseStale: write("eraseStale", ({ max }) => rows(2 * max)),
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
  } satisfies Partial<Store>;
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
