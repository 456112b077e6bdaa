import { renameSync, rmSync, writeFileSync } from "node:fs";

import { createSignInLink } from "../admin/account.ts";
import { commandHost, version } from "../assets.ts";
import { problemText, type Config, type ConfigVerdict } from "../config/config.ts";
import { NOT_RELOADED, startDaemon, type Daemon, type DaemonOptions } from "../daemon/daemon.ts";
import { watchSignals } from "../daemon/stop-signal.ts";
import { SIGN_IN_LINK_MS } from "../domain/account/account.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { MINUTE_MS } from "../domain/clock/duration.ts";
import { messageOf } from "../domain/error.ts";
import { createLogger, type RecentLogger } from "../log.ts";
import { warnOfRisks } from "../ops/check.ts";
import { dashboardUrl, referenceUrl } from "../ops/health.ts";
import { LoopWatch, type LoopDelay } from "../ops/meter.ts";
import { ServiceManager } from "../ops/service.ts";
import { StoreError } from "../store/store.ts";
import { EXIT, fail, isExpectedFailure } from "./failure.ts";
import { byCommand, commandUser } from "./user.ts";

/**
 * Serves until a signal asks it to stop, with all webhooks paused if that is asked for, then ends the process with 0. At
 * SIGHUP it takes over what it can of the configuration, as `readAgain` gives it. Throws an error that
 * `failureOf` explains if it cannot start.
 */
export async function serve(
  config: Config,
  {
    pausesDeliveries,
    readAgain,
  }: { readonly pausesDeliveries: boolean; readonly readAgain: () => ConfigVerdict },
): Promise<void> {
  const log = createLogger(config.log);
  endOnFault(log);
  const { env, pid } = process;
  const manager = new ServiceManager({ env, pid, log, clock: systemClock });
  const started = Promise.withResolvers<Daemon>();
  // A starting daemon may have read the old files already: it reloads as soon as it runs.
  const reload = (): void =>
    void started.promise.then(async (daemon) => {
      await manager.reloading();
      reloadFrom(readAgain, { daemon, log });
      await manager.ready(statusOf(daemon));
    });
  // Before anything else: as the first process of a container it would not even be ended by a signal.
  const stop = watchSignals({ log, reload });
  warnOfRisks(config, { log, env: process.env });
  const pauseDeliveries = pausesDeliveries
    ? { pausedBy: commandUser(), reason: PAUSE_OF_START }
    : null;
  const daemon = await startFor(config, { log, clock: systemClock, commandHost, pauseDeliveries });
  started.resolve(daemon);
  manager.watch(() => daemon.hasTurned());
  try {
    if (!stop.isAsked) announce(daemon, { config, log });
    if (!stop.isAsked) void manager.ready(statusOf(daemon));
    if (!stop.isAsked) showReference(daemon, config);
    if (!stop.isAsked) await greetOperator(daemon, { config, log });
    await stop.asked;
    void manager.stopping();
  } finally {
    // A process that waits for the next daemon must not find this one's line.
    if (config.readyFile !== null) rmSync(config.readyFile, { force: true });
    await daemon.stop();
  }
  log.info({}, "stopped");
  // Everything is written and closed; a connection that a peer keeps open must not hold up the end.
  process.exit(EXIT.done);
}

/** Never throws: no configuration is worth the daemon. */
function reloadFrom(
  readAgain: () => ConfigVerdict,
  { daemon, log }: { readonly daemon: Daemon; readonly log: RecentLogger },
): void {
  try {
    const verdict = readAgain();
    if (verdict.kind === "config") daemon.reload(verdict.config, log.setLevel);
    else log.error({ problems: verdict.problems.map(problemText) }, NOT_RELOADED);
  } catch (error) {
    log.error({ err: error }, NOT_RELOADED);
  }
}

function statusOf({ url }: Daemon): string {
  return `Serving at ${url}`;
}

const PAUSE_OF_START = "start --pause-deliveries";

export async function startFor(
  config: Config,
  { log, ...options }: Omit<DaemonOptions, "config"> & { readonly log: RecentLogger },
): Promise<Daemon> {
  const recentLog = log.recent;
  const watch = new LoopWatch({ now: () => systemClock.monotonic(), log });
  const loopDelay = (): LoopDelay => watch.delay();
  try {
    const daemon = await startDaemon({ ...options, config, log, recentLog, loopDelay });
    // The time of the start delays no task.
    watch.start();
    return daemon;
  } catch (error) {
    if (!isExpectedFailure(error)) log.debug({ err: error }, "the start failed");
    throw error;
  }
}

function announce(
  daemon: Daemon,
  { config, log }: { readonly config: Config; readonly log: RecentLogger },
): void {
  const { url, port, hadAccounts } = daemon;
  const { database: db, readyFile } = config;
  const ready = { event: "ready", url, port, pid: process.pid, db, version };
  log.info({ url, db, version }, "ready");
  if (!hadAccounts) {
    // The URL of a server would be shown without the password that it needs.
    const place = config.server === null ? ` --db ${db}` : "";
    log.warn({}, `no account yet; create one with: postbackd admin account create LOGIN${place}`);
  }
  printReady(ready, readyFile);
}

/** Prints the ready line and writes it to a file of mode 0600, of which a process that waits never sees a part. */
export function printReady(ready: object, file: string | null): void {
  const line = `${JSON.stringify(ready)}\n`;
  const unfinished = `${file}.${process.pid}.tmp`;
  try {
    if (file !== null) {
      // An earlier process with the same number left it; `wx` follows no link.
      rmSync(unfinished, { force: true });
      writeFileSync(unfinished, line, { flag: "wx", mode: 0o600 });
      renameSync(unfinished, file);
    }
  } catch (error) {
    const what = `the ready file ${file} cannot be written: ${messageOf(error)}`;
    fail(what, error);
  }
  process.stdout.write(line);
}

function showReference({ url }: Daemon, config: Config): void {
  if (!process.stderr.isTTY) return;
  process.stderr.write(`\nAPI reference: ${referenceUrl(config, url)}\n`);
}

/** Shows a sign-in link at the first start on a terminal. It is not logged: others may read the log. */
async function greetOperator(
  { hadAccounts, store, url: servedAt }: Daemon,
  { config, log }: { readonly config: Config; readonly log: RecentLogger },
): Promise<void> {
  if (hadAccounts || !config.dashboard || !process.stderr.isTTY) return;
  try {
    const audit = byCommand("session.link_made", null);
    const place = dashboardUrl(config, servedAt);
    const { path } = await createSignInLink({ store, clock: systemClock, audit });
    const minutes = SIGN_IN_LINK_MS / MINUTE_MS;
    process.stderr.write(
      `\nSign in as the operator, once, within ${minutes} minutes:\n\n  ${place + path}\n\n`,
    );
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    log.warn({ kind: error.kind }, "no sign-in link could be created; try: postbackd admin link");
  }
}

/** After an unhandled error only the file's state is certain, and a restart continues from it. */
export function endOnFault(log: RecentLogger): void {
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error: unknown) => {
    log.error({ err: error }, "an unhandled error ends the process; a restart is safe");
    process.exit(EXIT.failed);
  });
}
