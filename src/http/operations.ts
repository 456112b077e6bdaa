import type { Store } from "../store/store.ts";
import { openApi } from "./openapi.ts";
import type { Operation } from "./operation.ts";
import { accessRequest, type AccessRequestDeps } from "./operations/access-requests.ts";
import { deliveryList, redeliver, type DeliveriesDeps } from "./operations/deliveries.ts";
import { livez, readyz } from "./operations/health.ts";
import { keyCreate, keyRevoke, type KeysDeps } from "./operations/keys.ts";
import {
  marketplaces,
  serviceStatus,
  statusCodes,
  type MarketplaceDocument,
} from "./operations/reference.ts";
import { taskCancel, type TaskCancelDeps } from "./operations/task-cancel.ts";
import { taskGet, type TaskGetDeps } from "./operations/task-get.ts";
import { taskList, type TaskListDeps } from "./operations/task-list.ts";
import { taskPost, type TaskPostDeps } from "./operations/task-post.ts";
import { tasksReady } from "./operations/tasks-ready.ts";
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
  KeysDeps &
  UserDataDeps &
  DeliveriesDeps &
  AccessRequestDeps &
  TaskListDeps &
  WorkerClaimDeps &
  WorkerLeasesDeps &
  WorkerResultsDeps & {
    readonly store: Pick<Store, "listReady">;
    readonly marketplaces: readonly MarketplaceDocument[];
    readonly serviceStatus: Parameters<typeof serviceStatus>[0];
    readonly notReadyReason: () => Promise<string | null>;
  };

/** The API on one screen: every operation there is. */
export function operations(deps: OperationsDeps): readonly Operation[] {
  const all = [
    taskPost(deps),
    taskGet(deps),
    tasksReady(deps),
    taskList(deps),
    taskCancel(deps),
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
    livez(),
    readyz(deps),
  ];
  return [...all, openApi(all)];
}
