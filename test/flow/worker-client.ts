import type { TestContext } from "node:test";

import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from "../helpers/daemon.ts";
import {
  claim,
  createTestWorker,
  outcomesOf,
  type ClaimedTask,
  type WorkerOperation,
} from "../http/worker-requests.ts";

/** The requests of one worker. */
export interface WorkerClient {
  readonly token: string;
  /** Claims without waiting. */
  claim(body?: object): Promise<readonly ClaimedTask[]>;
  /** Claims exactly one task. */
  claimOne(body?: object): Promise<ClaimedTask>;
  heartbeat(task: ClaimedTask, more?: object): Promise<string>;
  complete(task: ClaimedTask, result?: unknown): Promise<string>;
  fail(task: ClaimedTask, more?: object): Promise<string>;
  release(task: ClaimedTask): Promise<string>;
}

/** Starts a daemon with a worker for tasks of type `print`, or with the worker of an earlier daemon. */
export async function startWithWorker(
  t: TestContext,
  options: TestDaemonOptions & { readonly worker?: WorkerClient } = {},
): Promise<{ readonly daemon: TestDaemon; readonly worker: WorkerClient }> {
  const daemon = await startTestDaemon(t, options);
  const token = options.worker?.token ?? (await createTestWorker(daemon.file, ["print", "scan"]));
  return { daemon, worker: workerClient({ url: daemon.url, token }) };
}

/** The requests of the worker of a token. */
export function workerClient(called: {
  readonly url: string;
  readonly token: string;
}): WorkerClient {
  async function tell(operation: WorkerOperation, body: object): Promise<string> {
    const [told, ...others] = await outcomesOf(called, operation, body);
    if (told === undefined || others.length > 0) throw new Error("not one outcome for one lease");
    return told.outcome;
  }

  function claimTasks(body: object = {}): Promise<readonly ClaimedTask[]> {
    return claim(called, { types: ["print"], max: 1, ...body });
  }

  return {
    token: called.token,
    claim: claimTasks,
    async claimOne(body) {
      const [task, ...others] = await claimTasks(body);
      if (task === undefined || others.length > 0) throw new Error("not one task was claimed");
      return task;
    },
    heartbeat: (task, more = {}) => tell("heartbeat", { leases: [ref(task)], ...more }),
    complete: (task, result = 1) => tell("complete", { tasks: [{ ...ref(task), result }] }),
    fail: (task, more = {}) =>
      tell("fail", { tasks: [{ ...ref(task), message: "out of paper", ...more }] }),
    release: (task) => tell("release", { tasks: [ref(task)] }),
  };
}

function ref({ id, lease_id }: ClaimedTask): Pick<ClaimedTask, "id" | "lease_id"> {
  return { id, lease_id };
}
