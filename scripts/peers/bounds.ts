import { mkdtempSync } from "node:fs";
import { join } from "node:path";

import { BareHandler } from "../bench/bare-handler.ts";
import { DELIVERED_MS_MAX } from "../bench/delivery.ts";
import { sampleAnswer } from "../bench/phases.ts";
import { spendingOf } from "../kit/processes.ts";
import { benchInput, taskPostRequest } from "../kit/request.ts";
import { PeerProcess } from "./peer-process.ts";
import { RawInserts } from "./raw-inserts.ts";
import { cpuPerTask, type Slice } from "./slice.ts";
import { CONNECTIONS, TASKS_PER_REQUEST, type World } from "./world.ts";

// Until the connections are as busy as they get.
const WARM_UP_MS = 250;

/** Posts alone: parsed and answered by a bare h3 handler that keeps nothing. */
export async function bareHandler(world: World): Promise<() => Promise<Slice>> {
  const { place, key, generator, effort } = world;
  const handler = world.use(new BareHandler());
  const { program, folder } = place;
  const answer = await sampleAnswer({ program, folder }, TASKS_PER_REQUEST);
  const port = await handler.ask("serve", answer);
  const request = taskPostRequest({ key, tasks: TASKS_PER_REQUEST, type: "echo" });
  const until = { measuredMs: effort.seconds * 1000 };
  const order = { port, connections: CONNECTIONS, request, warmUpMs: WARM_UP_MS, until };
  return async () => {
    const spent = spendingOf(handler.pid);
    const { answers, answersInAll, seconds } = await generator.ask("run", order);
    const cpu = cpuPerTask(answersInAll * TASKS_PER_REQUEST, { server: () => spent().cpuSeconds });
    return { tasksPerSecond: (answers * TASKS_PER_REQUEST) / seconds, cpu };
  };
}

/** Inserts alone: so many rows a transaction, each with its fsync. */
export function rawInserts(rowsPerTransaction: number) {
  return async (world: World): Promise<() => Promise<Slice>> => {
    const inserts = world.use(new RawInserts());
    const folder = mkdtempSync(join(world.place.folder, "raw-"));
    const { seconds } = world.effort;
    const order = { file: join(folder, "raw.db"), seconds, rowsPerTransaction };
    return async () => {
      const spent = spendingOf(inserts.pid);
      const tasksPerSecond = await inserts.ask("run", order);
      const { cpuSeconds } = spent();
      const cpu = cpuPerTask(tasksPerSecond * seconds, { server: () => cpuSeconds });
      return { tasksPerSecond, cpu };
    };
  };
}

/** Webhooks alone: what undici signs and sends to the receiver, so many at a time. */
export function bareSender(concurrency: number) {
  return async (world: World): Promise<() => Promise<Slice>> => {
    const { secret, receiver, postbackUrl, effort } = world;
    const sender = world.use(new PeerProcess());
    await sender.ask("load", "webhooks.mjs");
    const task = { type: "echo", input: benchInput(), postback_url: postbackUrl };
    const { tasks } = effort;
    return async () => {
      const arrived = receiver.ask("expect", { tasks, secret, withinMs: DELIVERED_MS_MAX });
      const spent = spendingOf(sender.pid);
      await sender.ask("sendAll", { tasks, task, secret, concurrency });
      const { seconds, cpuSeconds } = spent();
      await arrived;
      return {
        tasksPerSecond: tasks / seconds,
        cpu: cpuPerTask(tasks, { worker: () => cpuSeconds }),
      };
    };
  };
}
