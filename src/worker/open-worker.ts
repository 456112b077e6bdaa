import { createServiceClient } from "../deliver/service-client.ts";
import { Link, type LinkOptions } from "./link.ts";
import { Worker, type WorkerDeps } from "./worker.ts";

export type OpenWorkerOptions = Omit<WorkerDeps, "link"> & Pick<LinkOptions, "url" | "token">;

/** Makes a worker with connections of its own, which are closed when it has worked. */
export function openWorker(options: OpenWorkerOptions): Pick<Worker, "work" | "stop"> {
  // A heartbeat and a report may be under way beside the claims that wait.
  const client = createServiceClient({ socketsMax: options.pools.length + 3 });
  const worker = new Worker({ ...options, link: new Link({ ...options, client }) });
  return {
    work: () => worker.work().finally(() => client.close()),
    stop: (order) => worker.stop(order),
  };
}
