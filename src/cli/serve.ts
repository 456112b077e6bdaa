import { rmSync } from "node:fs";

import { commandHost, version } from "../assets.ts";
import type { Config } from "../config/config.ts";
import {
  DatabaseError,
  InstanceLockError,
  ListenError,
  startDaemon,
  TlsFileError,
  type Daemon,
} from "../daemon/daemon.ts";
import { createSignInLink, dashboardUrl } from "../daemon/link.ts";
import { LoopWatch, type LoopDelay } from "../daemon/loop-watch.ts";
import { warnOfRisks } from "../daemon/warnings.ts";
import { SIGN_IN_LINK_MS } from "../domain/account/session.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { createLogger, type RecentLogger } from "../log.ts";
import { StoreError } from "../store/store.ts";
import { CommandFailure, ConfigurationError, EXIT } from "./failure.ts";
import { writeReadyFile } from "./ready-file.ts";
import { watchSignals } from "./stop-signal.ts";

/**
 * Serves until a signal asks it to stop, then ends the process with 0. Throws a {@link CommandFailure} when it cannot
 * start, and a {@link ConfigurationError} when its certificate cannot be served.
 */
export async function serve(config: Config): Promise<void> {
  const log = createLogger(config.log);
  endOnFault(log);
  const started = Promise.withResolvers<Daemon>();
  // A starting daemon may have read the old files already: it reloads as soon as it runs.
  const reload = (): void => void started.promise.then((daemon) => daemon.reload());
  // Before anything else: as the first process of a container it would not even be ended by a signal.
  const stop = watchSignals({ log, reload: config.tls === null ? null : reload });
  warnOfRisks(config, { log, env: process.env });
  const daemon = await start(config, log);
  started.resolve(daemon);
  try {
    if (!stop.isAsked) announce(daemon, { config, log });
    if (!stop.isAsked) await greetOperator(daemon, { config, log });
    await stop.asked;
  } finally {
    // A process that waits for the next daemon must not find this one's line.
    if (config.readyFile !== null) rmSync(config.readyFile, { force: true });
    await daemon.stop();
  }
  log.info({}, "stopped");
  // Everything is written and closed; a connection that a peer keeps open must not hold up the end.
  process.exit(EXIT.done);
}

async function start(config: Config, log: RecentLogger): Promise<Daemon> {
  const recentLog = log.recent;
  const watch = new LoopWatch({ now: () => systemClock.monotonic(), log });
  const loopDelay = (): LoopDelay => watch.delay();
  try {
    const parts = { config, clock: systemClock, log, recentLog, loopDelay, commandHost };
    const daemon = await startDaemon(parts);
    // The time of the start is nobody's delay.
    watch.start();
    return daemon;
  } catch (error) {
    if (error instanceof TlsFileError) throw new ConfigurationError([error.message]);
    const isExpected = EXPECTED.some((kind) => error instanceof kind);
    throw isExpected && error instanceof Error
      ? new CommandFailure(error.message, { cause: error })
      : error;
  }
}

const EXPECTED = [InstanceLockError, DatabaseError, ListenError, StoreError];

function announce(
  daemon: Daemon,
  { config, log }: { readonly config: Config; readonly log: RecentLogger },
): void {
  const { url, port, hadAccounts } = daemon;
  const { database: db, readyFile } = config;
  const ready = { event: "ready", url, port, pid: process.pid, db, version };
  const line = `${JSON.stringify(ready)}\n`;
  log.info({ url, db, version }, "ready");
  if (!hadAccounts) {
    // The URL of a server would be shown without the password that it needs.
    const place = config.server === null ? ` --db ${db}` : "";
    log.warn({}, `no account yet; make one with: postbackd admin account create LOGIN${place}`);
  }
  if (readyFile !== null) writeReadyFile(readyFile, line);
  process.stdout.write(line);
}

/**
 * Shows an operator who starts the daemon for the first time, at a terminal, how to sign in. It is not logged, because
 * others may read the log, and it is kept.
 */
async function greetOperator(
  { hadAccounts, store, url: servedAt }: Daemon,
  { config, log }: { readonly config: Config; readonly log: RecentLogger },
): Promise<void> {
  if (hadAccounts || !config.dashboard || !process.stderr.isTTY) return;
  try {
    const { url } = await createSignInLink(dashboardUrl(config, servedAt), {
      store,
      clock: systemClock,
    });
    const minutes = SIGN_IN_LINK_MS / 60_000;
    process.stderr.write(
      `\nSign in as the operator, once, within ${minutes} minutes:\n\n  ${url}\n\n`,
    );
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    log.warn({ kind: error.kind }, "no sign-in link could be made; try: postbackd admin link");
  }
}

/** After an error that nobody handled, only the file's state is certain, and a restart continues from it. */
function endOnFault(log: RecentLogger): void {
  process.on("uncaughtException", (error: unknown) => {
    log.error({ err: error }, "an unhandled error; the process ends, and a restart is safe");
    process.exit(EXIT.failed);
  });
}
