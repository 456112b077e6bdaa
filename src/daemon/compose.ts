import { hostname } from "node:os";

import { dashboardFiles } from "../assets.ts";
import type { Config } from "../config/config.ts";
import type { DevMode, DevService } from "../dev/dev-mode.ts";
import { UNCOUNTED_PER_HOUR } from "../domain/account/quota.ts";
import type { Clock, SteadyClock } from "../domain/clock/clock.ts";
import { HOUR_MS, MINUTE_MS } from "../domain/clock/duration.ts";
import type { ClockWatch } from "../domain/clock/service-clock.ts";
import { everyStep } from "../domain/error.ts";
import { IdGenerator } from "../domain/id.ts";
import { nodeNameOf } from "../domain/lease/lease.ts";
import type { LogLine, Logger } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import type { ResponseHeaders } from "../domain/status.ts";
import type { CommandLine } from "../domain/task/run.ts";
import type { UrlPolicy } from "../domain/webhook/webhook-url.ts";
import { METRICS_LIMITS } from "../http/admission/limits.ts";
import { FloodWatch, RateLimiter, RefusedCredentials } from "../http/admission/quota.ts";
import { type AppDeps, createApp, createMetricsApp } from "../http/app.ts";
import { toBrowserPolicy } from "../http/guard/browser.ts";
import { ProxyWatch, isTrustedProxy, toProxyPolicy } from "../http/guard/client.ts";
import type { GateDeps } from "../http/guard/gate.ts";
import { listCursors, newCursorKey } from "../http/list-cursor.ts";
import { LiveFeed, newBootName } from "../http/live-feed.ts";
import type { ConfiguredType } from "../http/operation-deps.ts";
import { operations } from "../http/operations.ts";
import { lookAtTypes } from "../http/operations/operator.ts";
import { atMetricsAddress } from "../http/server/listen.ts";
import { openServer } from "../http/server/server.ts";
import { TaskWaiters } from "../http/task-waiters.ts";
import { usageNotes } from "../http/usage-notes.ts";
import type { BackupKeeper } from "../ops/backup.ts";
import type { TlsMaterial } from "../ops/check.ts";
import { ConditionBoard, conditionSource, faultReason, notReadyReason } from "../ops/conditions.ts";
import type { Database, Watch } from "../ops/database.ts";
import { EventSender, type ReceiverWatch } from "../ops/events.ts";
import type { LoopDelay, Meter } from "../ops/meter.ts";
import {
  metricsSource,
  StoreSample,
  toTypeSample,
  type MetricsSource,
  type TypeSample,
} from "../ops/metrics.ts";
import { statusSource, tellOfNode } from "../ops/nodes.ts";
import { StorageWatch } from "../ops/storage.ts";
import { policySource } from "../ops/url.ts";
import { newParser, type Parser } from "../parser/parser.ts";
import type { Engine } from "../run/engine.ts";
import { openDueList } from "../store/sqlite/deliveries.ts";
import type { DeliveryPause, LaneRef, Store } from "../store/store.ts";
import { createEngine, type EngineParts, type MadeEngine } from "./engine.ts";
import type { ConfigInForce } from "./reload.ts";
import { configFacts, runnerTypes, sessionScope, systemSource } from "./system.ts";

export { openServer };

export interface DaemonOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  /** The last lines of that log, newest last; without it the operator is shown none. */
  readonly recentLog?: () => readonly LogLine[];
  /** How late this process's event loop is; without it the operator sees nothing of that. */
  readonly loopDelay?: () => LoopDelay;
  /** Starts the process that runs commands; without it the daemon runs them itself, on its own clock. */
  readonly commandHost?: CommandLine;
  /** Pauses all webhooks before the first is sent, until the operator resumes them; null pauses nothing. */
  readonly pauseDeliveries?: Pick<DeliveryPause, "pausedBy" | "reason"> | null;
  /** Makes it a daemon for development, on this one's clock. */
  readonly dev?: DevMode | undefined;
  /** Receives the events of the daemon. Errors that it throws are ignored. */
  readonly observer?: Observer | undefined;
}

/** Functions that close what was opened, in that order: the last first. */
export type Closings = (() => unknown)[];

/** Objects that a start has opened before the parts behind the server are made. */
interface Opened extends DaemonOptions, Pick<EngineParts, "authorities"> {
  readonly clock: ClockWatch;
  readonly inForce: ConfigInForce;
  readonly database: Database;
  readonly store: Store;
  readonly watch: Watch;
  readonly backups: BackupKeeper;
  readonly meter: Meter;
  readonly receivers: ReceiverWatch;
  /** The certificate that is served; null without one. */
  readonly certificate: () => TlsMaterial | null;
}

export interface Composed extends Pick<MadeEngine, "engine" | "reloadTypes"> {
  readonly api: Api;
  readonly events: EventSender;
}

/** Makes the parts behind the server; none of them has begun yet. */
export async function compose(given: Opened, closings: Closings): Promise<Composed> {
  const { clock, log, config, inForce, store } = given;
  const requestClock = given.dev?.requestClock(clock) ?? clock;
  const waiters = new TaskWaiters(requestClock);
  const urlPolicy = policySource(() => inForce.config.webhooks.allowList, { clock, log });
  const parser = newParser(clock);
  closings.unshift(() => parser.close());
  const parts = { ...given, requestClock, waiters, urlPolicy, parser };
  const { engine, reloadTypes, sender } = await createEngine({
    ...parts,
    taskEnded: (id) => waiters.tell(id),
    awaited: () => waiters.ids,
    accountsDisabled: (accountIds) => accountIds.forEach((id) => waiters.tell(id)),
  });
  closings.unshift(
    () => engine.abort(),
    () => engine.quiet(),
    () => engine.close(),
  );
  clock.watch((byMs) => engine.clockWasSet(byMs));
  const events = new EventSender({
    ...{ clock, log, sender, urlPolicy },
    target: config.events,
    retryAfterMs: config.webhooks.retryAfterMs,
    node: config.node.name ?? nodeNameOf(hostname()),
  });
  closings.unshift(() => events.drain());
  const cancelled = (id: string): void => {
    engine.cancel(id);
    waiters.tell(id);
  };
  let dev: DevService | null = null;
  if (given.dev !== undefined) {
    const due = openDueList(config.database);
    closings.unshift(() => due.close());
    dev = given.dev.open({ store, clock, due, sender, urlPolicy, cancelled });
  }
  const api = await createApi({ ...parts, engine, events, dev });
  closings.unshift(() => api.close());
  return { engine, api, reloadTypes, events };
}

/** Serves metrics at their own address. Returns the URL; null without `metrics.listen`. */
export async function openMetrics(
  { config, log }: Pick<DaemonOptions, "config" | "log">,
  { api, closings }: { readonly api: Api; readonly closings: Closings },
): Promise<string | null> {
  const { limits, publicUrl, metrics } = config;
  if (metrics.listen === null) return null;
  const { gate, ids, metrics: metricsText, headers } = api;
  const server = await atMetricsAddress(metrics.listen, ({ host, port }) => {
    const app = createMetricsApp({ host, publicUrl, limits, gate, ids, log, headers, metricsText });
    return openServer(app, { host, port, tls: null, limits: METRICS_LIMITS, headers });
  });
  closings.unshift(() => {
    server.abort();
    return server.quiet();
  });
  const url = `${server.url}/metrics`;
  log.info({ url }, "metrics are served");
  return url;
}

export interface ApiParts
  extends
    Pick<DaemonOptions, "config" | "log" | "recentLog" | "loopDelay" | "observer">,
    Pick<Opened, "inForce" | "database" | "store" | "meter" | "certificate"> {
  readonly clock: SteadyClock;
  /** The clock of waiting requests: the daemon's clock, except when that clock may stand still. */
  readonly requestClock: Clock;
  readonly watch: Pick<Watch, "warnings">;
  readonly backups: Pick<BackupKeeper, "state" | "warnings">;
  readonly engine: Engine;
  readonly waiters: TaskWaiters;
  readonly urlPolicy: () => UrlPolicy;
  readonly parser: Pick<Parser, "bodies">;
  readonly receivers: Pick<ReceiverWatch, "failing" | "takeGivenUp">;
  readonly events: Pick<EventSender, "tell">;
  /** The additions of a daemon for development; null in any other daemon. */
  readonly dev: DevService | null;
}

export interface Api extends Pick<AppDeps, "gate" | "ids"> {
  readonly app: ReturnType<typeof createApp>;
  readonly headers: ResponseHeaders;
  readonly metrics: MetricsSource;
  /** The board of conditions: it checks from its start until the API drains. */
  readonly conditions: ConditionBoard;
  readonly isProxy: (address: string) => boolean;
  /** Accepts tasks from now on, at this URL. */
  open(url: string): void;
  /** Reports not ready and continues to serve requests. */
  leave(): void;
  /** Accepts no more tasks and releases the requests that wait for one. */
  drain(): void;
  /** Writes what it keeps in memory. To be called when no more webhooks are sent, before the store is closed. */
  close(): Promise<void>;
}

// For a daemon inside another program.
const UNWATCHED = { recentLog: () => [], loopDelay: () => null };

/** Makes the API. It refuses tasks until it is opened. */
export async function createApi(parts: ApiParts): Promise<Api> {
  const { config, clock, requestClock, log, database, store, engine, waiters, dev } = parts;
  const storage = new StorageWatch({ ...config.limits, store, clock, log, database });
  // Makes a start without room write that to the log.
  await storage.shortage();
  const state = { isOpen: false, isLeaving: false, url: "" };
  const url = (): string => state.url;
  tellOfNode(parts, url);
  const [usage, ids, limiter] = [usageNotes(parts), new IdGenerator(), limiterOf(parts)];
  const cursors = listCursors(await store.keepSecret({ name: "cursors", fresh: newCursorKey() }));
  const liveFeed = new LiveFeed({ store, clock: requestClock, log, boot: newBootName() });
  const guards = newGuards(parts, { usage, limiter });
  const { gate, refusedCredentials, floods } = guards;
  const hasRoom = async (): Promise<boolean> => (await storage.shortage()) === null;
  const notReady = (): Promise<string | null> =>
    notReadyReason({ ...parts, storage, isOpen: state.isOpen && !state.isLeaving });
  const types = typeLook(parts, { usage, isMeant: () => true });
  const metrics = metricsSource({
    ...{ ...UNWATCHED, ...parts, sample: new StoreSample({ ...parts, types }) },
    isReady: async () => (await notReady()) === null,
  });
  const conditions = newBoard(parts, { usage, storage, ...guards });
  // A halted engine would never run the tasks that are accepted.
  const isAccepting = (): boolean => state.isOpen && !engine.isHalted && store.cluster.isMember();
  const all = operations({
    ...{ ...configFacts(parts), ...engineCalls(parts), ...callLimits(parts, limiter) },
    store: { ...store, insertTasks: (post) => engine.insertTasks(post) },
    ...{ clock, log, ids, cursors, waiters, liveFeed, floods, url, isAccepting },
    ...{ ...usage, refusedCredentials, metricsText: metrics, notReadyReason: notReady },
    dev: dev?.operations ?? null,
    shortage: () => storage.shortage(),
    shareBytes: () => storage.shareBytes,
    conditions: () => conditions.standing(),
    databaseWarnings: () => [...parts.watch.warnings(), ...parts.backups.warnings()],
    serviceStatus: statusSource(parts, { isAccepting, hasRoom }),
    systemFacts: systemSource({ ...UNWATCHED, ...parts, conditions, url }),
    nodeId: () => store.cluster.self,
  });
  const writeNotes = (): Promise<unknown> =>
    Promise.all(Object.values(usage).map((each) => each.write()));
  return {
    app: newApp(parts, { operations: all, gate, ids }),
    headers: ownHeaders(parts),
    ...{ gate, ids, metrics, conditions },
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
    close: () => everyStep([() => conditions.close(), writeNotes]),
  };
}

type Usage = ReturnType<typeof usageNotes>;

function newBoard(
  parts: ApiParts,
  { usage, storage, floods, proxies }: Guards & { usage: Usage; storage: StorageWatch },
): ConditionBoard {
  const { clock, log, store, receivers, events } = parts;
  const workerTypes = typeLook(parts, { usage, isMeant: ({ kind }) => kind === "worker" });
  return new ConditionBoard({
    ...{ clock, log, cluster: store.cluster },
    find: conditionSource({
      ...{ ...parts, floods, proxies, workerTypes, nodes: nodesOf(parts) },
      fault: () => faultReason(parts),
      shortage: () => storage.shortageNow(),
    }),
    takeGivenUp: (when) => receivers.takeGivenUp(when),
    tell: (event, lost) => events.tell(event, lost),
  });
}

function typeLook(
  { inForce, clock, store, engine }: ApiParts,
  {
    usage,
    isMeant,
  }: { readonly usage: Usage; readonly isMeant: (type: ConfiguredType) => boolean },
): () => Promise<readonly TypeSample[]> {
  const workersWaiting = (type: string): number => engine.desk.waitingFor(type);
  const types = (): readonly ConfiguredType[] => runnerTypes(inForce.config).filter(isMeant);
  const look = { ...usage, store, runnerTypes: types, workersWaiting };
  return async () => {
    // The thread that counts takes 15 MB, so it starts only if it is needed.
    if (types().length === 0) return [];
    return (await lookAtTypes(look, clock.now())).types.map(toTypeSample);
  };
}

function newApp(parts: ApiParts, made: Pick<AppDeps, "operations" | "gate" | "ids">): Api["app"] {
  const { config, requestClock: clock, log, observer, dev } = parts;
  const pages = config.dashboard ? dashboardFiles : null;
  const kept = { limits: config.limits, logsRequests: config.log.requests };
  const app = { ...made, ...kept, clock, log, pages, observer, headers: ownHeaders(parts) };
  return createApp(dev === null ? app : { ...app, inbox: dev.inbox });
}

function ownHeaders({ dev }: ApiParts): ResponseHeaders {
  return dev === null ? {} : { "x-postbackd-mode": "dev" };
}

function engineCalls({ engine, waiters, observer }: ApiParts) {
  return {
    posted: observer?.post,
    desk: engine.desk,
    progressOf: (id: string) => engine.progress.of(id),
    findProgress: (ids: readonly string[]) => engine.progress.find(ids),
    wake: (types: ReadonlySet<string>) => engine.wake(types),
    accountsChanged: () => engine.accounts.wake(),
    pausesChanged: () => engine.pauses.wake(),
    wakeDeliveries: (lanes: readonly LaneRef[]) => engine.wakeDeliveries(lanes),
    workersWaiting: (type: string) => engine.desk.waitingFor(type),
    cancelled(id: string) {
      engine.cancel(id);
      waiters.tell(id);
      observer?.end?.({ type: null, state: "cancelled" });
    },
  };
}

/** How many nodes share a limit that each of them counts by itself. */
function nodesOf({ store: { cluster } }: Pick<ApiParts, "store">): () => number {
  return () => Math.max(1, cluster.membership().length);
}

type NewLimiter = (windowMs: number, limit: number) => RateLimiter;

function limiterOf(parts: ApiParts): NewLimiter {
  const common = { clock: parts.clock, nodes: nodesOf(parts) };
  return (windowMs, limit) => new RateLimiter({ ...common, windowMs, limit });
}

// For one task. Enough to fix a receiver and try again; an unlimited loop could attack a receiver.
const REDELIVERIES_PER_MINUTE = 30;

function callLimits({ config: { limits } }: ApiParts, limiter: NewLimiter) {
  return {
    postedTasks: limiter(MINUTE_MS, limits.account.tasksPerMinute),
    redeliveries: limiter(MINUTE_MS, REDELIVERIES_PER_MINUTE),
    uncounted: limiter(HOUR_MS, UNCOUNTED_PER_HOUR),
    accessRequests: limiter(HOUR_MS, limits.accessRequestsPerHour),
    accessNetworks: limiter(HOUR_MS, limits.accessRequestsPerHour),
  };
}

type Guards = ReturnType<typeof newGuards>;

function newGuards(
  { config, inForce, clock, log, store, dev }: ApiParts,
  { usage, limiter }: { readonly usage: Usage; readonly limiter: NewLimiter },
) {
  const { trustedProxies, insecureHttp, tls, limits } = config;
  const [floods, proxies] = [new FloodWatch(clock), new ProxyWatch(clock)];
  const failures = limiter(MINUTE_MS, limits.failedAuthenticationsPerMinute);
  const refusedCredentials = new RefusedCredentials({ clock, log, limiter: failures });
  const gate: GateDeps = {
    ...{ store, clock, ...usage, refusedCredentials, floods, proxyWatch: proxies },
    accountLimits: limits.account,
    metricsToken: () => inForce.config.metrics.token,
    browsers: config.dashboard || dev !== null ? toBrowserPolicy(config) : null,
    proxies: toProxyPolicy({
      ...{ trustedProxies, insecureHttp, servesTls: tls !== null },
      sessionScope: sessionScope(config),
    }),
    requests: limiter(MINUTE_MS, limits.account.requestsPerMinute),
  };
  return { gate, refusedCredentials, floods, proxies };
}
