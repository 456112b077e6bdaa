import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Caller } from "../../kit/client.ts";
import {
  createAccount,
  createDaemonFile,
  createWorker,
  runProgram,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
  type DaemonProcess,
  type NewAccount,
} from "../../kit/daemon.ts";
import { copyRows, DatabaseView, editDatabase, NEW_ID } from "../../kit/database.ts";
import { until } from "../../kit/until.ts";
import { BenchReceiver } from "../receiver.ts";
import { bodyText, chunked, NUMBERS } from "./attacker.ts";
import { hostName, NameServer } from "./name-server.ts";

/** The type whose tasks a worker claims in order to give them results. */
const LEASED = "leased";
/** A type that no worker claims: its tasks stay queued. */
export const UNCLAIMED = "unclaimed";
/** A command that records its start and takes a second. */
export const TELLING = "telling";
/** The types of services that respond a megabyte in chunks of one byte, and 4 MB of numbers. */
export const CHUNKY = "chunky";
export const NUMEROUS = "numerous";

/** Paths of the receiver: no response, and a late one. */
export const HANGS = "/hangs";
export const SLOW = "/slow";
const SLOW_MS = 300;

/** The host that an attacker and the other account share. */
export const SHARED_HOST = hostName(0, 10);

// In the folder of the daemon: a line for each start.
const STARTS = "starts";
const FINISHED_MS_MAX = 60_000;
const POLL_MS = 50;

const JSON_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
const ZEROS = bodyText({ ...NUMBERS, element: "0,", bytes: 1_000_000 });
const LARGE = bodyText({ ...NUMBERS, bytes: 4_000_000 });
const PATHS = {
  "/in-chunks": { response: `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n${chunked(ZEROS)}` },
  "/of-numbers": { response: `${JSON_HEAD}Content-Length: ${LARGE.length}\r\n\r\n${LARGE}` },
  [HANGS]: { response: null },
  [SLOW]: { response: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", afterMs: SLOW_MS },
};

/** The attacked daemon, on a file of its own, with the hosts that it sends to. */
export class Target {
  readonly receiver = new BenchReceiver();
  readonly #names = new NameServer();
  readonly #accounts = new Map<string, NewAccount>();
  #file: DaemonFile | null = null;
  #hostPort = 0;
  #token: string | null = null;
  #daemon: DaemonProcess | null = null;

  /** Makes the file, with these settings of `limits` in TOML, and opens the hosts; the daemon is not started. */
  static async create(place: DaemonPlace, limits: readonly string[]): Promise<Target> {
    const target = new Target();
    const port = await target.receiver.ask("open");
    await target.receiver.ask("behave", { paths: PATHS });
    const more = `
[webhooks]
dns_servers = ["127.0.0.1:${await target.#names.ask("open")}"]
[limits]
${limits.join("\n")}
[types.${LEASED}]
runner = "worker"
[types.${UNCLAIMED}]
runner = "worker"
[types.${TELLING}]
command = ["sh", "-c", "echo >> ${STARTS}; exec sleep 1"]
[types.${CHUNKY}]
url = "http://127.0.0.1:${port}/in-chunks"
concurrency = 32
[types.${NUMEROUS}]
url = "http://127.0.0.1:${port}/of-numbers"
`;
    target.#file = await createDaemonFile(place, { allowed: "127.0.0.0/8", more });
    target.#hostPort = port;
    return target;
  }

  get file(): DaemonFile {
    if (this.#file === null) throw new Error("there is no file");
    return this.#file;
  }

  get daemon(): DaemonProcess {
    if (this.#daemon === null) throw new Error("the daemon was not started");
    return this.#daemon;
  }

  async start(): Promise<void> {
    this.#daemon = await startDaemon(this.file);
  }

  /** The account of that login, created when it is first needed. */
  async account(login: string): Promise<NewAccount> {
    const account = this.#accounts.get(login) ?? (await createAccount(login, this.file));
    this.#accounts.set(login, account);
    return account;
  }

  /** The token of a worker for {@link LEASED}. */
  async workerToken(): Promise<string> {
    this.#token ??= await createWorker({ name: "siege", types: [LEASED] }, this.file);
    return this.#token;
  }

  /** Runs an `admin` command; returns whether it succeeded. */
  async admin(words: readonly string[]): Promise<boolean> {
    const { error } = await runProgram(["admin", ...words, "--db", this.file.database], this.file);
    return error === null;
  }

  /** The output of `postbackd health` in one line. */
  async health(): Promise<string> {
    const words = ["health", "--db", this.file.database, "--timeout", "5s"];
    const { error, stdout, stderr } = await runProgram(words, this.file);
    const said = `${stdout}${stderr}`.trim().split("\n", 1)[0] ?? "";
    return `health exits with ${error === null ? 0 : 1}: ${said}`;
  }

  /** Posts tasks as an account and returns their ids. Rejects unless all are accepted. */
  async post(login: string, tasks: readonly object[]): Promise<readonly string[]> {
    const { key } = await this.account(login);
    return Caller.withKey(this.daemon.url, key).postAll(tasks);
  }

  /** Settles when so many rows of tasks match. Without requests, which would collect a task. */
  async untilTasks(where: string, count = 1): Promise<void> {
    using view = new DatabaseView(this.file.database);
    const found = (): boolean => view.number(`SELECT count(*) FROM tasks WHERE ${where}`) >= count;
    const fault = (): string => `there are not ${count} tasks with ${where}`;
    await until(found, { msMax: FINISHED_MS_MAX, everyMs: POLL_MS, fault });
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

  /** Gives an account finished tasks that are not collected, all with one tag: copies of one that the daemon ran. */
  async fillReady(login: string, tag: string, tasks: number): Promise<void> {
    await this.start();
    const [id = ""] = await this.post(login, [{ type: "echo", tag, input: {} }]);
    await this.untilTasks("ready = 1");
    await this.daemon.stop();
    editDatabase(this.file.database, (database) => {
      const where = `id = '${id}'`;
      const anew = { seq: "NULL", id: NEW_ID };
      copyRows(database, { table: "tasks", where, times: tasks, anew });
      database.exec(
        `UPDATE task_counts SET count = count + ${tasks}
        WHERE state IN ('completed', 'ready') AND account_seq = (SELECT account_seq FROM tasks WHERE ${where})`,
      );
    });
  }

  /** The URL of a host, a name or an address, with a path. */
  hostUrl(host: string, path: string): string {
    return `http://${host}:${this.#hostPort}${path}`;
  }

  /** How many commands of the type {@link TELLING} have been started. */
  get commandStarts(): number {
    try {
      return readFileSync(join(this.file.folder, STARTS), "latin1").length;
    } catch {
      return 0; // No command was started.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
    this.receiver[Symbol.dispose]();
    this.#names[Symbol.dispose]();
  }
}

/** The latencies of webhooks from completion to arrival; null for a webhook that did not arrive. */
export type WebhookLatencies = readonly (number | null)[];

const KNOWN_HOSTS = 10;
const EVERY_MS = 400;
const ARRIVED_MS_MAX = 150_000;
const [KNOWN_BLOCK, NEW_BLOCK] = [20, 21];

/**
 * Measures webhooks of an account: each to a new host, to a host that has responded before, or to the attacker's. The
 * result sends one every 400 ms for some seconds, and waits for the last to arrive: 150 s at most.
 */
export function webhookProbe(target: Target, login: string, to: "new" | "known" | "shared") {
  let sent = 0;
  const post = async (): Promise<string | null> => {
    const index = sent++;
    const known = hostName(index % KNOWN_HOSTS, KNOWN_BLOCK);
    const host = { new: hostName(index, NEW_BLOCK), known, shared: SHARED_HOST }[to];
    const task = { type: "echo", input: {}, postback_url: target.hostUrl(host, "/probe") };
    // Null if the daemon accepts no task: its log and the other account's own posts say why.
    const [id] = await target.post(login, [task]).catch(() => []);
    return id ?? null;
  };
  return async (seconds: number): Promise<WebhookLatencies> => {
    const posted: (string | null)[] = [];
    const until = performance.now() + seconds * 1000;
    do {
      posted.push(await post());
      await sleep(EVERY_MS);
    } while (performance.now() < until);
    const ids = posted.filter((id) => id !== null);
    const refused = posted.filter((id) => id === null);
    const waitUntil = performance.now() + ARRIVED_MS_MAX;
    for (;;) {
      const latencies = await target.receiver.ask("latencies", ids);
      if (!latencies.includes(null) || performance.now() > waitUntil)
        return [...latencies, ...refused];
      await sleep(POLL_MS);
    }
  };
}
