import { randomBytes } from "node:crypto";
import { basename, join } from "node:path";

import { commandHost } from "../assets.ts";
import type { Config } from "../config/config.ts";
import { DRAIN_MS, startDaemon, type Daemon } from "../daemon/daemon.ts";
import { makeThrowawayFolder, removeThrowawayFolder } from "../daemon/throwaway-folder.ts";
import { AccountMaker } from "../dev/account-maker.ts";
import { LOGIN } from "../domain/account/account.ts";
import { ACTIVE_KEYS_MAX, newWorkerToken } from "../domain/account/key.ts";
import { systemClock, type Clock } from "../domain/clock/clock.ts";
import { WORKER_NAME } from "../domain/lease/lease.ts";
import { quote } from "../domain/rule.ts";
import { warnOfRisks } from "../ops/check.ts";
import { toLogger } from "./logger.ts";
import type { DaemonAccount, DaemonSettings, EmbeddedDaemon } from "./options.ts";
import { readSettings } from "./settings.ts";

export { startDevDaemon } from "./dev-daemon.ts";

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
    return toEmbeddedDaemon({ daemon, config, clock, cleanUp });
  } catch (error) {
    cleanUp();
    throw error;
  }
}

/**
 * Tells whether commands get a process beside the program's. That process ends them when the program ends, by whatever
 * signal; no handler of a library could do so without keeping the signal from the program. It does not exist with a
 * clock of the program's own, which it cannot have. And it needs Node as the program's executable: anything else that
 * carries Node in it would start the program again.
 */
function hasHost(clock: Clock): boolean {
  return clock === systemClock && basename(process.execPath).startsWith("node");
}

interface EmbeddedParts {
  readonly daemon: Daemon;
  readonly config: Config;
  readonly clock: Clock;
  readonly cleanUp: () => void;
}

function toEmbeddedDaemon(parts: EmbeddedParts): EmbeddedDaemon {
  const { daemon, cleanUp } = parts;
  const accounts = new AccountMaker({ store: daemon.store, clock: parts.clock });
  let stopped: Promise<void> | null = null;
  return {
    url: daemon.url,
    port: daemon.port,
    account: (login = `account-${randomBytes(4).toString("hex")}`) => makeAccount(login, accounts),
    workerToken: (name, types) => makeWorker(name, types, parts),
    idle: () => daemon.idle(),
    stop({ graceMs = DRAIN_MS } = {}) {
      // Work under way takes the machine's time, and with a clock that nobody moves the wait for it would never end.
      stopped ??= daemon.stop({ ms: graceMs, clock: systemClock }).finally(cleanUp);
      return stopped;
    },
  };
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
  { daemon: { store }, config, clock }: EmbeddedParts,
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
