import { deliverAll } from "../bench/delivery.ts";
import { familySpendingOf } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import { PeerProcess, type PeerSettings } from "./peer-process.ts";
import { cpuPerTask, type Slice } from "./slice.ts";
import { CONNECTIONS, TASKS_PER_REQUEST, type World } from "./world.ts";

/** How a peer is run. */
export interface Way extends Pick<PeerSettings, "concurrency" | "batch"> {
  /** The API and the worker in one process, or one each. */
  readonly processes: 1 | 2;
}

/** A peer: its program, and what keeps its jobs. */
export interface PeerPlan {
  /** A file of `programs/`. */
  readonly program: string;
  /** Makes the place of its jobs; `pid` is of the server that keeps them, where there is one. */
  readonly service: (world: World) => Promise<{ readonly address: string; readonly pid?: number }>;
}

/** Starts a peer. Its run ends when the last webhook has arrived; the next begins when its jobs are done. */
export async function openPeer(
  world: World,
  { program, service }: PeerPlan,
  { processes, concurrency, batch }: Way,
): Promise<() => Promise<Slice>> {
  const { address, pid } = await service(world);
  const { key, secret, postbackUrl, generator, receiver, effort } = world;
  const settings = { service: address, key, secret, concurrency, batch };
  const api = world.use(new PeerProcess());
  await api.ask("load", program);
  const port = await api.ask("serve", settings);
  const worker = processes === 1 ? api : world.use(new PeerProcess());
  if (worker !== api) await worker.ask("load", program);
  const task = { key, tasks: TASKS_PER_REQUEST, type: "echo", postbackUrl };
  const how = { connections: CONNECTIONS, tasksPerRequest: TASKS_PER_REQUEST };
  const load = { port, ...how, request: taskPostRequest(task), tasks: effort.tasks, secret };
  return async () => {
    await worker.ask("work", settings);
    const spent = {
      server: familySpendingOf(api.pid),
      ...(worker !== api && { worker: familySpendingOf(worker.pid) }),
      ...(pid !== undefined && { database: familySpendingOf(pid) }),
    };
    const startedAt = performance.now();
    const { tasks } = await deliverAll({ ...load, generator, receiver });
    const seconds = (performance.now() - startedAt) / 1000;
    await worker.ask("settle");
    return { tasksPerSecond: tasks / seconds, cpu: cpuPerTask(tasks, spent) };
  };
}
