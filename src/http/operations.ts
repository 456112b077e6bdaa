import type { DevDesk } from "./dev-desk.ts";
import { openApi } from "./openapi/openapi.ts";
import type { OperationDeps } from "./operation-deps.ts";
import type { Operation } from "./operation.ts";
import {
  accessRequest,
  accessRequestApprove,
  accessRequestDeny,
  accessRequestList,
} from "./operations/access-requests.ts";
import { keyCreate, keyRevoke, userData } from "./operations/account.ts";
import { attemptList } from "./operations/attempts.ts";
import { deliveryList, redeliver } from "./operations/deliveries.ts";
import { devAccounts } from "./operations/dev-accounts.ts";
import { devClock } from "./operations/dev-clock.ts";
import { devFaults } from "./operations/dev-faults.ts";
import { devInbox } from "./operations/dev-inbox.ts";
import { devReset } from "./operations/dev-reset.ts";
import { devResults } from "./operations/dev-results.ts";
import { devSecrets } from "./operations/dev-secrets.ts";
import { devSignInLink } from "./operations/dev-session.ts";
import { devWait } from "./operations/dev-wait.ts";
import { devWebhooks } from "./operations/dev-webhooks.ts";
import { events } from "./operations/events.ts";
import { livez, readyz } from "./operations/health.ts";
import { metrics } from "./operations/metrics.ts";
import { accountChanges, accountCreate, accountList } from "./operations/operator-accounts.ts";
import { auditList } from "./operations/operator-audit.ts";
import { pauseCreate, pauseList, pauseEnd } from "./operations/operator-delivery-pauses.ts";
import { nodeList } from "./operations/operator-nodes.ts";
import { runnerList } from "./operations/operator-runners.ts";
import { systemShow } from "./operations/operator-system.ts";
import { redeliveries } from "./operations/redeliveries.ts";
import { marketplaces, serviceStatus, statusCodes, taskTypes } from "./operations/reference.ts";
import { sessionGet, signIn, signInByLink, signOut } from "./operations/session.ts";
import { statsHosts, statsOverview, statsSeries } from "./operations/stats.ts";
import { taskCancel, taskCancelMany } from "./operations/task-cancel.ts";
import { taskGet } from "./operations/task-get.ts";
import { taskList, tasksReady } from "./operations/task-lists.ts";
import { taskPost } from "./operations/task-post.ts";
import { taskSearch } from "./operations/task-search.ts";
import { timeline } from "./operations/timeline.ts";
import { workerClaim } from "./operations/worker-claim.ts";
import {
  workerComplete,
  workerFail,
  workerHeartbeat,
  workerRelease,
} from "./operations/worker-leases.ts";

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
