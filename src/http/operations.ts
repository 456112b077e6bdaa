import type { DevDesk } from "./dev-desk.ts";
import { openApi } from "./openapi/document.ts";
import type { OperationDeps } from "./operation-deps.ts";
import type { Operation } from "./operation.ts";
import {
  accessRequest,
  accessRequestApprove,
  accessRequestDeny,
  accessRequestList,
  keyCreate,
  keyRevoke,
  userData,
} from "./operations/account.ts";
import { accountChanges, accountCreate, accountList } from "./operations/accounts.ts";
import { attemptList, deliveryList, redeliver, redeliveries } from "./operations/deliveries.ts";
import {
  devAccounts,
  devReset,
  devSecrets,
  devSignInLink,
  devWebhooks,
} from "./operations/dev-accounts.ts";
import { devClock, devWait } from "./operations/dev-clock.ts";
import { devInbox } from "./operations/dev-inbox.ts";
import { devFaults, devResults } from "./operations/dev-results.ts";
import {
  auditList,
  nodeList,
  pauseCreate,
  pauseEnd,
  pauseList,
  runnerList,
  systemShow,
} from "./operations/operator.ts";
import {
  events,
  livez,
  marketplaces,
  metrics,
  readyz,
  serviceStatus,
  statusCodes,
  taskTypes,
} from "./operations/service.ts";
import { sessionGet, signIn, signInByLink, signOut } from "./operations/session.ts";
import { statsHosts, statsOverview, statsSeries } from "./operations/stats.ts";
import { taskPost } from "./operations/task-post.ts";
import { taskSearch, timeline } from "./operations/task-search.ts";
import { taskCancel, taskCancelMany, taskGet, taskList, tasksReady } from "./operations/tasks.ts";
import {
  workerClaim,
  workerComplete,
  workerFail,
  workerHeartbeat,
  workerRelease,
} from "./operations/workers.ts";

/** The API on one screen: all operations. What each does, takes and answers stands in its `doc`. */
export function operations(deps: OperationDeps): readonly Operation[] {
  const all = [
    taskPost(deps),
    taskGet(deps),
    tasksReady(deps),
    taskList(deps),
    taskCancel(deps),
    taskCancelMany(deps),
    deliveryList(deps),
    attemptList(deps),
    redeliver(deps),
    keyCreate(deps),
    keyRevoke(deps),
    userData(deps),
    marketplaces(deps),
    taskTypes(deps),
    serviceStatus(deps),
    statusCodes(),
    accessRequest(deps),
    workerClaim(deps),
    workerHeartbeat(deps),
    workerComplete(deps),
    workerFail(deps),
    workerRelease(deps),
    statsOverview(deps),
    statsSeries(deps),
    statsHosts(deps),
    taskSearch(deps),
    timeline(deps),
    ...redeliveries(deps),
    events(deps),
    accountList(deps),
    accountCreate(deps),
    ...accountChanges(deps),
    accessRequestList(deps),
    accessRequestApprove(deps),
    accessRequestDeny(deps),
    runnerList(deps),
    nodeList(deps),
    pauseList(deps),
    pauseCreate(deps),
    pauseEnd(deps),
    auditList(deps),
    systemShow(deps),
    metrics(deps),
    signIn(deps),
    signInByLink(deps),
    sessionGet(deps),
    signOut(deps),
    livez(),
    readyz(deps),
    ...(deps.dev === null ? [] : forDevelopment(deps, deps.dev)),
  ];
  const served = deps.servesDashboard ? all : all.filter(isWithoutDashboard);
  return [...served, openApi(served)];
}

function forDevelopment(deps: OperationDeps, dev: DevDesk): readonly Operation[] {
  return [
    ...devClock(dev),
    ...devInbox(dev),
    devAccounts(deps, dev),
    devWebhooks(dev),
    devWait(deps, dev),
    ...devResults(deps, dev),
    ...devFaults(dev),
    ...devSecrets(deps),
    devReset(dev),
    devSignInLink(dev),
  ];
}

function isWithoutDashboard({ access, isDashboard }: Operation): boolean {
  return access !== "operator" && isDashboard !== true;
}
