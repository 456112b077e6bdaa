import { readFileSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

import { Caller } from "../kit/caller.ts";
import {
  createDaemonFile,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
} from "../kit/daemon-file.ts";
import {
  createAccount,
  createWorker,
  runProgram,
  type DaemonProcess,
  type NewAccount,
} from "../kit/daemon-process.ts";
import { until } from "../kit/until.ts";
import { Hosts, IN_CHUNKS, OF_NUMBERS } from "./hosts.ts";

/** The type whose tasks a worker claims in order to give them results. */
const LEASED = "leased";
/** A type that no worker asks for: its tasks stay queued. */
export const UNCLAIMED = "unclaimed";
/** A command that records its start and takes a second. */
export const TELLING = "telling";
/** The types of services that answer a megabyte in chunks of one byte, and 4 MB of numbers. */
export const CHUNKY = "chunky";
export const NUMEROUS = "numerous";

// In the folder of the daemon: a line for each start.
const STARTS = "starts";
const FINISHED_MS_MAX = 60_000;

const shown = z.object({ tasks: z.array(z.object({ state: z.string().optional() })) });

/** The besieged daemon, on a file of its own, with the hosts that it sends to. */
export class Target {
  readonly hosts: Hosts;
  readonly #file: DaemonFile;
  readonly #hostPort: number;
  readonly #accounts = new Map<string, NewAccount>();
  #token: string | null = null;
  #daemon: DaemonProcess | null = null;

  private constructor(file: DaemonFile, hosts: Hosts, hostPort: number) {
    this.#file = file;
    this.hosts = hosts;
    this.#hostPort = hostPort;
  }

  /** Makes the file, with these settings of `limits` in TOML, and opens the hosts; the daemon is not started yet. */
  static async create(place: DaemonPlace, limits: readonly string[]): Promise<Target> {
    const hosts = new Hosts();
    const { port, namePort } = await hosts.ask("open");
    const service = (path: string): string => `http://127.0.0.1:${port}${path}`;
    const more = `
[webhooks]
dns_servers = ["127.0.0.1:${namePort}"]
[limits]
${limits.join("\n")}
[types.${LEASED}]
runner = "worker"
[types.${UNCLAIMED}]
runner = "worker"
[types.${TELLING}]
command = ["sh", "-c", "echo >> ${STARTS}; exec sleep 1"]
[types.${CHUNKY}]
url = "${service(IN_CHUNKS)}"
concurrency = 32
[types.${NUMEROUS}]
url = "${service(OF_NUMBERS)}"
`;
    const file = await createDaemonFile(place, { allowed: "127.0.0.0/8", more });
    return new Target(file, hosts, port);
  }

  get database(): string {
    return this.#file.database;
  }

  get daemon(): DaemonProcess {
    if (this.#daemon === null) throw new Error("the daemon was not started");
    return this.#daemon;
  }

  async start(): Promise<void> {
    this.#daemon = await startDaemon(this.#file);
  }

  /** Kills it with kill -9, and starts it again on the same file and another port. */
  async restart(): Promise<void> {
    await this.daemon.kill();
    await this.start();
  }

  /** Asks it to stop, and waits. */
  async stop(): Promise<void> {
    await this.daemon.stop();
  }

  /** The account of that login, made when it is first asked for. */
  async account(login: string): Promise<NewAccount> {
    const known = this.#accounts.get(login);
    if (known !== undefined) return known;
    const account = await createAccount(login, this.#file);
    this.#accounts.set(login, account);
    return account;
  }

  /** The token of a worker for {@link LEASED}. */
  async workerToken(): Promise<string> {
    this.#token ??= await createWorker({ name: "siege", types: [LEASED] }, this.#file);
    return this.#token;
  }

  /** Runs an `admin` command; resolves to whether it succeeded: an unknown command does not. */
  async admin(words: readonly string[]): Promise<boolean> {
    const { error } = await runProgram(["admin", ...words, "--db", this.database], this.#file);
    return error === null;
  }

  /** The output of `postbackd health` in one line. */
  async health(): Promise<string> {
    const words = ["health", "--db", this.database, "--timeout", "5s"];
    const { error, stdout, stderr } = await runProgram(words, this.#file);
    const said = `${stdout}${stderr}`.trim().split("\n", 1)[0] ?? "";
    return `health exits with ${error === null ? 0 : 1}: ${said}`;
  }

  /** Posts tasks as an account and returns their ids. Rejects unless all are accepted. */
  async post(login: string, tasks: readonly object[]): Promise<readonly string[]> {
    return (await this.#owner(login)).postAll(tasks);
  }

  /** Waits until a task of an account is completed. */
  async completed(login: string, id: string): Promise<void> {
    const owner = await this.#owner(login);
    const isCompleted = async (): Promise<boolean> => {
      const text = await owner.done(owner.get(`/v1/tasks/task_get/${id}`));
      return shown.parse(JSON.parse(text)).tasks[0]?.state === "completed";
    };
    const fault = (): string => `task ${id} of ${login} was not completed`;
    await until(isCompleted, { msMax: FINISHED_MS_MAX, everyMs: 50, fault });
  }

  /** Makes a finished task of an account with this result (JSON text), through a worker. */
  async finishedWith(login: string, resultText: string): Promise<string> {
    const worker = Caller.withKey(this.daemon.url, await this.workerToken());
    const [id = ""] = await this.post(login, [{ type: LEASED, input: {} }]);
    const [task] = await worker.claim(LEASED, 1);
    if (task?.id !== id) throw new Error("the worker was given another task");
    const lease = `"id":"${id}","lease_id":"${task.lease_id}"`;
    const body = `{"tasks":[{${lease},"result":${resultText}}]}`;
    await worker.done(worker.post("/v1/worker/complete", body));
    return id;
  }

  /** The URL of a host, a name or an address, with a path. */
  hostUrl(host: string, path: string): string {
    return `http://${host}:${this.#hostPort}${path}`;
  }

  /** How many commands of the type {@link TELLING} have been started. */
  get commandStarts(): number {
    try {
      return readFileSync(join(this.#file.folder, STARTS), "latin1").length;
    } catch {
      return 0; // None has been started, so there is no file.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
    this.hosts[Symbol.dispose]();
  }

  async #owner(login: string): Promise<Caller> {
    const { key } = await this.account(login);
    return Caller.withKey(this.daemon.url, key);
  }
}
