import { openApi } from "./openapi/document.ts";
import type { OperationDeps } from "./operation-deps.ts";
import type { Operation } from "./operation.ts";
import * as account from "./operations/account.ts";
import * as accounts from "./operations/accounts.ts";
import * as deliveries from "./operations/deliveries.ts";
import * as operator from "./operations/operator.ts";
import * as service from "./operations/service.ts";
import * as session from "./operations/session.ts";
import * as stats from "./operations/stats.ts";
import { taskPost } from "./operations/task-post.ts";
import { taskSearch, timeline } from "./operations/task-search.ts";
import * as tasks from "./operations/tasks.ts";
import * as workers from "./operations/workers.ts";

/** The API on one screen: all operations. Each declares in its file what it does, takes and returns. */
export function operations(deps: OperationDeps): readonly Operation[] {
  const all = [
    taskPost(deps),
    tasks.taskGet(deps),
    tasks.tasksReady(deps),
    tasks.taskList(deps),
    tasks.taskCancel(deps),
    tasks.taskCancelMany(deps),
    deliveries.deliveryList(deps),
    deliveries.attemptList(deps),
    deliveries.redeliver(deps),
    account.keyCreate(deps),
    account.keyRevoke(deps),
    account.userData(deps),
    service.marketplaces(deps),
    service.taskTypes(deps),
    service.serviceStatus(deps),
    service.statusCodes(),
    account.accessRequest(deps),
    workers.workerClaim(deps),
    workers.workerHeartbeat(deps),
    workers.workerComplete(deps),
    workers.workerFail(deps),
    workers.workerRelease(deps),
    stats.statsOverview(deps),
    stats.statsSeries(deps),
    stats.statsHosts(deps),
    taskSearch(deps),
    timeline(deps),
    ...deliveries.redeliveries(deps),
    service.events(deps),
    accounts.accountList(deps),
    accounts.accountCreate(deps),
    ...accounts.accountChanges(deps),
    account.accessRequestList(deps),
    account.accessRequestApprove(deps),
    account.accessRequestDeny(deps),
    operator.runnerList(deps),
    operator.nodeList(deps),
    operator.pauseList(deps),
    operator.pauseCreate(deps),
    operator.pauseEnd(deps),
    operator.auditList(deps),
    operator.systemShow(deps),
    service.metrics(deps),
    session.signIn(deps),
    session.signInByLink(deps),
    session.sessionGet(deps),
    session.signOut(deps),
    service.livez(),
    service.readyz(deps),
    ...(deps.dev?.(deps) ?? []),
  ];
  const served = deps.servesDashboard ? all : all.filter(isWithoutDashboard);
  return [...served, openApi(served)];
}

function isWithoutDashboard({ access, isDashboard }: Operation): boolean {
  return access !== "operator" && isDashboard !== true;
}
