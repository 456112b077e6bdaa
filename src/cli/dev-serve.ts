import { createSignInLink } from "../admin/account.ts";
import { version } from "../assets.ts";
import type { Config } from "../config/config.ts";
import type { Daemon } from "../daemon/daemon.ts";
import { watchSignals } from "../daemon/stop-signal.ts";
import { AccountMaker } from "../dev/account-maker.ts";
import { seededMode } from "../dev/dev-mode.ts";
import { greeting, withOwnTargets } from "../dev/greeting.ts";
import { STANDARD_DEV_LOGIN } from "../domain/account/account.ts";
import { systemClock, type Clock } from "../domain/clock/clock.ts";
import { inboxUrl } from "../domain/webhook/inbox.ts";
import { createLogger } from "../log.ts";
import { dashboardUrl } from "../ops/health.ts";
import type { DevArgs } from "./dev.ts";
import { EXIT, fail } from "./failure.ts";
import { endOnFault, startFor, printReady } from "./serve.ts";
import { byCommand } from "./user.ts";

// Runs of held tasks would wait for ever, and a database that is kept continues with the other tasks.
const DRAIN = { ms: 1000, clock: systemClock };

/** Serves until a signal, or the end of stdin, stops it. Then ends the process with 0. */
export async function serveForDevelopment(given: Config, args: DevArgs): Promise<void> {
  const config = args["strict-targets"] ? given : withOwnTargets(given);
  const log = createLogger(config.log);
  endOnFault(log);
  const signals = watchSignals({ log, reload: null });
  const stop = Promise.race([signals.asked, ...(args["stop-with-stdin"] ? [stdinEnds()] : [])]);
  const { dev, close } = seededMode({ seed: args.seed, clock: args.clock ?? "real" });
  const { clock } = dev;
  const daemon = await startFor(config, { log, clock, dev });
  try {
    await announce(daemon, { config, clock, args });
    await stop;
  } finally {
    await daemon.stop(DRAIN);
    close();
  }
  if (args.keep) log.info({ db: config.database }, "stopped; the database is kept");
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
  { config, clock, args }: { config: Config; clock: Clock; args: DevArgs },
): Promise<void> {
  const maker = new AccountMaker({ store, clock });
  const { key, "webhook-secret": webhookSecret } = args;
  const made = await maker.make({
    login: STANDARD_DEV_LOGIN,
    ...(key !== null && { key }),
    ...(webhookSecret !== null && { webhookSecret }),
  });
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
