import { createSignInLink } from "../admin/account.ts";
import { version } from "../assets.ts";
import type { Config } from "../config/config.ts";
import type { Daemon } from "../daemon/daemon.ts";
import { watchSignals } from "../daemon/stop-signal.ts";
import { AccountMaker, type MadeAccount } from "../dev/account-maker.ts";
import type { ClockMode } from "../dev/dev-clock.ts";
import { seededMode } from "../dev/dev-mode.ts";
import { greeting, withOwnTargets } from "../dev/greeting.ts";
import { STANDARD_DEV_LOGIN } from "../domain/account/account.ts";
import { systemClock, type Clock } from "../domain/clock/clock.ts";
import { inboxUrl } from "../domain/webhook/inbox.ts";
import { createLogger } from "../log.ts";
import { dashboardUrl } from "../ops/health.ts";
import { EXIT, fail } from "./failure.ts";
import { endOnFault, startFor, printReady } from "./serve.ts";
import { byCommand } from "./user.ts";

export interface DevOrder {
  readonly clock: ClockMode;
  /** Null for a run like no other. */
  readonly seed: number | null;
  readonly account: Partial<MadeAccount>;
  readonly isStrict: boolean;
  readonly stopsWithStdin: boolean;
  readonly isKept: boolean;
}

// Who runs tasks under hold would wait for them for ever, and a database that is kept goes on with the rest.
const DRAIN = { ms: 1000, clock: systemClock };

/**
 * Serves for tests and development until a signal, or the end of stdin, asks it to stop, then ends the process with 0.
 * Throws a {@link CommandFailure} when it cannot start.
 */
export async function serveForDevelopment(given: Config, order: DevOrder): Promise<void> {
  const config = order.isStrict ? given : withOwnTargets(given);
  const log = createLogger(config.log);
  endOnFault(log);
  const signals = watchSignals({ log, reload: null });
  const stop = order.stopsWithStdin ? Promise.race([signals.asked, stdinEnds()]) : signals.asked;
  const { dev, close } = seededMode(order);
  const { clock } = dev;
  const daemon = await startFor(config, { log, clock, dev });
  try {
    await announce(daemon, { config, clock, account: order.account });
    await stop;
  } finally {
    await daemon.stop(DRAIN);
    close();
  }
  if (order.isKept) log.info({ db: config.database }, "stopped; the database is kept");
  else log.info({}, "stopped");
  process.exit(EXIT.done);
}

function stdinEnds(): Promise<void> {
  return new Promise((resolve) => {
    process.stdin
      .on("end", resolve)
      .on("close", resolve)
      .on("error", () => resolve());
    process.stdin.resume();
  });
}

async function announce(
  { url, port, store }: Daemon,
  { config, clock, account }: { config: Config; clock: Clock } & Pick<DevOrder, "account">,
): Promise<void> {
  const maker = new AccountMaker({ store, clock });
  const made = await maker.make({ login: STANDARD_DEV_LOGIN, ...account });
  if (made === null) {
    return fail(
      `the account ${STANDARD_DEV_LOGIN} in ${config.database} cannot have this key, or has too many: leave out --key, or take another file`,
    );
  }
  const audit = byCommand("session.link_made", null);
  const place = dashboardUrl(config, url);
  const link = config.dashboard ? await createSignInLink({ store, clock, audit }) : null;
  const ready = {
    event: "ready",
    mode: "dev",
    url,
    port,
    pid: process.pid,
    db: config.database,
    version,
    account: made.login,
    key: made.key,
    webhook_secret: made.webhookSecret,
    worker_token: await workerToken(maker, config),
    inbox_url: inboxUrl(url, made.login),
    dashboard_url: link && place + link.path,
  };
  printReady(ready, config.readyFile);
  if (process.stderr.isTTY) process.stderr.write(greeting(ready, config));
}

async function workerToken(
  maker: AccountMaker,
  { types, database }: Config,
): Promise<string | null> {
  const own = [...types.values()].filter(({ kind }) => kind === "worker");
  if (own.length === 0) return null;
  const token = await maker.makeWorker(own.map(({ name }) => name));
  if (token !== null) return token;
  return fail(
    `${database} has the worker of an earlier run with this seed: take another seed, or leave out --db`,
  );
}
