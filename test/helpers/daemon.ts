import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { loadConfig, problemText, type Config } from "../../src/config/config.ts";
import { startDaemon, type Daemon } from "../../src/daemon/daemon.ts";
import { newKey, newKeyId, newWebhookSecret } from "../../src/domain/account/key.ts";
import { isUrlLike } from "../../src/domain/address/server-url.ts";
import { systemClock, type Clock } from "../../src/domain/clock/clock.ts";
import { IdGenerator } from "../../src/domain/id.ts";
import type { Observer } from "../../src/domain/observer.ts";
import type { CommandLine } from "../../src/domain/task/run.ts";
import { createLogger } from "../../src/log.ts";
import { parseServerAddress } from "../../src/store/postgres/machine/server-address.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { afterwards } from "./afterwards.ts";

export { afterwards } from "./afterwards.ts";

export interface TestDaemonOptions {
  /** By default the machine's clock. */
  readonly clock?: Clock;
  /** The text of postbackd.toml. Loopback receivers are allowed unless it names `webhooks.allow`. */
  readonly toml?: string;
  /** The folder of the database, to start on the file of an earlier daemon. */
  readonly folder?: string;
  /** The port of an earlier daemon; by default a free port. */
  readonly port?: number;
  /** An account made before, with {@link createTestAccount}. */
  readonly account?: TestAccount;
  /** Starts the process that runs commands; by default they run in this process. */
  readonly commandHost?: CommandLine;
  readonly observer?: Observer;
}

export interface TestAccount {
  readonly login: string;
  readonly key: string;
  readonly secret: string;
}

/** The fields of a task that tests read. */
export interface ShownTask {
  readonly id: string;
  readonly status_code: number;
  readonly status_message: string;
  readonly state: string;
  readonly type: string | null;
  readonly created_at: string;
  readonly completed_at: string | null;
  readonly expires_at: string | null;
  readonly runs: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly result: unknown;
  readonly error: { readonly message: string; readonly detail: unknown } | null;
}

export interface Envelope {
  readonly status_code: number;
  readonly tasks_count: number;
  readonly tasks_error: number;
  readonly tasks: readonly ShownTask[];
  readonly next_cursor?: string | null;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
}

export interface TestDaemon {
  readonly daemon: Daemon;
  readonly url: string;
  readonly folder: string;
  readonly file: string;
  readonly account: TestAccount;
  /** The log as JSON lines. */
  readonly logLines: readonly string[];
  /** A request with the account's key; `path` below the base URL. */
  call(path: string, init?: RequestInit): Promise<Response>;
  /** Posts tasks and expects HTTP 200. */
  post(tasks: unknown): Promise<Envelope>;
  /** The one task of task_get, without collecting it. */
  get(id: string): Promise<ShownTask>;
  ready(query?: string): Promise<Envelope>;
}

/** A folder under the system's temporary one, removed after the test. */
export function tempFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  afterwards(t, () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A database with one account. */
interface Template {
  readonly bytes: Uint8Array;
  readonly account: TestAccount;
}

/** By login: copying a file takes a tenth of the time of creating it. */
const templates = new Map<string, Template>();

/** Creates an account in a database. In new files of one process the account has the same key. */
export async function createTestAccount(file: string, login = "tester"): Promise<TestAccount> {
  if (isUrlLike(file) || existsSync(file)) return addTestAccount(file, login);
  const template = templates.get(login);
  if (template !== undefined) {
    writeFileSync(file, template.bytes, { mode: 0o600 });
    return template.account;
  }
  const account = await addTestAccount(file, login);
  templates.set(login, { bytes: readFileSync(file), account });
  return account;
}

async function addTestAccount(database: string, login: string): Promise<TestAccount> {
  const store = await openAdminStore(database);
  const { key, hash, lastFour } = newKey();
  const secret = newWebhookSecret();
  const now = Date.now();
  const firstKey = { keyId: newKeyId(new IdGenerator().next(now)), hash, lastFour, label: null };
  await store.createAccount({ login, webhookSecret: secret, createdAt: now, firstKey });
  await store.close();
  return { login, key, secret };
}

/** Opens a daemon's database a second time, as the command line does, and closes it after the test. */
export async function openBeside(
  t: TestContext,
  { file }: Pick<TestDaemon, "file">,
): Promise<Store> {
  const store = await openAdminStore(file);
  afterwards(t, () => store.close());
  return store;
}

/** The same until the caller closes it. */
export async function openAdminStore(database: string): Promise<Store> {
  if (!isUrlLike(database)) {
    return openSqliteStore({ file: database, writer: "inline", backlogMax: 100 });
  }
  const { openPostgresStore } = await import("../../src/store/postgres/postgres-store.ts");
  const server = parseServerAddress(database);
  return openPostgresStore({ server, kind: "tool", notify: true, backlogMax: 100 });
}

export interface ServeOptions extends TestDaemonOptions {
  readonly folder: string;
  readonly write: (line: string) => void;
}

export interface Served extends Pick<TestDaemon, "daemon" | "file" | "account"> {
  /** Ends it after the test. */
  readonly end: () => Promise<void>;
}

type Serve = (t: TestContext, options: ServeOptions) => Promise<Served>;

let serve: Serve = serveFile;

/** Replaces the daemon on a file for every later {@link startTestDaemon} of this process. */
export function serveTestsBy(other: Serve): void {
  serve = other;
}

/** Starts the real daemon in this process on a port of its own; stopped after the test. */
export async function startTestDaemon(
  t: TestContext,
  options: TestDaemonOptions = {},
): Promise<TestDaemon> {
  const folder = options.folder ?? tempFolder(t);
  const logLines: string[] = [];
  const write = (line: string): void => void logLines.push(line);
  const { daemon, file, account, end } = await serve(t, { ...options, folder, write });
  afterwards(t, end);
  return toTestDaemon(daemon, { folder, file, account, logLines });
}

async function serveFile(_t: TestContext, options: ServeOptions): Promise<Served> {
  const config = testConfig(options.folder, options);
  const account = options.account ?? (await createTestAccount(config.database));
  const daemon = await startOn(config, options);
  return { daemon, file: config.database, account, end: () => daemon.stop() };
}

/** Starts a daemon in this process with that configuration. */
export function startOn(
  config: Config,
  { clock = systemClock, commandHost, observer, write }: Omit<ServeOptions, "folder">,
): Promise<Daemon> {
  const log = createLogger({ level: "debug", format: "json", write });
  const host = commandHost === undefined ? {} : { commandHost };
  const recentLog = () => log.recent();
  return startDaemon({ config, clock, log, observer, recentLog, ...host });
}

/** The configuration of a test's daemon in this folder. */
export function testConfig(
  folder: string,
  { toml = "", port = 0 }: Pick<TestDaemonOptions, "toml" | "port"> = {},
  flags: Readonly<Record<string, string>> = {},
): Config {
  const allow = /^\s*allow\s*=/m.test(toml) ? {} : { "allow-target": ["127.0.0.1"] };
  const verdict = loadConfig({
    flags: { port: String(port), db: join(folder, "test.db"), ...allow, ...flags },
    env: {},
    cwd: folder,
    readFile: (path) => (path === join(folder, "postbackd.toml") ? toml : null),
  });
  if (verdict.kind === "config") return verdict.config;
  throw new Error(verdict.problems.map(problemText).join("\n"));
}

function toTestDaemon(
  daemon: Daemon,
  facts: Pick<TestDaemon, "folder" | "file" | "account" | "logLines">,
): TestDaemon {
  const authorization = `Bearer ${facts.account.key}`;

  function call(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization, ...init.headers };
    return fetch(daemon.url + path, { ...init, headers });
  }

  async function envelope(response: Response): Promise<Envelope> {
    const text = await response.text();
    if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${text}`);
    return JSON.parse(text) as Envelope;
  }

  return {
    ...facts,
    daemon,
    url: daemon.url,
    call,
    async post(tasks) {
      const body = typeof tasks === "string" ? tasks : JSON.stringify(tasks);
      const headers = { "content-type": "application/json" };
      return envelope(await call("/v1/tasks/task_post", { method: "POST", headers, body }));
    },
    async get(id) {
      const { tasks } = await envelope(await call(`/v1/tasks/task_get/${id}?collect=false`));
      const [task] = tasks;
      if (task === undefined) throw new Error("an envelope without its task");
      return task;
    },
    async ready(query = "") {
      return envelope(await call(`/v1/tasks/tasks_ready${query}`));
    },
  };
}
