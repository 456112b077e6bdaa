import { createHash } from "node:crypto";

import { dashboardFiles } from "../assets.ts";
import type { Config } from "../config/config.ts";
import { UNCOUNTED_PER_HOUR } from "../domain/account/quota.ts";
import type { Clock, SteadyClock } from "../domain/clock/clock.ts";
import { HOUR_MS, MINUTE_MS } from "../domain/clock/duration.ts";
import { everyStep } from "../domain/error.ts";
import { IdGenerator } from "../domain/id.ts";
import type { Logger, LogLine } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import type { ResponseHeaders } from "../domain/status.ts";
import type { UrlPolicy } from "../domain/webhook/webhook-url.ts";
import { createApp, type AppDeps } from "../http/app.ts";
import type { DevDesk } from "../http/dev-desk.ts";
import { toBrowserPolicy } from "../http/guard/browser-guard.ts";
import { isTrustedProxy, toProxyPolicy } from "../http/guard/client-address.ts";
import { FloodWatch } from "../http/guard/flood-watch.ts";
import type { GateDeps } from "../http/guard/gate.ts";
import { ProxyWatch } from "../http/guard/proxy-watch.ts";
import { RateLimiter } from "../http/guard/rate-limiter.ts";
import { RefusedCredentials } from "../http/guard/refused-credentials.ts";
import { listCursors, newCursorKey, type ListCursors } from "../http/list-cursor.ts";
import { LiveFeed, newBootName } from "../http/live/live-feed.ts";
import type { ConfiguredType } from "../http/operation-deps.ts";
import { operations } from "../http/operations.ts";
import { lookAtTypes } from "../http/operations/operator-runners.ts";
import type { TaskWaiters } from "../http/task-waiters.ts";
import { usageNotes } from "../http/usage-notes.ts";
import type { BackupKeeper } from "../ops/backup.ts";
import { ConditionBoard, type ConditionParts, conditionSource } from "../ops/conditions.ts";
import type { Database, Watch } from "../ops/database.ts";
import type { EventSender, ReceiverWatch } from "../ops/events.ts";
import type { LoopDelay, Meter } from "../ops/meter.ts";
import {
  type MetricsParts,
  type MetricsSource,
  StoreSample,
  type TypeSample,
  metricsSource,
  toTypeSample,
} from "../ops/metrics.ts";
import { absence, statusSource, tellOfNode } from "../ops/nodes.ts";
import { StorageWatch } from "../ops/storage.ts";
import type { Parser } from "../parser/parser.ts";
import type { Engine } from "../run/engine.ts";
import { FileFault, type LaneRef, type Store } from "../store/store.ts";
import type { ConfigInForce } from "./reload.ts";
import { runnerTypes, shownRunner, systemSource } from "./system.ts";

export interface ApiParts {
  /** Of the start. */
  readonly config: Config;
  readonly inForce: Readonly<ConfigInForce>;
  readonly clock: SteadyClock;
  /** The clock of requests that wait for something: the same, but where that one may stand still. */
  readonly requestClock: Clock;
  readonly log: Logger;
  readonly database: Database;
  readonly store: Store;
  readonly watch: Pick<Watch, "warnings">;
  readonly backups: Pick<BackupKeeper, "state" | "warnings">;
  readonly engine: Engine;
  readonly waiters: TaskWaiters;
  readonly urlPolicy: () => UrlPolicy;
  readonly parser: Pick<Parser, "bodies">;
  /** The last lines of the log. */
  readonly recentLog?: () => readonly LogLine[];
  readonly loopDelay?: () => LoopDelay;
  readonly observer?: Observer | undefined;
  readonly meter: Meter;
  readonly receivers: Pick<ReceiverWatch, "failing" | "takeGivenUp">;
  /** The certificate that is served; null without one. */
  readonly certificate: ConditionParts["certificate"];
  readonly events: Pick<EventSender, "tell">;
  /** The means of the operations for development; null where there are none. */
  readonly dev: DevDesk | null;
}

export interface Api extends Pick<AppDeps, "gate" | "ids"> {
  readonly app: ReturnType<typeof createApp>;
  readonly headers: ResponseHeaders;
  /** Everything that is counted, as text. */
  readonly metrics: MetricsSource;
  /** The list of what the operator should mend; it looks once it is started, until the API drains. */
  readonly conditions: ConditionBoard;
  /** True when a peer is a proxy whose word about its clients counts. */
  readonly isProxy: (address: string) => boolean;
  /** Accepts tasks from now on, at this URL. */
  open(url: string): void;
  /** Says that it is not ready, and serves all the same: for as long as requests come. */
  leave(): void;
  /** Accepts no more tasks and releases the requests that wait for one. */
  drain(): void;
  /** Writes what it keeps in memory. To be called when no more webhooks are sent, before the store is closed. */
  close(): Promise<void>;
}

// For one task. Enough for somebody who fixes a receiver and tries again; a loop would turn the daemon into a weapon.
const REDELIVERIES_PER_MINUTE = 30;

// For a daemon in somebody else's process.
const UNWATCHED = { recentLog: () => [], loopDelay: () => null };

/** Makes the API. It refuses tasks until it is opened. */
export async function createApi(parts: ApiParts): Promise<Api> {
  const { clock, requestClock, log, store, engine, waiters } = parts;
  const storage = newStorageWatch(parts);
  // Makes a start without room write that to the log.
  await storage.shortage();
  const state = { isOpen: false, isLeaving: false, url: "" };
  // A halted engine would never run the tasks that are accepted.
  const isAccepting = (): boolean => state.isOpen && !engine.isHalted && store.cluster.isMember();
  const isServing = (): boolean => state.isOpen && !state.isLeaving;
  const hasRoom = async (): Promise<boolean> => (await storage.shortage()) === null;
  const url = (): string => state.url;
  tellOfNode(parts, url);
  const [usage, ids] = [usageNotes(parts), new IdGenerator()];
  const cursors = await keptCursors(store);
  const liveFeed = new LiveFeed({ store, clock: requestClock, log, boot: newBootName() });
  const refusedCredentials = newRefusedCredentials(parts);
  const [floods, proxyWatch] = [new FloodWatch(clock), new ProxyWatch(clock)];
  const gate = createGate(parts, { usage, refusedCredentials, floods, proxyWatch });
  const notReady = (): Promise<string | null> =>
    notReadyReason(parts, { isOpen: isServing(), storage });
  const isReady = (): Promise<boolean> => notReady().then((reason) => reason === null);
  const metrics = newMetrics(parts, { usage, isReady });
  const conditions = newBoard(parts, { usage, storage, floods, proxies: proxyWatch });
  const common = { store, clock, log, ids, cursors, waiters, liveFeed, floods, url };
  const all = operations({
    ...configFacts(parts),
    ...engineCalls(parts),
    ...callLimits(parts),
    ...troubleCalls(parts, { storage, conditions }),
    ...usage,
    ...common,
    refusedCredentials,
    isAccepting,
    serviceStatus: statusSource(parts, { isAccepting, hasRoom }),
    systemFacts: systemSource({ ...UNWATCHED, ...parts, conditions, url }),
    nodeId: () => store.cluster.self,
    notReadyReason: notReady,
    metricsText: metrics,
  });
  return {
    app: newApp(parts, { operations: all, gate, ids }),
    headers: ownHeaders(parts),
    ...{ gate, ids, metrics },
    conditions,
    isProxy: (address) => isTrustedProxy(address, gate.proxies),
    open: (at) => void Object.assign(state, { url: at, isOpen: true }),
    leave() {
      state.isLeaving = true;
    },
    drain() {
      state.isOpen = false;
      conditions.drain();
      waiters.abort();
      liveFeed.close();
      refusedCredentials.write();
    },
    close: () => everyStep([() => conditions.close(), () => writeNotes(usage)]),
  };
}

async function writeNotes(usage: MetricsMeans["usage"]): Promise<void> {
  await Promise.all(Object.values(usage).map((each) => each.write()));
}

function newApp(parts: ApiParts, made: Pick<AppDeps, "operations" | "gate" | "ids">): Api["app"] {
  const { config, requestClock: clock, log, observer, dev } = parts;
  const { limits, dashboard } = config;
  const pages = dashboard ? dashboardFiles : null;
  const logsRequests = config.log.requests;
  const headers = ownHeaders(parts);
  const app = { ...made, clock, log, limits, pages, observer, logsRequests, headers };
  return createApp(dev === null ? app : { ...app, inbox: dev.inbox });
}

function ownHeaders({ dev }: ApiParts): ResponseHeaders {
  return dev === null ? {} : { "x-postbackd-mode": "dev" };
}

async function keptCursors(store: Pick<Store, "keepSecret">): Promise<ListCursors> {
  const fresh = newCursorKey();
  return listCursors(await store.keepSecret({ name: "cursors", fresh }));
}

function newBoard(
  parts: ApiParts,
  {
    usage,
    storage,
    ...watches
  }: Pick<ConditionParts, "floods" | "proxies"> &
    Pick<MetricsMeans, "usage"> & { readonly storage: StorageWatch },
): ConditionBoard {
  const { clock, log, store, receivers, events } = parts;
  const fault = (): string | null => brokenReason(parts) ?? absence(store);
  const shortage = (): Promise<string | null> => storage.shortageNow();
  const workerTypes = typeLook(parts, { usage, isMeant: ({ kind }) => kind === "worker" });
  return new ConditionBoard({
    clock,
    log,
    cluster: store.cluster,
    find: conditionSource({
      ...parts,
      ...watches,
      workerTypes,
      fault,
      shortage,
      nodes: nodesOf(parts),
    }),
    takeGivenUp: (when) => receivers.takeGivenUp(when),
    tell: (event, lost) => events.tell(event, lost),
  });
}

interface MetricsMeans extends Pick<MetricsParts, "isReady"> {
  readonly usage: ReturnType<typeof usageNotes>;
}

function newMetrics(parts: ApiParts, { usage, isReady }: MetricsMeans): MetricsSource {
  return metricsSource({ ...UNWATCHED, ...parts, sample: newSample(parts, usage), isReady });
}

function newSample(parts: ApiParts, usage: ReturnType<typeof usageNotes>): StoreSample {
  return new StoreSample({ ...parts, types: typeLook(parts, { usage, isMeant: () => true }) });
}

interface TypeLookMeans extends Pick<MetricsMeans, "usage"> {
  readonly isMeant: (type: ConfiguredType) => boolean;
}

/** Looks at the work of the types that are meant. */
function typeLook(
  parts: ApiParts,
  { usage, isMeant }: TypeLookMeans,
): () => Promise<readonly TypeSample[]> {
  const { inForce, clock, store, engine } = parts;
  const workersWaiting = (type: string): number => engine.desk.waitingFor(type);
  const types = (): readonly ConfiguredType[] => runnerTypes(inForce.config).filter(isMeant);
  const look = { ...usage, store, runnerTypes: types, workersWaiting };
  return async () => {
    // The thread that counts takes 15 MB, and is not started for nothing.
    if (types().length === 0) return [];
    return (await lookAtTypes(look, clock.now())).types.map(toTypeSample);
  };
}

function newStorageWatch({ config, database, store, clock, log }: ApiParts): StorageWatch {
  const freeBytes = (): number => database.freeBytes();
  return new StorageWatch({ ...config.limits, store, clock, log, freeBytes });
}

/** The facts that operations need from the configuration. */
function configFacts(parts: ApiParts) {
  const { config } = parts;
  const { limits, retentionMs, retentionDays, marketplaces } = config;
  return {
    dev: parts.dev,
    servesDashboard: config.dashboard,
    limits,
    retentionMs,
    retentionDays,
    rules: taskRules(parts),
    parser: parts.parser.bodies,
    workerTypes: workerTypes(config),
    webhooks: config.webhooks,
    runnerTypes: () => runnerTypes(parts.inForce.config),
    runnerOf: (type: string) => shownRunner(type, parts.inForce.config),
    marketplaces: marketplaces.map(({ details, ...head }) => ({ ...head, ...details })),
  };
}

/** The calls that operations make to the engine. */
function engineCalls({ engine, waiters, observer }: ApiParts) {
  return {
    posted: observer?.post,
    desk: engine.desk,
    progressOf: (id: string) => engine.progressOf(id),
    findProgress: (ids: readonly string[]) => engine.findProgress(ids),
    wake: (types: ReadonlySet<string>) => engine.wake(types),
    accountsChanged: () => engine.accountsChanged(),
    pausesChanged: () => engine.pausesChanged(),
    wakeDeliveries: (lanes: readonly LaneRef[]) => engine.wakeDeliveries(lanes),
    workersWaiting: (type: string) => engine.desk.waitingFor(type),
    cancelled(id: string) {
      engine.cancel(id);
      waiters.tell(id);
      observer?.end?.({ type: null, state: "cancelled" });
    },
  };
}

/** Whatever the operator should mend, as operations ask for it. */
function troubleCalls(
  { watch, backups }: ApiParts,
  { storage, conditions }: { readonly storage: StorageWatch; readonly conditions: ConditionBoard },
) {
  return {
    shortage: () => storage.shortage(),
    shareBytes: () => storage.shareBytes,
    conditions: () => conditions.standing(),
    databaseWarnings: () => [...watch.warnings(), ...backups.warnings()],
  };
}

/** How many nodes share a limit that each of them counts by itself. */
function nodesOf({ store: { cluster } }: Pick<ApiParts, "store">): () => number {
  return () => Math.max(1, cluster.membership().length);
}

function newLimiter({ clock, store }: ApiParts, windowMs: number, limit: number): RateLimiter {
  return new RateLimiter({ limit, windowMs, clock, nodes: nodesOf({ store }) });
}

function callLimits(parts: ApiParts) {
  const { limits } = parts.config;
  return {
    postedTasks: newLimiter(parts, MINUTE_MS, limits.account.tasksPerMinute),
    redeliveries: newLimiter(parts, MINUTE_MS, REDELIVERIES_PER_MINUTE),
    uncounted: newLimiter(parts, HOUR_MS, UNCOUNTED_PER_HOUR),
    accessRequests: newLimiter(parts, HOUR_MS, limits.accessRequestsPerHour),
    accessNetworks: newLimiter(parts, HOUR_MS, limits.accessRequestsPerHour),
  };
}

function createGate(
  parts: ApiParts,
  {
    usage,
    ...watches
  }: Pick<GateDeps, "floods" | "proxyWatch" | "refusedCredentials"> & {
    readonly usage: ReturnType<typeof usageNotes>;
  },
): GateDeps {
  const { config, inForce, clock, store, dev } = parts;
  const { trustedProxies, insecureHttp, tls, limits } = config;
  return {
    store,
    clock,
    ...usage,
    ...watches,
    accountLimits: limits.account,
    metricsToken: () => inForce.config.metrics.token,
    browsers: config.dashboard || dev !== null ? toBrowserPolicy(config) : null,
    proxies: toProxyPolicy({
      trustedProxies,
      insecureHttp,
      servesTls: tls !== null,
      sessionScope: sessionScope(config),
    }),
    requests: newLimiter(parts, MINUTE_MS, limits.account.requestsPerMinute),
  };
}

function newRefusedCredentials(parts: ApiParts): RefusedCredentials {
  const limit = parts.config.limits.failedAuthenticationsPerMinute;
  return new RefusedCredentials({ ...parts, limiter: newLimiter(parts, MINUTE_MS, limit) });
}

/** The same at all daemons of a server's database; null where a file is served, by one daemon. */
export function sessionScope({ server }: Pick<Config, "server">): string | null {
  if (server === null) return null;
  const hosts = server.hosts.map(({ host, port }) => `${host}:${port}`).toSorted();
  const place = JSON.stringify([hosts, server.database, server.searchPath]);
  return createHash("sha256").update(place).digest("hex").slice(0, 12);
}

function workerTypes({ types }: Config): ReadonlySet<string> {
  const ofWorkers = [...types.values()].filter(({ kind }) => kind === "worker");
  return new Set(ofWorkers.map(({ name }) => name));
}

function taskRules({ config, urlPolicy }: ApiParts) {
  const types = new Set(config.types.keys());
  const marketplaces = new Set(config.marketplaces.map(({ code }) => code));
  return () => ({ types, marketplaces, urlPolicy: urlPolicy() });
}

async function notReadyReason(
  { store, engine }: ApiParts,
  { isOpen, storage }: { readonly isOpen: boolean; readonly storage: StorageWatch },
): Promise<string | null> {
  const broken = brokenReason({ store, engine });
  if (broken !== null) return broken;
  if (!isOpen) return absence(store) ?? "starting or stopping";
  const shortage = await storage.shortage();
  // Asked last: where the database does not answer, the other question took its time.
  return absence(store) ?? shortage;
}

/** Why nothing is accepted until a restart; null while nothing of that kind has happened. */
function brokenReason({ store, engine }: Pick<ApiParts, "store" | "engine">): string | null {
  const fault = store.fault();
  if (fault instanceof FileFault) return fault.trouble.reason;
  if (fault !== null) return "the database cannot be written";
  return engine.isHalted ? "the engine stopped after a fault" : null;
}
