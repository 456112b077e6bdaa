import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";

import type { Random } from "../kit/random.ts";
import { cleanAtExit } from "../kit/scratch.ts";
import type { LeaseLedger } from "./ledger.ts";

/** The outcome of a lease in an answer. */
export type Outcome = "ok" | "lost" | "cancelled";

/** The requests of a worker for a lease. */
export type AskKind = "heartbeat" | "complete" | "fail" | "release";

/** One lease of a request. */
export interface AskItem {
  readonly id: string;
  readonly leaseId: string;
  /** Of a completion: the result, as JSON text. */
  readonly result?: string;
  readonly message?: string;
  readonly retry?: boolean;
}

export interface ClaimedTask {
  readonly id: string;
  readonly type: string;
  readonly leaseId: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

interface At {
  /** Of the request, in its process. */
  readonly number: number;
  /** Epoch milliseconds. */
  readonly at: number;
}

/**
 * The actions of a worker process, reported before it acts, and their outcomes, reported at once: a killed process
 * has reported every request that can have reached the daemon.
 */
export type WorkerEvent =
  | (At & { readonly kind: "claiming"; readonly types: readonly string[] })
  | (At & { readonly kind: "claimed"; readonly tasks: readonly ClaimedTask[] })
  /** The connection broke: whether the daemon handed tasks out is not known. */
  | (At & { readonly kind: "unclaimed" })
  | (At & { readonly kind: "asking"; readonly what: AskKind; readonly items: readonly AskItem[] })
  | (At & { readonly kind: "answered"; readonly outcomes: readonly Outcome[] })
  /** The daemon answered in a way that it never must. */
  | { readonly kind: "fault"; readonly text: string }
  /** An invalid request was refused, as required. */
  | { readonly kind: "refused" };

/** The orders of a worker process; the first order starts it, and only the last two change. */
export interface WorkerOrder {
  readonly seed: number;
  readonly token: string;
  readonly types: readonly string[];
  /** Concurrent claims. */
  readonly loops: number;
  /** The daemon's present URL. */
  readonly url: string;
  /** From now on every task is completed immediately. */
  readonly isHonest: boolean;
}

export interface WorkerToken {
  readonly token: string;
  readonly types: readonly string[];
}

export interface FleetOptions {
  readonly ledger: LeaseLedger;
  readonly random: Random;
  readonly processes: number;
  /** Concurrent claims of each process. */
  readonly loops: number;
  /** The processes work with these in turn; who replaces a killed one works with the same. */
  readonly tokens: readonly WorkerToken[];
}

interface Member {
  readonly child: ChildProcess;
  readonly kill: () => void;
  readonly given: WorkerToken;
  readonly work: Omit<WorkerOrder, "url" | "isHonest">;
}

const LOOP_FILE = new URL("worker.ts", import.meta.url);

/** Worker processes that are killed and replaced; the ledger gets all their reports. */
export class WorkerFleet {
  kills = 0;
  readonly #options: FleetOptions;
  readonly #members: Member[] = [];
  #started = 0;
  #now = { url: "", isHonest: false };

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  /** Sends every worker the daemon's URL; the first call starts them. */
  moveTo(url: string): void {
    this.#now = { ...this.#now, url };
    const { processes, tokens } = this.#options;
    while (this.#members.length < processes) this.#start(tokens[this.#started % tokens.length]);
    this.#members.forEach((member) => this.#order(member));
  }

  /** kill -9 for one of them, and another in its place. */
  async killOne(): Promise<void> {
    const index = this.#options.random.between(0, this.#members.length - 1);
    const [member] = this.#members.splice(index, 1);
    if (member === undefined) return;
    this.kills++;
    await end(member);
    // Otherwise a type might have no worker left, and its tasks would wait for ever.
    this.#start(member.given);
  }

  /** From now on they complete all tasks. */
  turnHonest(): void {
    this.#now = { ...this.#now, isHonest: true };
    this.#members.forEach((member) => this.#order(member));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#members.splice(0).map(end));
  }

  #order({ child, work }: Member): void {
    if (child.connected) child.send({ ...work, ...this.#now } satisfies WorkerOrder);
  }

  #start(given: WorkerToken | undefined): void {
    const { ledger, random, loops } = this.#options;
    if (given === undefined) throw new Error("there is no token to work with");
    const name = `worker-${this.#started++}`;
    // Without options of this process such as tsx: Node runs TypeScript by itself, and starts faster.
    const child = fork(LOOP_FILE, { execArgv: [] });
    const kill = cleanAtExit(() => child.kill("SIGKILL"));
    // Both ends run the same sources, so every message has the expected type.
    child.on("message", (message) => ledger.take(name, message as WorkerEvent));
    // By then all its reports are read.
    child.on("disconnect", () => ledger.gone(name, Date.now()));
    child.on("exit", (code, signal) => {
      if (signal === "SIGKILL") return;
      ledger.take(name, { kind: "fault", text: `${name} ended by itself, with ${code ?? signal}` });
    });
    const member = { child, kill, given, work: { ...given, loops, seed: random.fork() } };
    this.#members.push(member);
    this.#order(member);
  }
}

/** Kills it and waits until it is gone and all its reports are read. */
async function end({ child, kill }: Member): Promise<void> {
  const gone = [once(child, "exit"), ...(child.connected ? [once(child, "disconnect")] : [])];
  kill();
  await Promise.all(gone);
}
