import { hostname, networkInterfaces } from "node:os";

import type { Config, TypeConfig } from "./config.ts";
import { acquireInstanceLock, openDaemonStore } from "./daemon-store.ts";
import type { Clock } from "./domain/clock.ts";
import { IdGenerator } from "./domain/id.ts";
import type { Logger } from "./domain/log.ts";
import type { UrlPolicy } from "./domain/webhook-url.ts";
import { Engine } from "./engine/engine.ts";
import type { TaskType } from "./engine/task-dispatcher.ts";
import { createApp } from "./http/app.ts";
import { operations } from "./http/operations.ts";
import { openServer, type HttpServer } from "./http/server.ts";
import { createResolver } from "./net/resolver.ts";
import { createSender } from "./net/send.ts";
import { createCommandRunner } from "./runners/command.ts";
import { createEchoRunner } from "./runners/echo.ts";
import { commandEnvironment, commandProblem } from "./runners/program.ts";
import type { Runner } from "./runners/runner.ts";
import type { InstanceLock } from "./store/sqlite/instance-lock.ts";
import type { Store } from "./store/store.ts";

export { DatabaseError } from "./daemon-store.ts";
export { ListenError } from "./http/server.ts";
export { InstanceLockError } from "./store/sqlite/instance-lock.ts";

export interface DaemonOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A running daemon. */
export interface Daemon {
  readonly url: string;
  readonly port: number;
  /** False when the file held no account at the start: then nobody can use the daemon yet. */
  readonly hadAccounts: boolean;
  /** Settles at a moment when no task runs or can be started, and no delivery is in flight or due. */
  idle(): Promise<void>;
  /**
   * Takes in nothing new, lets what is under way end for 18 s, then breaks it off; nothing that was
   * acknowledged is lost either way. Settles when the file is closed. Safe to call twice.
   */
  stop(): Promise<void>;
}

// With the 5 s that a command has between SIGTERM and SIGKILL this stays within the contract's 25 s (§8).
const DRAIN_MS = 18_000;
const POLICY_AGE_MS_MAX = 10_000;

/**
 * Starts the daemon: the one place that knows every ring and ties them together. Rejects with an
 * InstanceLockError when the database is served already, a DatabaseError when it cannot be opened, and a
 * ListenError when the address cannot be had.
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const lock = acquireInstanceLock(options.config);
  try {
    const store = await openDaemonStore(options.config);
    try {
      return await serve(options, { store, lock });
    } catch (error) {
      await store.close();
      throw error;
    }
  } catch (error) {
    lock.release();
    throw error;
  }
}

interface Held {
  readonly store: Store;
  readonly lock: InstanceLock;
}

async function serve(options: DaemonOptions, held: Held): Promise<Daemon> {
  const { config, clock, log } = options;
  const urlPolicy = policySource(config, clock);
  const hadAccounts = (await held.store.listAccounts()).length > 0;
  const engine = await createEngine(options, { store: held.store, urlPolicy });
  const state = { isAccepting: false };
  const ids = new IdGenerator();
  const notReadyReason = (): string | null => {
    if (held.store.fault() !== null) return "the database cannot be written";
    if (engine.isHalted) return "the engine stopped after a fault";
    return state.isAccepting ? null : "starting or stopping";
  };
  const all = operations({
    ...{ store: held.store, ids, retentionMs: config.retentionMs, notReadyReason },
    rules: taskRules(config, urlPolicy),
    tasksMax: config.limits.tasksPerPost,
    // A halted engine would never run what is taken in.
    isAccepting: () => state.isAccepting && !engine.isHalted,
    wake: (types) => engine.wake(types),
  });
  const limits = { bodyBytesMax: config.limits.bodyBytes };
  const app = createApp({ operations: all, store: held.store, clock, ids, log, ...limits });
  const server = await openServer(app, config);
  try {
    held.lock.announce(server.url);
    // Before the first task is taken in: what it finds running was running in an earlier process.
    await engine.start();
  } catch (error) {
    await server.close();
    throw error;
  }
  state.isAccepting = true;
  const beginStop = (): void => {
    state.isAccepting = false;
  };
  return toDaemon({ ...held, engine, server, clock, hadAccounts, beginStop });
}

interface Parts extends Held {
  readonly engine: Engine;
  readonly server: HttpServer;
  readonly clock: Clock;
  readonly hadAccounts: boolean;
  readonly beginStop: () => void;
}

function toDaemon(parts: Parts): Daemon {
  const { server, engine } = parts;
  let stopping: Promise<void> | null = null;
  return {
    url: server.url,
    port: server.port,
    hadAccounts: parts.hadAccounts,
    idle: () => engine.idle(),
    stop() {
      stopping ??= stop(parts);
      return stopping;
    },
  };
}

async function stop({ engine, server, store, lock, clock, beginStop }: Parts): Promise<void> {
  beginStop();
  const drained = Promise.all([engine.drain(), server.close()]);
  const isDrained = await settlesWithin(drained, { clock, ms: DRAIN_MS });
  if (!isDrained) await engine.abort();
  await engine.close();
  await store.close();
  lock.release();
}

async function settlesWithin(
  work: Promise<unknown>,
  { clock, ms }: { readonly clock: Clock; readonly ms: number },
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(ms, () => resolve(false));
    work.then(() => resolve(true), reject).finally(() => timer.cancel());
  });
}

async function createEngine(
  { config, clock, log }: DaemonOptions,
  { store, urlPolicy }: { readonly store: Store; readonly urlPolicy: () => UrlPolicy },
): Promise<Engine> {
  const { webhooks, retentionMs } = config;
  const resolver = createResolver({ clock });
  const { timeoutMs, retryAfterMs, maxInFlight, maxInFlightPerHost } = webhooks;
  const sender = createSender({ clock, resolver, policy: urlPolicy, timeoutMs });
  const types = new Map<string, TaskType>();
  for (const type of config.types.values()) {
    await warnOfMissingProgram(type, log);
    types.set(type.name, { runner: toRunner(type, { config, clock }), retries: type.retries });
  }
  const limits = { inFlightMax: maxInFlight, inFlightPerHostMax: maxInFlightPerHost };
  const common = { store, clock, log, urlPolicy, retentionMs };
  return new Engine({ ...common, types, sender, resolver, limits, retryAfterMs });
}

function toRunner(
  type: TypeConfig,
  { config, clock }: { readonly config: Config; readonly clock: Clock },
): Runner {
  switch (type.kind) {
    case "echo":
      return createEchoRunner(type);
    case "command":
      return createCommandRunner({ ...type, clock, resultBytesMax: config.limits.resultBytes });
  }
}

async function warnOfMissingProgram(type: TypeConfig, log: Logger): Promise<void> {
  if (type.kind !== "command") return;
  const env = commandEnvironment(process.env, type.env);
  const problem = await commandProblem(type.command, { cwd: type.cwd, env });
  if (problem !== null) log.warn({ type: type.name }, `tasks of this type will fail: ${problem}`);
}

function taskRules(config: Config, urlPolicy: () => UrlPolicy) {
  const types = new Set(config.types.keys());
  const marketplaces = new Set(config.marketplaces.map(({ code }) => code));
  return () => ({ types, marketplaces, urlPolicy: urlPolicy() });
}

/** The policy that URLs and addresses are judged by, with the machine's own addresses read every 10 s. */
function policySource({ webhooks }: Config, clock: Clock): () => UrlPolicy {
  let policy: UrlPolicy | null = null;
  let readAt = 0;
  return () => {
    const now = clock.monotonic();
    if (policy === null || now - readAt > POLICY_AGE_MS_MAX) {
      const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
      const ownAddresses = addresses.map(({ address }) => address);
      policy = { allow: webhooks.allowList, ownNames: [hostname()], ownAddresses };
      readAt = now;
    }
    return policy;
  };
}
