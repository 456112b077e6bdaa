import { randomBytes } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { dirname, join } from "node:path";

import { createDaemonFile, startDaemon, type DaemonPlace } from "../../kit/daemon.ts";
import { openOutsideView } from "../../kit/database.ts";
import { benchInput, taskPostRequest } from "../../kit/http.ts";
import { LoadGenerator } from "../../kit/load.ts";
import { newDatabases, startBenchServer } from "../../kit/postgres-server.ts";
import { familySpendingOf, spendingOf } from "../../kit/processes.ts";
import { BareHandler } from "../bare-handler.ts";
import { sampleAnswer } from "../phases.ts";
import { BenchReceiver, deliverAll, DELIVERED_MS_MAX } from "../receiver.ts";
import { PeerProcess, RedisServer, type PeerSettings, type RedisSync } from "./process.ts";

/** How much to measure at a time. */
export interface Effort {
  /** Of the whole way to the webhook. */
  readonly tasks: number;
  /** Of posts or inserts alone. */
  readonly seconds: number;
}

/** The posts of every row. */
export const CONNECTIONS = 16;
export const TASKS_PER_REQUEST = 10;
// Until the connections are as busy as they get.
const WARM_UP_MS = 250;

/** One measurement of a row. */
export interface Slice {
  readonly tasksPerSecond: number;
  /** Processor time in µs per task, of each part that the row has. */
  readonly cpu: Readonly<Partial<Record<Part, number>>>;
}

/** The process that serves HTTP; a worker of its own; Redis or PostgreSQL. */
export type Part = "server" | "worker" | "database";

/** Starts what it measures; each call of the result is one measurement. */
export type Open = (world: PeerWorld) => Promise<() => Promise<Slice>>;

/** What the rows of a run share. */
export class PeerWorld implements AsyncDisposable {
  readonly place: DaemonPlace;
  readonly effort: Effort;
  readonly receiver: BenchReceiver;
  readonly generator: LoadGenerator;
  /** Of every peer. */
  readonly key = randomBytes(24).toString("hex");
  readonly secret = randomBytes(24).toString("hex");
  postbackUrl = "";
  readonly #stack = new AsyncDisposableStack();
  #postgres: ReturnType<PeerWorld["postgres"]> | null = null;

  private constructor(place: DaemonPlace, effort: Effort) {
    this.place = place;
    this.effort = effort;
    this.receiver = this.use(new BenchReceiver());
    this.generator = this.use(new LoadGenerator());
  }

  static async open(place: DaemonPlace, effort: Effort): Promise<PeerWorld> {
    const world = new PeerWorld(place, effort);
    world.postbackUrl = `http://127.0.0.1:${await world.receiver.ask("open")}/postback`;
    return world;
  }

  /** Disposes of it at the end. */
  use<One extends Disposable | AsyncDisposable>(one: One): One {
    return this.#stack.use(one);
  }

  /** A new folder for a row. */
  folder(name: string): string {
    return mkdtempSync(join(this.place.folder, `${name}-`));
  }

  /** The one PostgreSQL server of all rows. */
  postgres(): Promise<Required<Pick<DaemonPlace, "newDatabase">> & { readonly pid: number }> {
    this.#postgres ??= startBenchServer(this.#parent).then((server) => {
      const { pid } = this.use(server);
      return { pid, ...newDatabases(server) };
    });
    return this.#postgres;
  }

  async redis(sync: RedisSync): Promise<RedisServer> {
    return this.use(await RedisServer.start(this.#parent, sync));
  }

  // A server's own user cannot enter the folder of the command.
  get #parent(): string {
    return dirname(this.place.folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** postbackd on a file or on PostgreSQL, with so many webhooks to one host at a time. */
export function ownRow(engine: "file" | "server", atATime: number): Open {
  return async (world) => {
    const { program, folder } = world.place;
    if (engine === "file")
      return (await openDaemon(world, { place: { program, folder }, atATime })).measure;
    const { pid, newDatabase } = await world.postgres();
    const place = { program, folder, newDatabase };
    return (await openDaemon(world, { place, atATime, databasePid: pid })).measure;
  };
}

/** Starts a daemon. A measurement ends when its database has the last attempt as ended. */
export async function openDaemon(
  world: PeerWorld,
  plan: { readonly place: DaemonPlace; readonly atATime: number; readonly databasePid?: number },
) {
  const more = `\n[webhooks]\nmax_in_flight_per_host = ${plan.atATime}\n`;
  const file = await createDaemonFile(plan.place, { more });
  const { key, webhookSecret: secret } = file.account;
  const { port, pid } = world.use(await startDaemon(file));
  const view = world.use(await openOutsideView(file.database));
  const load = { ...wholeWay(world, key), port, secret };
  const measure = async (): Promise<Slice> => {
    const spent = spendingOf(pid);
    const database = plan.databasePid === undefined ? null : familySpendingOf(plan.databasePid);
    const { tasks } = await deliverAll(load);
    await view.quiet(DELIVERED_MS_MAX);
    const { seconds, cpuSeconds } = spent();
    if ((await view.countUndelivered()) > 0) throw new Error("not every delivery is recorded");
    return slice(tasks, seconds, {
      server: cpuSeconds,
      ...(database && { database: database() }),
    });
  };
  return { pid, measure };
}

/** How a peer is run. */
export interface Way extends Pick<PeerSettings, "concurrency" | "batch"> {
  /** The API and the worker in one process, or one each. */
  readonly processes: 1 | 2;
}

/** Makes the place of a peer's jobs; `pid` is of the server that keeps them. */
export type Service = (
  world: PeerWorld,
) => Promise<{ readonly address: string; readonly pid?: number }>;

/** A peer: a file of `programs/`. A measurement ends when the last webhook has arrived. */
export function peerRow(
  { program, service }: { readonly program: string; readonly service: Service },
  { processes, concurrency, batch }: Way,
): Open {
  return async (world) => {
    const { address, pid } = await service(world);
    const { key, secret } = world;
    const settings = { service: address, key, secret, concurrency, batch };
    const api = world.use(new PeerProcess());
    await api.ask("load", program);
    const port = await api.ask("serve", settings);
    const worker = processes === 1 ? api : world.use(new PeerProcess());
    if (worker !== api) await worker.ask("load", program);
    const load = { ...wholeWay(world, key), port, secret };
    return async () => {
      await worker.ask("work", settings);
      const server = familySpendingOf(api.pid);
      const apart = worker === api ? null : familySpendingOf(worker.pid);
      const database = pid === undefined ? null : familySpendingOf(pid);
      const startedAt = performance.now();
      const { tasks } = await deliverAll(load);
      const seconds = (performance.now() - startedAt) / 1000;
      // The next measurement begins when the jobs are done.
      await worker.ask("settle");
      return slice(tasks, seconds, {
        server: server(),
        ...(apart && { worker: apart() }),
        ...(database && { database: database() }),
      });
    };
  };
}

/** Posts alone: parsed and answered by a bare h3 handler. */
export const bareHandler: Open = async (world) => {
  const { key, generator, effort } = world;
  const { program, folder } = world.place;
  const handler = world.use(new BareHandler());
  const answer = await sampleAnswer({ program, folder }, TASKS_PER_REQUEST);
  const port = await handler.ask("serve", answer);
  const request = taskPostRequest({ key, tasks: TASKS_PER_REQUEST, type: "echo" });
  const until = { measuredMs: effort.seconds * 1000 };
  const order = { port, connections: CONNECTIONS, request, warmUpMs: WARM_UP_MS, until };
  return async () => {
    const spent = spendingOf(handler.pid);
    const { count, countInAll, seconds } = await generator.ask("run", order);
    const server = (spent().cpuSeconds * count) / countInAll;
    return slice(count * TASKS_PER_REQUEST, seconds, { server });
  };
};

/** Inserts alone: so many rows in a transaction, each with its fsync. */
export function rawInserts(rowsPerTransaction: number): Open {
  return async (world) => {
    const inserts = world.use(new PeerProcess());
    await inserts.ask("load", "inserts.mjs");
    const { seconds } = world.effort;
    const input = JSON.stringify(benchInput());
    const order = { file: join(world.folder("raw"), "raw.db"), seconds, rowsPerTransaction, input };
    return async () => {
      const spent = spendingOf(inserts.pid);
      const rate = await inserts.ask("insert", order);
      return slice(rate * seconds, seconds, { server: spent().cpuSeconds });
    };
  };
}

/** Webhooks alone: undici signs and sends them to the receiver. */
export function bareSender(concurrency: number): Open {
  return async (world) => {
    const { secret, receiver, postbackUrl } = world;
    const { tasks } = world.effort;
    const sender = world.use(new PeerProcess());
    await sender.ask("load", "webhooks.mjs");
    const task = { type: "echo", input: benchInput(), postback_url: postbackUrl };
    return async () => {
      const arrived = receiver.ask("expect", { tasks, secret, withinMs: DELIVERED_MS_MAX });
      const spent = spendingOf(sender.pid);
      await sender.ask("sendAll", { tasks, task, secret, concurrency });
      const { seconds, cpuSeconds } = spent();
      await arrived;
      return slice(tasks, seconds, { worker: cpuSeconds });
    };
  };
}

function wholeWay({ postbackUrl, generator, receiver, effort }: PeerWorld, key: string) {
  const task = { key, tasks: TASKS_PER_REQUEST, type: "echo", postbackUrl };
  return {
    connections: CONNECTIONS,
    tasksPerRequest: TASKS_PER_REQUEST,
    request: taskPostRequest(task),
    tasks: effort.tasks,
    generator,
    receiver,
  };
}

function slice(
  tasks: number,
  seconds: number,
  cpuSeconds: Readonly<Partial<Record<Part, number>>>,
): Slice {
  const cpu = Object.entries(cpuSeconds).map(([part, spent]) => [part, (spent * 1e6) / tasks]);
  return { tasksPerSecond: tasks / seconds, cpu: Object.fromEntries(cpu) };
}
