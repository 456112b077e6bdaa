import { mkdtempSync } from "node:fs";
import { basename, join } from "node:path";

import { Balancer } from "./balancer.ts";
import { configureFolder, type DaemonPlace, type DaemonSettings } from "./daemon-file.ts";
import {
  createAccount,
  createWorker,
  DaemonProcess,
  type AdminPlace,
  type NewAccount,
} from "./daemon-process.ts";
import type { Program } from "./program.ts";

/** How to make a cluster. */
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
  /** What runs the daemon of that place; the place's program unless given. */
  readonly programOf?: (index: number) => Program;
}

interface ClusterParts {
  readonly options: ClusterOptions;
  readonly folder: string;
  readonly account: NewAccount;
  readonly balancer: Balancer;
}

/**
 * Daemons as processes on one PostgreSQL database, each with its own folder, and a balancer before them. All are gone
 * when it is disposed of or this process ends.
 */
export class Cluster {
  /** Made with the database. */
  readonly account: NewAccount;
  readonly balancer: Balancer;
  /** Every daemon there ever was, in the order of their making. */
  readonly nodes: ClusterNode[] = [];
  readonly #options: ClusterOptions;
  readonly #folder: string;

  private constructor({ options, folder, account, balancer }: ClusterParts) {
    this.account = account;
    this.balancer = balancer;
    this.#options = options;
    this.#folder = folder;
  }

  /** Settles when all of them are ready. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    const folder = mkdtempSync(join(options.place.folder, "cluster-"));
    const { program } = options.place;
    const account = await createAccount("bench", { program, folder, database: options.url });
    const balancer = await Balancer.open();
    const cluster = new Cluster({ options, folder, account, balancer });
    try {
      await cluster.grow(options.nodes);
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Where all of them are reached, each request another. */
  get url(): string {
    return this.balancer.url;
  }

  /** Makes the command line work on the database. */
  get admin(): AdminPlace {
    const { place, url } = this.#options;
    return { program: place.program, folder: this.#folder, database: url };
  }

  /** The node of that place, from 0. Throws where there is none. */
  node(index: number): ClusterNode {
    const node = this.nodes[index];
    if (node === undefined) throw new Error(`the cluster has no node ${index}`);
    return node;
  }

  /** Nodes whose processes run. */
  get running(): readonly ClusterNode[] {
    return this.nodes.filter(({ isRunning }) => isRunning);
  }

  /** Starts so many more at once, and answers them when all are ready. */
  async grow(count: number): Promise<readonly ClusterNode[]> {
    const { place, url, flags = [], flagsOf = () => [], ...settings } = this.#options;
    const { urlOf = () => url, programOf = () => place.program } = settings;
    const { base, allowed = "127.0.0.1" } = settings;
    const target = base === undefined ? ["--allow-target", allowed] : [];
    const made = Array.from({ length: count }, (_, i) => {
      const index = this.nodes.length + i;
      const name = `node-${index + 1}`;
      const folder = configureFolder({ ...place, folder: this.#folder }, withState(settings));
      const own = ["--db", urlOf(index), "--port", "0", "--node-name", name, ...target];
      const start = {
        program: programOf(index),
        folder,
        flags: [...own, ...flags, ...flagsOf(index)],
      };
      return new ClusterNode({ name, start, onChange: () => this.#direct() });
    });
    this.nodes.push(...made);
    await Promise.all(made.map((node) => node.start()));
    return made;
  }

  /** A worker for tasks of these types: its token. */
  createWorker(name: string, types: readonly string[]): Promise<string> {
    return createWorker({ name, types }, this.admin);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.running) await node.kill();
    await this.balancer[Symbol.asyncDispose]();
  }

  #direct(): void {
    const ports = this.nodes.flatMap(({ port }) => port ?? []);
    this.balancer.direct(ports.map((port) => ({ host: "127.0.0.1", port })));
  }
}

/** The lock of a node's name lies beside its configuration, in the folder that goes with it. */
function withState(settings: DaemonSettings): DaemonSettings {
  return { ...settings, more: `${settings.more ?? ""}\n[node]\nstate_folder = "state"\n` };
}

interface NodeParts {
  readonly name: string;
  readonly start: Parameters<typeof DaemonProcess.start>[0];
  /** Called when it is reached from now on, or no longer. */
  readonly onChange: () => void;
}

/** One daemon of a cluster, in all its lives. */
export class ClusterNode {
  readonly name: string;
  /** With its configuration, in which its commands run. */
  readonly folder: string;
  readonly #parts: NodeParts;
  #program: Program;
  #daemon: DaemonProcess | null = null;
  #isPaused = false;

  constructor(parts: NodeParts) {
    this.name = parts.name;
    this.folder = parts.start.folder;
    this.#parts = parts;
    this.#program = parts.start.program;
  }

  /** Its process. Throws when there is none. */
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
    const { folder, flags } = this.#parts.start;
    this.#daemon = await DaemonProcess.start({ program, folder, flags });
    this.#parts.onChange();
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
    this.#parts.onChange();
  }

  /** SIGCONT. */
  resume(): void {
    process.kill(this.daemon.pid, "SIGCONT");
    this.#isPaused = false;
    this.#parts.onChange();
  }

  #forget(): void {
    this.#daemon = null;
    this.#isPaused = false;
    this.#parts.onChange();
  }
}
