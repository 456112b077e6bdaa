import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

import { servedCall, type CarefulRequest } from "../kit/careful-call.ts";
import type { DaemonPlace } from "../kit/daemon-file.ts";
import { DaemonProcess, createAccount, createWorker, runProgram } from "../kit/daemon-process.ts";
import type { NewAccount } from "../kit/daemon-process.ts";
import { acceptedIds } from "../kit/request.ts";
import { until } from "../kit/until.ts";
import { claimedTasks } from "../kit/worker-request.ts";
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

const FINISHED_MS_MAX = 60_000;

const shown = z.object({ tasks: z.array(z.object({ state: z.string().optional() })) });
const settings = z.object({ settings: z.record(z.string(), z.unknown()) });

/** The parts of a target's configuration that differ from the default. */
export interface TargetSettings {
  /** Of `limits`, in TOML. */
  readonly limits: readonly string[];
}

/** The besieged daemon, on a database of its own in a folder of its own, with the hosts that it sends to. */
export class Target {
  readonly hosts: Hosts;
  readonly #place: DaemonPlace;
  readonly #folder: string;
  readonly #flags: readonly string[];
  readonly #accounts = new Map<string, NewAccount>();
  #hostPort: number;
  #token: string | null = null;
  #daemon: DaemonProcess | null = null;

  private constructor(given: {
    readonly place: DaemonPlace;
    readonly hosts: Hosts;
    readonly ports: { readonly port: number; readonly namePort: number };
  }) {
    this.#place = given.place;
    this.hosts = given.hosts;
    this.#hostPort = given.ports.port;
    this.#folder = mkdtempSync(join(given.place.folder, "siege-"));
    const { namePort } = given.ports;
    const delivery = ["--allow-target", "127.0.0.0/8", "--dns-server", `127.0.0.1:${namePort}`];
    this.#flags = ["--db", this.database, "--port", "0", ...delivery];
  }

  /** Makes the folder and opens the hosts; the daemon is not started yet. */
  static async create(place: DaemonPlace, { limits }: TargetSettings): Promise<Target> {
    const hosts = new Hosts();
    const target = new Target({ place, hosts, ports: await hosts.ask("open") });
    const service = (path: string): string => `http://127.0.0.1:${target.#hostPort}${path}`;
    const text = `
[log]
level = "warn"
[limits]
${limits.join("\n")}
[types.echo]
runner = "echo"
[types.${LEASED}]
runner = "worker"
[types.${UNCLAIMED}]
runner = "worker"
[types.${TELLING}]
command = ["sh", "-c", "echo >> ${target.#startsFile}; exec sleep 1"]
[types.${CHUNKY}]
url = "${service(IN_CHUNKS)}"
concurrency = 32
[types.${NUMEROUS}]
url = "${service(OF_NUMBERS)}"
`;
    writeFileSync(join(target.#folder, "postbackd.toml"), text);
    return target;
  }

  /** True when this program has that setting. */
  static async knows(place: DaemonPlace, setting: string): Promise<boolean> {
    const { error, stdout } = await runProgram(["config", "print", "--json"], place);
    if (error !== null) throw error;
    const { data } = settings.safeParse(JSON.parse(stdout));
    return data === undefined ? stdout.includes(`"${setting}"`) : setting in data.settings;
  }

  get database(): string {
    return join(this.#folder, "postbackd.db");
  }

  get daemon(): DaemonProcess {
    if (this.#daemon === null) throw new Error("the daemon was not started");
    return this.#daemon;
  }

  async start(): Promise<void> {
    const { program } = this.#place;
    this.#daemon = await DaemonProcess.start({ program, folder: this.#folder, flags: this.#flags });
  }

  /** Kills it with kill -9, and starts it again on the same file and another port. */
  async restart(): Promise<void> {
    await this.daemon.kill();
    await this.start();
  }

  async stop(): Promise<void> {
    if (this.#daemon?.isRunning === true) await this.#daemon.kill();
  }

  /** The account of that login, made when it is first asked for. */
  async account(login: string): Promise<NewAccount> {
    const known = this.#accounts.get(login);
    if (known !== undefined) return known;
    const account = await createAccount(login, this.#admin);
    this.#accounts.set(login, account);
    return account;
  }

  /** The token of a worker for {@link LEASED}. */
  async workerToken(): Promise<string> {
    this.#token ??= await createWorker({ name: "siege", types: [LEASED] }, this.#admin);
    return this.#token;
  }

  /** Runs an `admin` command; resolves to whether it succeeded: an unknown command does not. */
  async admin(words: readonly string[]): Promise<boolean> {
    const { error } = await runProgram(["admin", ...words, "--db", this.database], this.#admin);
    return error === null;
  }

  /** The output of `postbackd health` in one line. */
  async health(): Promise<string> {
    const words = ["health", "--db", this.database, "--timeout", "5s"];
    const { error, stdout, stderr } = await runProgram(words, this.#admin);
    const said = `${stdout}${stderr}`.trim().split("\n", 1)[0] ?? "";
    return `health exits with ${error === null ? 0 : 1}: ${said}`;
  }

  /** Posts tasks as an account and returns their ids. Rejects unless all are accepted. */
  async post(login: string, tasks: readonly object[]): Promise<readonly string[]> {
    const { key } = await this.account(login);
    const body = JSON.stringify(tasks);
    return acceptedIds(await this.#call("tasks/task_post", { secret: key, body }));
  }

  /** Waits until a task of an account is completed. */
  async completed(login: string, id: string): Promise<void> {
    const { key } = await this.account(login);
    const isCompleted = async (): Promise<boolean> => {
      const text = await this.#call(`tasks/task_get/${id}`, { secret: key, method: "GET" });
      return shown.parse(JSON.parse(text)).tasks[0]?.state === "completed";
    };
    const fault = (): string => `task ${id} of ${login} was not completed`;
    await until(isCompleted, { msMax: FINISHED_MS_MAX, everyMs: 50, fault });
  }

  /** Makes a finished task of an account with this result (JSON text), through a worker. */
  async finishedWith(login: string, resultText: string): Promise<string> {
    const secret = await this.workerToken();
    const [id = ""] = await this.post(login, [{ type: LEASED, input: {} }]);
    const wish = JSON.stringify({ types: [LEASED], max: 1, wait_seconds: 10 });
    const text = await this.#call("worker/claim", { secret, body: wish });
    const [task] = claimedTasks({ head: "HTTP/1.1 200", body: Buffer.from(text) });
    if (task?.id !== id) throw new Error("the worker was given another task");
    const lease = `"id":"${id}","lease_id":"${task.lease_id}"`;
    const body = `{"tasks":[{${lease},"result":${resultText}}]}`;
    await this.#call("worker/complete", { secret, body });
    return id;
  }

  /** The URL of a host, a name or an address, with a path. */
  hostUrl(host: string, path: string): string {
    return `http://${host}:${this.#hostPort}${path}`;
  }

  /** How many commands of the type {@link TELLING} have been started. */
  get commandStarts(): number {
    try {
      return readFileSync(this.#startsFile, "latin1").length;
    } catch {
      return 0; // None has been started, so there is no file.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.hosts[Symbol.dispose]();
  }

  get #startsFile(): string {
    return join(this.#folder, "starts");
  }

  get #admin(): { program: DaemonPlace["program"]; folder: string; database: string } {
    return { program: this.#place.program, folder: this.#folder, database: this.database };
  }

  async #call(path: string, request: CarefulRequest): Promise<string> {
    const answer = await servedCall(`${this.daemon.url}/v1/${path}`, request);
    if (answer === null) throw new Error(`${path} was not answered`);
    return answer.text;
  }
}
