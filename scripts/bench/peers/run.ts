import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

import { createDaemonFile, startDaemon, type DaemonPlace } from "../../kit/daemon.ts";
import { openOutsideView } from "../../kit/database.ts";
import { helperProcess } from "../../kit/helper-process.ts";
import { taskPostRequest } from "../../kit/http.ts";
import { LoadGenerator } from "../../kit/load.ts";
import { NpmPackages } from "../../kit/npm-packages.ts";
import { newDatabases, startBenchServer } from "../../kit/postgres-server.ts";
import { familySpendingOf, spendingOf } from "../../kit/processes.ts";
import { cleanAtExit, ScratchFolder } from "../../kit/scratch.ts";
import { until } from "../../kit/until.ts";
import { BenchReceiver, deliverAll, DELIVERED_MS_MAX } from "../receiver.ts";

export const CONNECTIONS = 16;
export const TASKS_PER_REQUEST = 10;

export interface Slice {
  readonly tasksPerSecond: number;
  /** Processor time in µs per task, of each part that the row has. */
  readonly cpu: Readonly<Partial<Record<Part, number>>>;
}

/** The process that serves HTTP; a worker of its own; Redis or PostgreSQL. */
type Part = "server" | "worker" | "database";

/** Starts what it measures; each call of the result is one measurement. */
export type Open = (world: PeerWorld) => Promise<() => Promise<Slice>>;

/** When Redis has its log on disk: before it responds, or once per second. */
export type RedisSync = "always" | "everysec";

const REDIS_MS_MAX = 10_000;

/** The common parts of a run's rows. */
export class PeerWorld implements AsyncDisposable {
  readonly place: DaemonPlace;
  readonly tasks: number;
  readonly receiver: BenchReceiver;
  readonly generator: LoadGenerator;
  /** Of every peer. */
  readonly key = randomBytes(24).toString("hex");
  readonly secret = randomBytes(24).toString("hex");
  postbackUrl = "";
  readonly #stack = new AsyncDisposableStack();
  #postgres: ReturnType<PeerWorld["postgres"]> | null = null;

  private constructor(place: DaemonPlace, tasks: number) {
    this.place = place;
    this.tasks = tasks;
    this.receiver = this.use(new BenchReceiver());
    this.generator = this.use(new LoadGenerator());
  }

  static async open(place: DaemonPlace, tasks: number): Promise<PeerWorld> {
    const world = new PeerWorld(place, tasks);
    world.postbackUrl = `http://127.0.0.1:${await world.receiver.ask("open")}/postback`;
    return world;
  }

  /** Disposes of it at the end. */
  use<One extends Disposable | AsyncDisposable>(one: One): One {
    return this.#stack.use(one);
  }

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

  /** Starts an empty Redis with an append-only file, on a unix socket alone. */
  async redis(sync: RedisSync): Promise<{ readonly address: string; readonly pid: number }> {
    const { path } = this.use(new ScratchFolder(this.#parent));
    const [address, log] = [join(path, "redis.sock"), join(path, "log")];
    const where = ["--port", "0", "--unixsocket", address, "--dir", path, "--logfile", log];
    // No snapshots: the append-only file is measured.
    const how = ["--appendonly", "yes", "--appendfsync", sync, "--save", ""];
    const child = spawn("redis-server", [...where, ...how], { stdio: "ignore" });
    this.#stack.defer(cleanAtExit(() => void child.kill("SIGKILL")));
    const fault = (): string => `Redis does not listen: ${readFileSync(log, "utf8")}`;
    await until(() => existsSync(address), { msMax: REDIS_MS_MAX, fault });
    return { address, pid: child.pid ?? 0 };
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

export interface Way {
  /** The API and the worker in one process, or one each. */
  readonly processes: 1 | 2;
  /** Webhooks under way at a time. */
  readonly concurrency: number;
  /** Jobs that are fetched at a time, by peers that can. */
  readonly batch: number;
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
    const settings = { program, service: address, key, secret, concurrency, batch };
    const api = world.use(new PeerProcess());
    const port = await api.ask("serve", settings);
    const worker = processes === 1 ? api : world.use(new PeerProcess());
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

function wholeWay({ postbackUrl, generator, receiver, tasks }: PeerWorld, key: string) {
  const request = taskPostRequest({ key, tasks: TASKS_PER_REQUEST, type: "echo", postbackUrl });
  const posts = { connections: CONNECTIONS, tasksPerRequest: TASKS_PER_REQUEST, request };
  return { ...posts, tasks, generator, receiver };
}

function slice(
  tasks: number,
  seconds: number,
  cpuSeconds: Readonly<Partial<Record<Part, number>>>,
): Slice {
  const cpu = Object.entries(cpuSeconds).map(([part, spent]) => [part, (spent * 1e6) / tasks]);
  return { tasksPerSecond: tasks / seconds, cpu: Object.fromEntries(cpu) };
}

const PACKAGES = new NpmPackages(import.meta.dirname, { before: "2026-11-28" });

/** Makes npm install what the programs import, unless it is there, and copies the programs next to it. */
export function installPeers(note: (news: string) => void): void {
  if (!PACKAGES.isInstalled) note("npm installs the peers, once");
  PACKAGES.install();
  const programs = join(PACKAGES.folder, "programs");
  cpSync(join(import.meta.dirname, "programs"), programs, { recursive: true });
}

interface PeerSettings extends Omit<Way, "processes"> {
  /** A file of `programs/`. */
  readonly program: string;
  /** The place of its jobs: a socket of Redis, the URL of a PostgreSQL database, or a file. */
  readonly service: string;
  /** The bearer token of a request. */
  readonly key: string;
  /** Signs webhooks. */
  readonly secret: string;
}

/** The exports of a file of `programs/`. */
interface PeerProgram {
  /** Serves the API, and returns its port. The response to a post follows the insert into the queue. */
  serve(settings: PeerSettings): Promise<number>;
  /** Runs what is in the queue, and what is added later. */
  work(settings: PeerSettings): Promise<void>;
  /** Settles when the end of every job is recorded. Rejects if one has failed. */
  settle(): Promise<void>;
}

class Peer {
  #program: Promise<PeerProgram> | null = null;

  async serve(settings: PeerSettings): Promise<number> {
    return (await this.#load(settings)).serve(settings);
  }

  async work(settings: PeerSettings): Promise<void> {
    await (await this.#load(settings)).work(settings);
  }

  async settle(): Promise<void> {
    await (await this.#program)?.settle();
  }

  #load({ program }: PeerSettings): Promise<PeerProgram> {
    const file = pathToFileURL(join(PACKAGES.folder, "programs", program));
    // Each program exports what its callers call.
    this.#program ??= import(file.href) as Promise<PeerProgram>;
    return this.#program;
  }
}

class PeerProcess extends helperProcess(import.meta, Peer) {}
