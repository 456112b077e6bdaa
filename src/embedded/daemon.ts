import { randomBytes } from "node:crypto";
import { type IncomingMessage, request } from "node:http";
import { basename, join } from "node:path";
import { Readable } from "node:stream";

import { commandHost } from "../assets.ts";
import type { Config } from "../config/config.ts";
import { DRAIN_MS, type Daemon, startDaemon } from "../daemon/daemon.ts";
import { makeThrowawayFolder, removeThrowawayFolder } from "../daemon/throwaway-folder.ts";
import { AccountMaker } from "../dev/account-maker.ts";
import { seededMode } from "../dev/dev-mode.ts";
import { withOwnTargets } from "../dev/greeting.ts";
import { LOGIN } from "../domain/account/account.ts";
import { ACTIVE_KEYS_MAX, newWorkerToken } from "../domain/account/key.ts";
import { type Clock, systemClock } from "../domain/clock/clock.ts";
import { WORKER_NAME } from "../domain/lease/lease.ts";
import { type Rule, integerBetween, oneOf, quote } from "../domain/rule.ts";
import { warnOfRisks } from "../ops/check.ts";
import type {
  DaemonAccount,
  DaemonSettings,
  DevDaemon,
  DevSettings,
  EmbeddedDaemon,
} from "./options.ts";
import { readSettings, toLogger } from "./settings.ts";

/** Starts the daemon for a program that embeds it: `createDaemon` documents what it takes and promises. */
export async function startEmbeddedDaemon(
  settings: Pick<DaemonSettings, "database">,
): Promise<EmbeddedDaemon> {
  const folder = settings?.database === undefined ? makeThrowawayFolder() : null;
  const cleanUp = (): void => {
    if (folder !== null) removeThrowawayFolder(folder);
  };
  try {
    const place = { database: join(folder ?? "", "postbackd.db"), cwd: process.cwd() };
    const { config, clock, log: given } = readSettings(settings, place);
    const log = toLogger(given, config);
    // The environment is the program's business.
    warnOfRisks(config, { log, env: {} });
    const host = hasHost(clock) ? { commandHost } : {};
    const daemon = await startDaemon({ config, clock, log, ...host });
    const accounts = new AccountMaker({ store: daemon.store, clock });
    let stopped: Promise<void> | null = null;
    return {
      url: daemon.url,
      port: daemon.port,
      account: (login = `account-${randomBytes(4).toString("hex")}`) =>
        makeAccount(login, accounts),
      workerToken: (name, types) => makeWorker(name, types, { daemon, config, clock }),
      idle: () => daemon.idle(),
      stop({ graceMs = DRAIN_MS } = {}) {
        // Work in progress takes the machine's time. With a clock that does not move, the wait for it would never end.
        stopped ??= daemon.stop({ ms: graceMs, clock: systemClock }).finally(cleanUp);
        return stopped;
      },
    };
  } catch (error) {
    cleanUp();
    throw error;
  }
}

/**
 * Returns true if commands get a process next to the program's. That process ends them when the program ends, by any
 * signal; a handler in a library could do so only by taking the signal from the program. It does not exist with a clock
 * of the program's own, which it cannot have. And it needs Node as the program's executable: anything else that carries
 * Node in it would start the program again.
 */
function hasHost(clock: Clock): boolean {
  return clock === systemClock && basename(process.execPath).startsWith("node");
}

async function makeAccount(login: string, accounts: AccountMaker): Promise<DaemonAccount> {
  const parsed = LOGIN.parse(login);
  if (parsed.kind === "fault") throw new Error(`a login ${parsed.reason}`);
  const made = await accounts.make({ login });
  if (made !== null) return made;
  throw new Error(
    `${login} has ${ACTIVE_KEYS_MAX} active keys, and may have no more: revoke one of them ` +
      "(DELETE /v1/appendix/keys/KEY_ID), or choose another login",
  );
}

async function makeWorker(
  name: string,
  types: readonly string[],
  { daemon: { store }, config, clock }: { daemon: Daemon; config: Config; clock: Clock },
): Promise<string> {
  const parsed = WORKER_NAME.parse(name);
  if (parsed.kind === "fault") throw new Error(`a worker's name ${parsed.reason}`);
  if (!Array.isArray(types) || types.length === 0) {
    throw new Error("give the types that the worker may claim, as a list of names");
  }
  const wrong = types.find((type) => config.types.get(type)?.kind !== "worker");
  if (wrong !== undefined) {
    throw new Error(`types has no ${quote(wrong)} with runner: "worker" that a worker could claim`);
  }
  const { key: token, hash, lastFour } = newWorkerToken();
  const worker = { name, hash, lastFour, types: [...new Set(types)], createdAt: clock.now() };
  if ((await store.createWorker(worker)) === "created") return token;
  throw new Error(`there is a worker ${name} already: choose another name`);
}

/** Starts the daemon for tests, in this process: `startDaemon` of `postbackd/testing` documents it. */
export async function startDevDaemon(settings: Given): Promise<DevDaemon> {
  const { clock, seed, ...embedded } = readDevSettings(settings);
  const folder = makeThrowawayFolder();
  const { dev, close } = seededMode({ clock, seed });
  const cleanUp = (): void => {
    close();
    removeThrowawayFolder(folder);
  };
  try {
    const place = { database: join(folder, "postbackd.db"), cwd: process.cwd() };
    const read = readSettings({ ...embedded, clock: dev.clock }, { ...place, caller: CALLER });
    const config = withOwnTargets(read.config);
    const log = toLogger(read.log, config);
    const daemon = await startDaemon({ config, clock: dev.clock, log, dev });
    let stopped: Promise<void> | null = null;
    return {
      url: daemon.url,
      fetch: daemon.url.startsWith("http:") ? httpFetch : globalThis.fetch,
      stop: () => (stopped ??= daemon.stop(DEV_DRAIN).finally(cleanUp)),
    };
  } catch (error) {
    cleanUp();
    throw error;
  }
}

const CALLER = "startDaemon";

// A program with held results would wait for them for ever.
const DEV_DRAIN = { ms: 0, clock: systemClock };

const DEV_SETTINGS = ["types", "config", "seed", "clock"];
const CLOCK = oneOf(["real", "manual"]);
const SEED = integerBetween(0, 2 ** 32 - 1);

type Given = { readonly [Name in keyof DevSettings]?: unknown };

function readDevSettings(settings: Given) {
  const unknown = Object.keys(settings).find((name) => !DEV_SETTINGS.includes(name));
  if (unknown !== undefined) {
    throw new Error(`${CALLER} knows no setting ${unknown}: it takes ${DEV_SETTINGS.join(", ")}`);
  }
  const { types = { echo: { runner: "echo" } }, config = {}, clock = "manual", seed } = settings;
  return {
    types,
    config,
    clock: readSetting("clock", { value: clock, rule: CLOCK }),
    seed: seed === undefined ? null : readSetting("seed", { value: seed, rule: SEED }),
  };
}

function readSetting<Value>(
  name: string,
  { value, rule }: { readonly value: unknown; readonly rule: Rule<Value> },
): Value {
  const parsed = rule.parse(value);
  if (parsed.kind === "fault") throw new Error(`${CALLER} cannot start: ${name} ${parsed.reason}`);
  return parsed.value;
}

/**
 * A `fetch` for the daemon of this process: `http:` alone, text bodies, no redirects. Node's own waits for the global `setImmediate`
 * before it uses a connection again, so a test with fake timers would wait for ever.
 */
export function httpFetch(
  input: string | URL | Request,
  init: RequestInit = {},
): Promise<Response> {
  const url = typeof input === "object" && "url" in input ? input.url : input;
  const { method = "GET", body, signal } = init;
  const headers = Object.fromEntries(new Headers(init.headers));
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, ...(signal && { signal }) });
    // An error after the response is the body's.
    sent.on("error", reject);
    sent.once("response", (message) => resolve(responseOf(message)));
    sent.end(body);
  });
}

// The constructor of Response throws if a response with such a status gets a body.
const NO_BODY = [204, 205, 304];

function responseOf(message: IncomingMessage): Response {
  const { statusCode: status = 0, statusMessage: statusText = "" } = message;
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(message.headersDistinct)) {
    for (const value of values) headers.append(name, value);
  }
  const hasBody = !NO_BODY.includes(status);
  if (!hasBody) message.resume();
  const body = hasBody ? Readable.toWeb(message) : null;
  return new Response(body, { status, statusText, headers });
}
