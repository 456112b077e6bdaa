import { performanceNow } from "../../domain/clock/timers.ts";
import { listByTurns } from "../common/list-turns.ts";
import type { ReadOwner } from "../common/read-turns.ts";
import type { Store } from "../store.ts";
import { TransactionTimes } from "./database-health.ts";
import type { ServerAccess } from "./server-access.ts";
import type { Writes } from "./writes.ts";

/** The limits of a page of a list. */
export interface ListLimits {
  /** How many tasks a page may look at; undefined takes the number of {@link Store.listTasks}. */
  readonly examineMax: number | undefined;
}

const WRITES = [
  "createAccount",
  "changeLimits",
  "createKey",
  "revokeKey",
  "touchKeys",
  "rotateSecret",
  "finishRotation",
  "setAccountDisabled",
  "insertAccessRequest",
  "approveAccessRequest",
  "denyAccessRequest",
  "denyAccessRequests",
  "createSession",
  "touchSessions",
  "endSession",
  "createSignInLink",
  "useSignInLink",
  "createWorker",
  "revokeWorker",
  "touchWorkers",
  "keepClockReading",
  "resumeClock",
  "shiftTimes",
  "hastenAttempts",
  "keepSecret",
  "noteAudit",
  "eraseExpired",
  "eraseStale",
  "insertTasks",
  "collectTask",
  "cancelTask",
  "cancelTasks",
  "eraseTask",
  "claimTasks",
  "finishTask",
  "retryTask",
  "requeueTasks",
  "releaseTask",
  "releaseDelayed",
  "claimLeases",
  "extendLeases",
  "endLeases",
  "resumeLeases",
  "markQueue",
  "expireQueued",
  "claimAttempts",
  "recordAttempt",
  "redeliver",
  "pauseDeliveries",
  "resumeDeliveries",
  "orderRedelivery",
  "cancelRedeliveryOrder",
  "stepRedeliveryOrder",
  "sampleQueues",
  "foldTraffic",
  "noteProgress",
] as const satisfies readonly (keyof Writes)[];

/** The writes of the store that are one operation of the same name. */
export function writeMethods({ write }: ServerAccess) {
  const methods = Object.fromEntries(WRITES.map((name) => [name, write(name)]));
  // Each has the name of its write.
  return methods as { readonly [Name in (typeof WRITES)[number]]: Store[Name] };
}

/** The methods of the store that take their turn or more than one step. */
export function otherMethods(access: ServerAccess, { examineMax }: ListLimits) {
  const { commit, reads, readLong, write } = access;
  const findLargeTask = readLong("findLargeTask", byAccount);
  const listTasks = readLong("listTasks", byScope);
  const listReady = readLong("listReady", byScope);
  const searchTasks = readLong("searchTasks", byScope);
  const countEndedDeliveriesStep = readLong(
    "countEndedDeliveriesStep",
    ({ filter }) => filter.login,
  );
  const times = new TransactionTimes(() => performanceNow());
  const eraseAccountPart = write("eraseAccountPart");
  const reclaimSpace = write("reclaimSpace");
  const tryWrite = write("tryWrite");
  return {
    async findTask(look) {
      const found = await reads.findTask(look);
      return found === "large" ? findLargeTask(look) : found;
    },
    findHeldWork: readLong("findHeldWork", byAccount),
    listTypeWork: readLong("listTypeWork"),
    listAudit: readLong("listAudit"),
    countScheduled: readLong("countScheduled"),
    findTaskDeliveries: readLong("findTaskDeliveries"),
    listAllDeliveries: readLong("listAllDeliveries"),
    listAttempts: readLong("listAttempts", byAccount),
    countEndedDeliveries: readLong("countEndedDeliveries"),
    countEndedDeliveriesStep: (step) => countEndedDeliveriesStep({ ...step, examineMax }),
    listTasks: (query) => listByTurns(query, listTasks, examineMax),
    listReady: (query) => listByTurns(query, listReady),
    searchTasks: (query) => listByTurns(query, searchTasks, examineMax),
    findTimeline: readLong("findTimeline", byScope),
    findTraffic: readLong("findTraffic", byScope),
    listHostTraffic: readLong("listHostTraffic", byScope),
    listAccountOverviews: readLong("listAccountOverviews"),
    findDatabaseHealth: () => reads.readDatabaseHealth(times),

    async eraseAccountPart(order) {
      const account = await reads.findAccount(order.login);
      if (account === null) return { kind: "unknown" };
      if (account.disabledAt === null) return { kind: "enabled" };
      await reads.batchesEnded();
      return eraseAccountPart(order);
    },

    reclaimSpace: () => reclaimSpace(undefined),
    tryWrite: () => tryWrite(undefined),
    fault: () => commit.fault,
    shortage: () => commit.shortage,
    // A server looks after its files itself.
    lookAtFile: () => {},
    async checkFile() {
      if (commit.fault !== null) throw commit.fault;
      return "done";
    },
  } satisfies Partial<Store>;
}

function byAccount({ accountId }: { readonly accountId: number }): ReadOwner {
  return accountId;
}

function byScope({ scope }: { readonly scope: number | null }): ReadOwner {
  return scope;
}
