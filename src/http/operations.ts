import { openApi } from "./openapi/openapi.ts";
import type { Operation } from "./operation.ts";
import { accessRequest, type AccessRequestDeps } from "./operations/access-requests.ts";
import { deliveryList, redeliver, type DeliveriesDeps } from "./operations/deliveries.ts";
import { events, type EventsDeps } from "./operations/events.ts";
import { livez, readyz } from "./operations/health.ts";
import { keyCreate, keyRevoke, type KeysDeps } from "./operations/keys.ts";
import {
  accessRequestApprove,
  accessRequestDeny,
  accessRequestList,
  type OperatorAccessRequestsDeps,
} from "./operations/operator-access-requests.ts";
import {
  accountChanges,
  type OperatorAccountChangesDeps,
} from "./operations/operator-account-changes.ts";
import {
  accountCreate,
  accountList,
  type OperatorAccountsDeps,
} from "./operations/operator-accounts.ts";
import { runnerList, type OperatorRunnersDeps } from "./operations/operator-runners.ts";
import { systemShow, type OperatorSystemDeps } from "./operations/operator-system.ts";
import { redeliveries, type RedeliveriesDeps } from "./operations/redeliveries.ts";
import {
  marketplaces,
  serviceStatus,
  statusCodes,
  type MarketplaceDocument,
} from "./operations/reference.ts";
import {
  sessionGet,
  signIn,
  signInByLink,
  signOut,
  type SessionDeps,
} from "./operations/session.ts";
import { statsHosts, type StatsHostsDeps } from "./operations/stats-hosts.ts";
import { statsOverview, type StatsOverviewDeps } from "./operations/stats-overview.ts";
import { statsSeries, type StatsSeriesDeps } from "./operations/stats-series.ts";
import { taskCancelMany, type TaskCancelManyDeps } from "./operations/task-cancel-many.ts";
import { taskCancel, type TaskCancelDeps } from "./operations/task-cancel.ts";
import { taskGet, type TaskGetDeps } from "./operations/task-get.ts";
import { taskList, type TaskListDeps } from "./operations/task-list.ts";
import { taskPost, type TaskPostDeps } from "./operations/task-post.ts";
import { taskSearch, type TaskSearchDeps } from "./operations/task-search.ts";
import { tasksReady, type TasksReadyDeps } from "./operations/tasks-ready.ts";
import { timeline, type TimelineDeps } from "./operations/timeline.ts";
import { userData, type UserDataDeps } from "./operations/user-data.ts";
import { workerClaim, type WorkerClaimDeps } from "./operations/worker-claim.ts";
import {
  workerHeartbeat,
  workerRelease,
  type WorkerLeasesDeps,
} from "./operations/worker-leases.ts";
import { workerComplete, workerFail, type WorkerResultsDeps } from "./operations/worker-results.ts";

export type OperationsDeps = TaskPostDeps &
  TaskGetDeps &
  TaskCancelDeps &
  TaskCancelManyDeps &
  KeysDeps &
  UserDataDeps &
  DeliveriesDeps &
  AccessRequestDeps &
  TaskListDeps &
  TasksReadyDeps &
  WorkerClaimDeps &
  WorkerLeasesDeps &
  WorkerResultsDeps &
  SessionDeps &
  StatsOverviewDeps &
  StatsSeriesDeps &
  StatsHostsDeps &
  TaskSearchDeps &
  TimelineDeps &
  RedeliveriesDeps &
  EventsDeps &
  OperatorDeps & {
    /** Without the dashboard there are no sessions, and nothing that needs one. */
    readonly servesDashboard: boolean;
    readonly marketplaces: readonly MarketplaceDocument[];
    readonly serviceStatus: Parameters<typeof serviceStatus>[0];
    readonly notReadyReason: () => Promise<string | null>;
  };

/** The dependencies of the operator's operations. */
export type OperatorDeps = OperatorAccountsDeps &
  OperatorAccountChangesDeps &
  OperatorAccessRequestsDeps &
  OperatorRunnersDeps &
  OperatorSystemDeps;

/** The API on one screen: all operations. */
export function operations(deps: OperationsDeps): readonly Operation[] {
  const all = [
    taskPost(deps),
    taskGet(deps),
    tasksReady(deps),
    taskList(deps),
    taskCancel(deps),
    taskCancelMany(deps),
    deliveryList(deps),
    redeliver(deps),
    keyCreate(deps),
    keyRevoke(deps),
    userData(deps),
    marketplaces(deps.marketplaces),
    serviceStatus(deps.serviceStatus),
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
    ...operatorOperations(deps),
    signIn(deps),
    signInByLink(deps),
    sessionGet(deps),
    signOut(deps),
    livez(),
    readyz(deps),
  ];
  const served = deps.servesDashboard ? all : all.filter(isWithoutDashboard);
  return [...served, openApi(served)];
}

function isWithoutDashboard({ access, isDashboard }: Operation): boolean {
  return access !== "operator" && isDashboard !== true;
}

/** The operations that only the operator's sessions may call. */
function operatorOperations(deps: OperatorDeps): readonly Operation[] {
  return [
    accountList(deps),
    accountCreate(deps),
    ...accountChanges(deps),
    accessRequestList(deps),
    accessRequestApprove(deps),
    accessRequestDeny(deps),
    runnerList(deps),
    systemShow(deps),
  ];
}
