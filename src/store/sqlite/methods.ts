import { hostname } from "node:os";

import { version } from "../../assets.ts";
import { messageOf } from "../../domain/error.ts";
import { type ListLimits, listByTurns } from "../common/list.ts";
import type { LoneNode } from "../common/lone-node.ts";
import { type ReadOwner, TurnMemo, byAccount, byScope } from "../common/read-turns.ts";
import { toSteps } from "../sql/traffic.ts";
import { submitOptionsOf, WRITES, type WriteName } from "../sql/writes.ts";
import { StoreError } from "../store.ts";
import type { DeliveryCountStep, DeliveryStore, ReadyQuery, Scope, Store } from "../store.ts";
import { onlyRef } from "./attempts.ts";
import type { FileAccess } from "./file-access.ts";
import { toPostRow } from "./posts.ts";

type FileWrite = Exclude<WriteName, "noteProgress">;

/** The writes of the store, each one operation of its name, unless more is to be done in this thread. */
export function writeMethods(access: FileAccess) {
  const { reads, write, commit } = access;
  const names = Object.keys(WRITES).filter((name) => name !== "noteProgress");
  const methods = names.map((name) => [name, write(name as FileWrite)]);
  // Each has the name of its write.
  const all = Object.fromEntries(methods) as { readonly [Name in FileWrite]: Store[Name] };
  const weightOfPost = submitOptionsOf("sqlite", "insertTasks");
  const keyHolders = new TurnMemo<ReturnType<typeof reads.findKeyHolder>>();
  const workers = new TurnMemo<ReturnType<typeof reads.findWorkerHolder>>();
  return {
    ...all,
    insertTasks: (post) => commit.submit("insertTasks", toPostRow(post), weightOfPost(post)),
    claimAttempts: attemptClaims(access),
    recordAttempt: (record) => all.recordAttempt({ ...record, attempt: onlyRef(record.attempt) }),

    // A KeyHolder and a WorkerHolder hold nothing of when they were last used.
    findKeyHolder: (hash) => keyHolders.get(hash, () => reads.findKeyHolder(hash)),
    createAccount: forgetting(keyHolders, all.createAccount),
    changeLimits: forgetting(keyHolders, all.changeLimits),
    setAccountDisabled: forgetting(keyHolders, all.setAccountDisabled),
    eraseAccountPart: forgetting(keyHolders, all.eraseAccountPart),
    createKey: forgetting(keyHolders, all.createKey),
    revokeKey: forgetting(keyHolders, all.revokeKey),
    approveAccessRequest: forgetting(keyHolders, all.approveAccessRequest),

    findWorkerHolder: (hash) => workers.get(hash, () => reads.findWorkerHolder(hash)),
    createWorker: forgetting(workers, all.createWorker),
    revokeWorker: forgetting(workers, all.revokeWorker),
  } satisfies Partial<Store>;
}

// This thread reads the attempts to send after the commit: the writer looks up only which it starts.
function attemptClaims(access: FileAccess): DeliveryStore["claimAttempts"] {
  const { reads, write, commit } = access;
  const claimAttempts = write("claimAttempts");
  return async (claim) => {
    const { started, lanes, suspended } = await claimAttempts(claim);
    const attempts = await reads.readStarted(started).catch((error: unknown) => {
      // The claim is committed: another claim would leave these attempts in flight permanently.
      throw new StoreError("unknown", `attempts were started: ${messageOf(error)}`, {
        cause: error,
      });
    });
    // The writer does not look up whose attempts they are.
    commit.tell([...new Set(attempts.map(({ accountId }) => accountId))]);
    return { attempts, lanes, suspended };
  };
}

/**
 * The methods that neither read nor write rows. The one node is this one, and its engine knows the progress of all
 * runs.
 */
export function fileMethods(access: FileAccess, node: LoneNode) {
  const { commit, guard } = access;
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
    async noteProgress() {
      access.refuseWhenClosed();
    },
    async findProgress() {
      access.refuseWhenClosed();
      return [];
    },

    watch: (listener) => commit.watch(listener),
    fault: () => commit.fault,
    shortage: () => commit.shortage,
    lookAtFile: () => guard.look(),
    async checkFile() {
      access.refuseWhenClosed();
      return guard.check();
    },
    close: () => access.close(),
  } satisfies Partial<Store>;
}

/** The reads that take several steps; all others are one immediate step (reads.ts). */
export function readMethods({ reads, readLong }: FileAccess, { examineMax }: ListLimits) {
  const findLargeTask = readLong("findLargeTask", byAccount);
  const makeLargePostback = readLong("makeLargePostback", byAccount);
  const listReadyLong = readLong("listReady", byScope);
  const listTasks = readLong("listTasks", byScope);
  const searchTasks = readLong("searchTasks", byScope);
  const listLanes = readLong("listLanes");
  const byLogin = ({ filter }: DeliveryCountStep): ReadOwner => filter.login;
  const countEndedDeliveriesStep = readLong("countEndedDeliveriesStep", byLogin);
  const readTraffic = readLong("readTraffic", byScope);
  return {
    async findTask(look) {
      const found = await reads.findTask(look);
      return found === "large" ? findLargeTask(look) : found;
    },
    listTasks: (query) => listByTurns(query, listTasks, examineMax),
    listReady: (query) => listByTurns(query, isShortRead(query) ? reads.listReady : listReadyLong),
    searchTasks: (query) => listByTurns(query, searchTasks, examineMax),
    findEndedTasks: readLong("findEndedTasks"),
    listTypeWork: readLong("listTypeWork"),

    // Most starts find nothing scheduled, and the thread that reads takes 60 ms to start, and 15 MB.
    listLanes: async (of) => ((await reads.hasScheduled()) ? listLanes(of) : []),
    listDueLanes: readLong("listDueLanes"),
    makeLargePostback: (attempt) => makeLargePostback(onlyRef(attempt)),
    countScheduled: readLong("countScheduled"),
    listAllDeliveries: readLong("listAllDeliveries"),
    listAttempts: readLong("listAttempts", byAccount),
    countEndedDeliveries: readLong("countEndedDeliveries"),
    countEndedDeliveriesStep: (step) => countEndedDeliveriesStep({ ...step, examineMax }),
    // Its texts are long, and signing them would take the main thread as long again.
    findTimeline: readLong("findTimeline", byScope),

    findSuspendedWork: readLong("findSuspendedWork", byAccount),
    countWork: scoped(readLong("countWork"), reads.countWork),
    findOldestWaiting: scoped(readLong("findOldestWaiting"), reads.findOldestWaiting),
    findTraffic: async (query) => toSteps(await readTraffic(query)),
    listHostTraffic: readLong("listHostTraffic", byScope),
    listAccountOverviews: readLong("listAccountOverviews"),
    listAudit: readLong("listAudit"),
  } satisfies Partial<Store>;
}

// Rows of one read: so many take the main thread a third of a millisecond.
const SHORT_MAX = 100;

/** True for a page of ready tasks that takes a seek and few rows. */
function isShortRead({ search: { tag, type, ...others }, limit }: ReadyQuery): boolean {
  const isAny = Object.values(others).every((asked) => asked === null);
  return isAny && (tag === null || type === null) && limit <= SHORT_MAX;
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
