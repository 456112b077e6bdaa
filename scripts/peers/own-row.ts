import { deliverAll, DELIVERED_MS_MAX } from "../bench/delivery.ts";
import { createDaemonFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import { openOutsideView } from "../kit/outside-view.ts";
import { familySpendingOf, spendingOf } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import { cpuPerTask, type Slice } from "./slice.ts";
import { CONNECTIONS, TASKS_PER_REQUEST, type World } from "./world.ts";

/** postbackd on a file, with so many webhooks to one host at a time. */
export function onFile(atATime: number) {
  return async (world: World): Promise<() => Promise<Slice>> => {
    const { program, folder } = world.place;
    const { measure } = await openDaemon(world, { place: { program, folder }, atATime });
    return measure;
  };
}

/** postbackd on PostgreSQL, with so many webhooks to one host at a time. */
export function onServer(atATime: number) {
  return async (world: World): Promise<() => Promise<Slice>> => {
    const { program, folder } = world.place;
    const { pid, newDatabase } = await world.postgres();
    const place = { program, folder, newDatabase };
    const { measure } = await openDaemon(world, { place, atATime, databasePid: pid });
    return measure;
  };
}

interface OwnPlan {
  readonly place: DaemonPlace;
  readonly atATime: number;
  readonly databasePid?: number;
}

/** A daemon that has been started for it. */
interface OpenDaemon {
  readonly pid: number;
  readonly measure: () => Promise<Slice>;
}

/**
 * Starts a daemon. Its measurement ends when the record of the last attempt is in its database, as that says to whoever
 * looks from outside.
 */
export async function openDaemon(
  world: World,
  { place, atATime, databasePid }: OwnPlan,
): Promise<OpenDaemon> {
  const more = `\n[webhooks]\nmax_in_flight_per_host = ${atATime}\n`;
  const file = await createDaemonFile(place, { more });
  const { key, webhookSecret: secret } = file.account;
  const daemon = world.use(await startDaemon(file));
  const view = world.use(await openOutsideView(file.database));
  const { postbackUrl, receiver, generator, effort } = world;
  const task = { key, tasks: TASKS_PER_REQUEST, type: "echo", postbackUrl };
  const how = { connections: CONNECTIONS, tasksPerRequest: TASKS_PER_REQUEST };
  const request = taskPostRequest(task);
  const measure = async (): Promise<Slice> => {
    const [spent, database] = [
      spendingOf(daemon.pid),
      databasePid && familySpendingOf(databasePid),
    ];
    const load = { port: daemon.port, ...how, request, tasks: effort.tasks, secret };
    const { tasks } = await deliverAll({ ...load, generator, receiver });
    await view.quiet({ msMax: DELIVERED_MS_MAX });
    const { seconds, cpuSeconds } = spent();
    const cpu = cpuPerTask(tasks, {
      server: () => cpuSeconds,
      ...(database && { database }),
    });
    if ((await view.countUndelivered()) > 0) throw new Error("not every delivery is recorded");
    return { tasksPerSecond: tasks / seconds, cpu };
  };
  return { pid: daemon.pid, measure };
}
