import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import {
  createServer,
  request as ask,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { connect, type Socket } from "node:net";
import { basename, join } from "node:path";

import {
  type AdminPlace,
  type DaemonPlace,
  DaemonProcess,
  type DaemonSettings,
  type DaemonStart,
  type NewAccount,
  type Program,
  configureFolder,
  createAccount,
  createWorker,
} from "./daemon.ts";
import { listen } from "./receiver.ts";

export interface ClusterOptions extends DaemonSettings {
  readonly place: DaemonPlace;
  /** Of the database on PostgreSQL: empty, or another cluster's. */
  readonly url: string;
  /** How many daemons start. */
  readonly nodes: number;
  /** Of each daemon, beside its own. A `base` of the configuration says for itself where webhooks may go. */
  readonly flags?: readonly string[];
  /** Beside these, of the daemon of that place, from 0. */
  readonly flagsOf?: (index: number) => readonly string[];
  /** How the daemon of that place reaches the database; by `url` unless given. */
  readonly urlOf?: (index: number) => string;
  /** The program of that place's daemon; the place's own program unless given. */
  readonly programOf?: (index: number) => Program;
}

/**
 * Daemons as processes on one PostgreSQL database, each with its own folder, and a balancer before them. All end when it
 * is disposed of or this process ends.
 */
export class Cluster {
  readonly account: NewAccount;
  readonly balancer: Balancer;
  /** Every daemon that was started, in order. */
  readonly nodes: ClusterNode[] = [];
  /** The database of the command line. */
  readonly admin: AdminPlace;
  readonly #options: ClusterOptions;

  private constructor(
    options: ClusterOptions,
    parts: Pick<Cluster, "admin" | "account" | "balancer">,
  ) {
    this.account = parts.account;
    this.balancer = parts.balancer;
    this.admin = parts.admin;
    this.#options = options;
  }

  /** Settles when all of them are ready. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    const folder = mkdtempSync(join(options.place.folder, "cluster-"));
    const admin = { program: options.place.program, folder, database: options.url };
    const account = await createAccount("bench", admin);
    const cluster = new Cluster(options, { admin, account, balancer: await Balancer.open() });
    try {
      await cluster.grow(options.nodes);
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The address that sends each request to another daemon. */
  get url(): string {
    return this.balancer.url;
  }

  /** The node of that place, from 0. Throws if it does not exist. */
  node(index: number): ClusterNode {
    const node = this.nodes[index];
    if (node === undefined) throw new Error(`the cluster has no node ${index}`);
    return node;
  }

  get running(): readonly ClusterNode[] {
    return this.nodes.filter(({ isRunning }) => isRunning);
  }

  /** Starts that many more concurrently, and returns them when all are ready. */
  async grow(count: number): Promise<readonly ClusterNode[]> {
    const { place, url, flags = [], flagsOf = () => [], ...settings } = this.#options;
    const { urlOf = () => url, programOf = () => place.program } = settings;
    const { base, allowed = "127.0.0.1" } = settings;
    const target = base === undefined ? ["--allow-target", allowed] : [];
    const made = Array.from({ length: count }, (_, i) => {
      const index = this.nodes.length + i;
      const name = `node-${index + 1}`;
      const folder = configureFolder({ ...place, folder: this.admin.folder }, withState(settings));
      const own = ["--db", urlOf(index), "--port", "0", "--node-name", name, ...target];
      const start = {
        folder,
        program: programOf(index),
        flags: [...own, ...flags, ...flagsOf(index)],
      };
      return new ClusterNode(name, start, () => this.#direct());
    });
    this.nodes.push(...made);
    await Promise.all(made.map((node) => node.start()));
    return made;
  }

  /** The token of a new worker for the given types. */
  createWorker(name: string, types: readonly string[]): Promise<string> {
    return createWorker({ name, types }, this.admin);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.running) await node.kill();
    await this.balancer[Symbol.asyncDispose]();
  }

  #direct(): void {
    const ports = this.nodes.flatMap(({ port }) => port ?? []);
    this.balancer.direct(ports.map((port) => `127.0.0.1:${port}`));
  }
}

/** The lock of a node's name lies beside its configuration, in the folder that goes with it. */
function withState(settings: DaemonSettings): DaemonSettings {
  return { ...settings, more: `${settings.more ?? ""}\n[node]\nstate_folder = "state"\n` };
}

/** One daemon of a cluster; it may end and start again. */
export class ClusterNode {
  readonly name: string;
  /** With its configuration, in which its commands run. */
  readonly folder: string;
  readonly #flags: readonly string[];
  /** Called when its port changes. */
  readonly #onChange: () => void;
  #program: Program;
  #daemon: DaemonProcess | null = null;
  #isPaused = false;

  constructor(name: string, start: DaemonStart, onChange: () => void) {
    this.name = name;
    this.folder = start.folder;
    this.#flags = start.flags;
    this.#program = start.program;
    this.#onChange = onChange;
  }

  /** Its process. Throws if it does not exist. */
  get daemon(): DaemonProcess {
    if (this.#daemon === null) throw new Error(`${this.name} does not run`);
    return this.#daemon;
  }

  /** The last part of {@link folder}, which no other node has. */
  get folderName(): string {
    return basename(this.folder);
  }

  /** Of this daemon alone. */
  get url(): string {
    return this.daemon.url;
  }

  /** The one that the balancer gives it requests at; null while it gives it none. */
  get port(): number | null {
    return this.#daemon === null || this.#isPaused ? null : this.#daemon.port;
  }

  get isRunning(): boolean {
    return this.#daemon?.isRunning === true;
  }

  /** Starts it, for the first time or again; as another program from now on, if one is given. Settles when it is ready. */
  async start(program = this.#program): Promise<void> {
    this.#program = program;
    const start = { program, folder: this.folder, flags: this.#flags };
    this.#daemon = await DaemonProcess.start(start);
    this.#onChange();
  }

  /** SIGTERM; until it listens no more it is given requests. Rejects when it does not end by exit code 0. */
  async stop(): Promise<void> {
    await this.daemon.stop();
    this.#forget();
  }

  /** kill -9. The balancer has to find out by itself. */
  async kill(): Promise<void> {
    await this.daemon.kill();
    this.#forget();
  }

  /** SIGSTOP. The balancer gives it no more: its checks would find out. */
  pause(): void {
    process.kill(this.daemon.pid, "SIGSTOP");
    this.#isPaused = true;
    this.#onChange();
  }

  /** SIGCONT. */
  resume(): void {
    process.kill(this.daemon.pid, "SIGCONT");
    this.#isPaused = false;
    this.#onChange();
  }

  #forget(): void {
    this.#daemon = null;
    this.#isPaused = false;
    this.#onChange();
  }
}

// Of one connection each.
const HOP_BY_HOP = new Set(["connection", "keep-alive", "proxy-connection", "upgrade"]);

// As in deploy/haproxy.cfg, without its second check.
const CHECK_MS = 1000;

/**
 * The load balancer of a cluster, on a port of 127.0.0.1: each request goes to the next daemon. A daemon that is not ready
 * gets no request unless all are not ready, and a daemon that refuses the connection is passed over. A request that a
 * daemon has accepted is never sent to a second one, and a connection that breaks there breaks here too.
 */
export class Balancer {
  readonly port: number;
  /** Requests that no daemon accepted. */
  refused = 0;
  readonly #server;
  #targets: readonly string[] = [];
  /** Those whose last check said that they are not ready. */
  readonly #unready = new Set<string>();
  #next = 0;
  readonly #checks: NodeJS.Timeout;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
    this.#checks = setInterval(() => {
      for (const target of this.#targets) void this.#check(target);
    }, CHECK_MS);
    this.#checks.unref();
  }

  static async open(): Promise<Balancer> {
    // Only the daemons decide how long a request may take.
    const server = createServer({ requestTimeout: 0, headersTimeout: 0 });
    const balancer = new Balancer(server, await listen(server));
    server.on("request", (request, response) => void balancer.#serve(request, response));
    // A client that disconnects in the middle of a request.
    server.on("clientError", (_error, socket) => socket.destroy());
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** From now on requests go to these daemons, each a host and a port. */
  direct(targets: readonly string[]): void {
    this.#targets = targets;
    for (const each of this.#unready) if (!targets.includes(each)) this.#unready.delete(each);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#checks);
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  /** A daemon that responds late keeps its state: on a busy machine that means nothing. */
  async #check(target: string): Promise<void> {
    const signal = AbortSignal.timeout(CHECK_MS);
    const isReady = await fetch(`http://${target}/readyz`, { signal })
      .then(async (response) => {
        await response.text();
        return response.status === 200;
      })
      .catch(() => (signal.aborted ? null : false));
    if (isReady === true) this.#unready.delete(target);
    if (isReady === false && this.#targets.includes(target)) this.#unready.add(target);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const socket = await this.#reach();
    if (socket !== null) return forward(request, response, socket);
    this.refused++;
    response.destroy();
  }

  /** A connection to the next daemon that accepts one, or null. */
  async #reach(): Promise<Socket | null> {
    const ready = this.#targets.filter((target) => !this.#unready.has(target));
    const targets = ready.length > 0 ? ready : this.#targets;
    for (const _ of targets) {
      const [host, port] = targets[this.#next++ % targets.length]?.split(":") ?? [];
      const socket = connect({ host, port: Number(port), noDelay: true });
      try {
        await once(socket, "connect");
        return socket;
      } catch {
        socket.destroy();
      }
    }
    return null;
  }
}

function forward(request: IncomingMessage, response: ServerResponse, socket: Socket): void {
  const { method, url: path } = request;
  const headers = [...ownHeaders(request.rawHeaders), ...(hasBody(request) ? [] : NO_BODY)];
  const asked = ask({ method, path, headers, createConnection: () => socket });
  const breakOff = (): void => {
    asked.destroy();
    response.destroy();
  };
  asked.once("response", (answer) => {
    response.writeHead(answer.statusCode ?? 0, answer.statusMessage, ownHeaders(answer.rawHeaders));
    // The first bytes of a stream may come late.
    response.flushHeaders();
    answer.once("error", breakOff);
    answer.pipe(response);
  });
  asked.once("error", breakOff);
  request.once("error", breakOff);
  response.once("close", () => {
    if (!response.writableFinished) breakOff();
  });
  request.pipe(asked);
}

// Without it a request without a body would be sent on with an empty body in chunks.
const NO_BODY = ["content-length", "0"];

function hasBody({ method = "GET", headers }: IncomingMessage): boolean {
  const isSaid =
    headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
  return isSaid || method === "GET" || method === "HEAD";
}

/** Names and values in turn, without the headers of one connection. */
function ownHeaders(raw: readonly string[]): string[] {
  return raw.filter((_, i) => !HOP_BY_HOP.has((raw[i - (i % 2)] ?? "").toLowerCase()));
}
