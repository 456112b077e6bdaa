import { performanceNow } from "../../domain/clock/timers.ts";
import { type ListLimits, listByTurns } from "../common/list.ts";
import { byAccount, byScope } from "../common/read-turns.ts";
import { toSteps } from "../sql/traffic.ts";
import { WRITES, type WriteName } from "../sql/writes.ts";
import type { Store } from "../store.ts";
import { TransactionTimes } from "./database-health.ts";
import type { ServerAccess } from "./server-access.ts";

/** The writes of the store, each one operation of its name. */
export function writeMethods({ write }: ServerAccess) {
  const methods = Object.keys(WRITES).map((name) => [name, write(name as WriteName)]);
  // Each has the name of its write.
  return Object.fromEntries(methods) as { readonly [Name in WriteName]: Store[Name] };
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
  const readTraffic = readLong("readTraffic", byScope);
  const times = new TransactionTimes(() => performanceNow());
  const eraseAccountPart = write("eraseAccountPart");
  return {
    async findTask(look) {
      const found = await reads.findTask(look);
      return found === "large" ? findLargeTask(look) : found;
    },
    findSuspendedWork: readLong("findSuspendedWork", byAccount),
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
    findTraffic: async (query) => toSteps(await readTraffic(query)),
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
