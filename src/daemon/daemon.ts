import { version } from "../assets.ts";
import type { Config } from "../config/config.ts";
import { type Clock, settlesWithin } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { everyStep } from "../domain/error.ts";
import type { Gauges } from "../domain/observer.ts";
import { pauseOfAll } from "../domain/webhook/delivery-pause.ts";
import type { OperatorEvent } from "../domain/webhook/webhook-request.ts";
import { PlaceShortage } from "../http/admission/connections.ts";
import { Arrivals } from "../http/admission/turns.ts";
import { atMetricsAddress, checkAddress } from "../http/server/listen.ts";
import type { HttpServer, ServerOptions } from "../http/server/server.ts";
import { BackupFolder, BackupKeeper } from "../ops/backup.ts";
import {
  type TlsMaterial,
  fitConnections,
  readTlsFiles,
  readWebhookAuthorities,
  warnOfValidity,
} from "../ops/check.ts";
import { DatabaseError, databaseOf } from "../ops/database-of.ts";
import { keepServedMode, modeOf } from "../ops/database.ts";
import { ReceiverWatch } from "../ops/events.ts";
import { Meter, joinObservers, readGauges } from "../ops/meter.ts";
import { hasOthers } from "../ops/nodes.ts";
import type { GiveWay } from "../store/common/read-turns.ts";
import type { DeliveryPause, Store } from "../store/store.ts";
import { openClock } from "./clock.ts";
import type { Closings, Composed, DaemonOptions } from "./compose.ts";
import { type ConfigInForce, type SetLevel, reloader } from "./reload.ts";

export type { DaemonOptions } from "./compose.ts";
export { NOT_RELOADED } from "./reload.ts";

export interface Daemon {
  readonly url: string;
  readonly port: number;
  /** The address of the metrics' own listener; null without one. */
  readonly metricsUrl: string | null;
  /** False if the file had no account at the start: then no client can use the daemon yet. */
  readonly hadAccounts: boolean;
  /** Settles at a moment when no task runs or can be started, and no delivery is in flight or due. */
  idle(): Promise<void>;
  /** Settles when all writers have reached it or failed. Then nothing of the daemon hangs. */
  hasTurned(): Promise<void>;
  /** How much there is now. Rejects with a StoreError when that cannot be read. */
  gauges(): Promise<Gauges>;
  /** Applies certificate, webhook targets and types of a new configuration, and logs what takes a restart. */
  reload(next: Config, setLevel?: SetLevel): void;
  /** The changes that the operator makes to the file while it is served. */
  readonly store: Pick<
    Store,
    | "createAccount"
    | "createKey"
    | "createWorker"
    | "createSignInLink"
    | "findSecrets"
    | "findKeyHolder"
  >;
  /**
   * Drains for 18 s, then aborts: nothing acknowledged is lost. Settles when the database is closed, and rejects
   * with the error of closing it. Safe to call twice.
   */
  stop(drain?: DrainLimit): Promise<void>;
}

export interface DrainLimit {
  readonly ms: number;
  readonly clock: Clock;
}

/** With the 5 s that a command has between SIGTERM and SIGKILL this stays within the 25 s of a stop (cli.md). */
export const DRAIN_MS = 18_000;

/**
 * How long a daemon of a cluster serves after /readyz has changed to 503: a load balancer that checks once a second and
 * reacts to the second failure sends no more requests by then. Without that a connection that was made just before
 * would be closed without an answer, and only the client knows whether its request may be sent again.
 */
const LEAVE_MS = 3000;

/**
 * Starts the daemon: the only place that knows every ring and ties them together. Rejects with an InstanceLockError
 * when the database is served already, a DatabaseError when it cannot be opened, a ListenError when the address is not
 * available, and a TlsFileError when the certificate cannot be served or `webhooks.ca` holds no authority.
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  // Before anything is locked or made: a wrong file must be fixed first.
  const tls = openCertificate(options);
  const authorities = readWebhookAuthorities(options.config);
  const closings: Closings = [];
  try {
    const config = fitConnections(options.config, options);
    return await openDaemon(forDevelopment({ ...options, config }), { tls, authorities, closings });
  } catch (error) {
    // That error must be reported, also if something else fails.
    await everyStep(closings).catch(() => {});
    throw databaseOf(options.config).explain(error);
  }
}

interface Opened {
  readonly tls: TlsMaterial | null;
  readonly authorities: readonly string[];
  readonly closings: Closings;
}

async function openDaemon(
  given: DaemonOptions,
  { tls, authorities, closings }: Opened,
): Promise<Daemon> {
  const { config, log } = given;
  const inForce: ConfigInForce = { config, restartNeeds: [] };
  const certificate = { served: tls };
  const options = { ...given, ...observersOf(given), certificate: () => certificate.served };
  const database = databaseOf(config);
  const lock = database.lock();
  closings.unshift(() => lock.release());
  // Connections that come in take precedence over work that can wait.
  const arrivals = new Arrivals();
  // A start that fails for its address must not leave a new database behind.
  await checkAddress(config);
  if (config.metrics.listen !== null) await atMetricsAddress(config.metrics.listen, checkAddress);
  const giveWay: GiveWay = (callback) => arrivals.afterwards(callback);
  // A file's writer thread takes about as long to start as everything else to load.
  const [opened, { compose, openMetrics, openServer }] = await Promise.all([
    database.openDaemonStore({ ...options, giveWay, mode: modeOf(given) }),
    import("./compose.ts"),
  ]);
  closings.unshift(() => opened.close());
  await keepServedMode(opened, { ...config, mode: modeOf(given) });
  const store = given.dev?.store(opened) ?? opened;
  const clock = await openClock({ machine: store.cluster.clock, store, log });
  const hadAccounts = (await store.listAccounts()).length > 0;
  const watch = database.watch({ store, clock, log });
  const folder = await BackupFolder.open(config, store);
  const backups = new BackupKeeper({ config, folder, database, clock, log });
  closings.unshift(() => backups.close());
  const found = { clock, database, store, watch, backups, inForce, authorities };
  const { engine, api, reloadTypes, events } = await compose({ ...options, ...found }, closings);
  const shortage = new PlaceShortage({ clock, log });
  const { host, port, limits } = config;
  const { app, headers, isProxy } = api;
  const serving = { host, port, tls, arrivals, limits, headers, isProxy };
  const onShortage: ServerOptions["onShortage"] = (what) => shortage.note(what);
  const server = await openServer(app, { ...serving, onShortage });
  closings.unshift(() => server.abort());
  const metricsUrl = await openMetrics(options, { api, closings });
  lock.announce(server.url);
  await applyPause(store, { ...given, clock });
  // Before the first task is accepted: tasks that it finds running were running in an earlier process.
  await engine.start();
  closings.unshift(() => watch.close());
  watch.start();
  backups.start();
  api.open(server.url);
  events.tell(startEvent(clock.now()));
  api.conditions.start();
  const aimEvents = (target: Config["events"]): void => {
    if (events.aim(target)) api.conditions.tellAgain();
  };
  const taken = { database, server, reloadTypes, certificate, aimEvents };
  const reload = reloader({ ...taken, inForce, clock, log });
  const types = [...config.types.keys()];
  const made = { store, types, clock, engine, api, server, backups, events };
  return toDaemon({ ...made, closings, hadAccounts, reload, metricsUrl });
}

/** For development without backups, which an advance of weeks would push out, and without events to the operator. */
function forDevelopment(options: DaemonOptions): DaemonOptions {
  if (options.dev === undefined) return options;
  const { backup, events, ...config } = options.config;
  const without = { backup: { ...backup, schedule: null }, events: { ...events, url: null } };
  return { ...options, config: { ...config, ...without } };
}

function observersOf({ observer, clock, log }: DaemonOptions) {
  const [meter, receivers] = [new Meter(), new ReceiverWatch(clock)];
  const all = [meter, receivers, ...(observer === undefined ? [] : [observer])];
  return { meter, receivers, observer: joinObservers(all, log) };
}

async function pauseEverything(
  store: Store,
  { clock, ...pause }: Pick<DeliveryPause, "pausedBy" | "reason"> & Pick<DaemonOptions, "clock">,
): Promise<void> {
  const everything = { accountId: null, host: null };
  const now = clock.now();
  const actor = { kind: "user", name: pause.pausedBy, address: null } as const;
  const details = { reason: pause.reason };
  const outcome = await store.pauseDeliveries({
    ...everything,
    ...pause,
    since: now,
    audit: { at: now, actor, action: "delivery.paused", subject: null, details },
  });
  if (outcome === "too many") {
    throw new DatabaseError("there are too many pauses of deliveries: resume some of them first");
  }
}

/** Pauses all webhooks if this is asked for. Logs a pause of all webhooks of any age, such as the pause of a restore. */
async function applyPause(
  store: Store,
  { pauseDeliveries, clock, log }: Pick<DaemonOptions, "pauseDeliveries" | "clock" | "log">,
): Promise<void> {
  if (pauseDeliveries) await pauseEverything(store, { ...pauseDeliveries, clock });
  const pause = pauseOfAll(await store.listDeliveryPauses());
  if (pause === null) return;
  const facts = { since: timeText(pause.since), reason: pause.reason };
  const waiting = await store.countScheduled(pause);
  const text = "all webhooks are paused; 'postbackd admin delivery resume' sends them";
  log.warn({ ...facts, waiting }, text);
}

function startEvent(time: number): OperatorEvent {
  const what = `postbackd ${version} has started: its earlier events are over, unless they are sent again`;
  const about = { subject: null, what, remedy: null, hosts: null };
  return { type: "daemon.started", status: "happened", time, since: null, ...about };
}

interface Parts extends Omit<Composed, "reloadTypes"> {
  readonly store: Store;
  readonly types: readonly string[];
  readonly clock: Clock;
  readonly server: HttpServer;
  readonly backups: BackupKeeper;
  readonly closings: Closings;
  readonly hadAccounts: boolean;
  readonly reload: Daemon["reload"];
  readonly metricsUrl: string | null;
}

function toDaemon(parts: Parts): Daemon {
  const { server, engine } = parts;
  let stopping: Promise<void> | null = null;
  return {
    url: server.url,
    port: server.port,
    metricsUrl: parts.metricsUrl,
    hadAccounts: parts.hadAccounts,
    store: parts.store,
    idle: () => engine.idle(),
    hasTurned: () => hasTurned(parts.store),
    gauges: () => readGauges(parts),
    reload: parts.reload,
    stop(drain = { ms: DRAIN_MS, clock: parts.clock }) {
      stopping ??= stop(parts, drain);
      return stopping;
    },
  };
}

// A writer that waits for PostgreSQL is not a thread of this process: a restart would not help it.
async function hasTurned(store: Store): Promise<void> {
  if (!store.cluster.isShared) await store.tryWrite().catch(() => {});
}

function stop(parts: Parts, limit: DrainLimit): Promise<void> {
  const { store, engine, api, server, backups, events, closings } = parts;
  const { clock } = limit;
  const leaveMs = store.cluster.isShared ? Math.min(LEAVE_MS, limit.ms) : 0;
  const endsAt = clock.monotonic() + limit.ms;
  const leftMs = (): number => Math.max(0, endsAt - clock.monotonic());
  return everyStep([
    () => backups.drain(),
    () => (leaveMs === 0 ? undefined : leave(parts, { clock, ms: leaveMs })),
    () => events.drain(),
    () => api.drain(),
    () => engine.drain(),
    () => server.drain(),
    () => settlesWithin(Promise.all([engine.quiet(), server.quiet()]), leftMs(), clock),
    // For requests that have not ended by then; before anything that may take long.
    () => server.abort(),
    () => engine.abort(),
    ...closings,
  ]);
}

/** Begins nothing more by itself. In a cluster it continues to serve until the load balancer has noticed. */
async function leave({ store, engine, api }: Parts, { clock, ms }: DrainLimit): Promise<void> {
  api.leave();
  engine.drain();
  const alone = hasOthers(store).then((has) => (has ? new Promise<never>(() => {}) : undefined));
  await settlesWithin(alone, ms, clock);
}

function openCertificate({ config, clock, log }: DaemonOptions): TlsMaterial | null {
  if (config.tls === null) return null;
  const material = readTlsFiles(config.tls);
  warnOfValidity(material, { now: clock.now(), log });
  return material;
}
