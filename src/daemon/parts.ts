import { hostname } from "node:os";

import type { ClockWatch } from "../domain/clock/clock-watch.ts";
import { nodeNameOf } from "../domain/lease/lease.ts";
import { createMetricsApp, METRICS_LIMITS } from "../http/metrics/metrics-app.ts";
import { atMetricsAddress } from "../http/server/listen-error.ts";
import { openServer } from "../http/server/server.ts";
import { TaskWaiters } from "../http/task-waiters.ts";
import { EventSender } from "../ops/events.ts";
import { policySource } from "../ops/url.ts";
import { newParser } from "../parser/parser.ts";
import { createApi, type Api, type ApiParts } from "./api.ts";
import type { DaemonOptions } from "./daemon.ts";
import { openDesk, type Closings } from "./development.ts";
import { createEngine, type EngineParts, type MadeEngine } from "./engine.ts";
import type { ConfigInForce } from "./reload.ts";

export { openServer };

/** Serves metrics at their own address. Returns the URL; null without `metrics.listen`. */
export async function openMetrics(
  { config, log }: DaemonOptions,
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

/** Makes the parts behind the server; none of them has begun yet. */
export async function openParts(
  given: Omit<
    ApiParts,
    "clock" | "requestClock" | "engine" | "waiters" | "urlPolicy" | "parser" | "events" | "dev"
  > &
    DaemonOptions &
    Pick<EngineParts, "authorities"> & {
      readonly clock: ClockWatch;
      readonly inForce: ConfigInForce;
    },
  closings: Closings,
): Promise<Omit<MadeEngine, "sender"> & { readonly api: Api; readonly events: EventSender }> {
  const { clock, log, config, inForce } = given;
  const requestClock = given.dev?.requestClock(clock) ?? clock;
  const waiters = new TaskWaiters(requestClock);
  const urlPolicy = policySource(() => inForce.config.webhooks.allowList, { clock, log });
  const parser = newParser(clock);
  closings.unshift(() => parser.close());
  const parts = { ...given, requestClock, urlPolicy, parser };
  const { engine, reloadTypes, sender } = await createEngine({
    ...parts,
    taskEnded: (id) => waiters.tell(id),
    awaited: () => waiters.ids,
    accountsDisabled: (accountIds) => waiters.tellAccounts(accountIds),
  });
  closings.unshift(
    () => engine.abort(),
    () => engine.quiet(),
    () => engine.close(),
  );
  clock.watch((byMs) => engine.clockWasSet(byMs));
  const events = new EventSender({
    clock,
    log,
    sender,
    urlPolicy,
    target: config.events,
    retryAfterMs: config.webhooks.retryAfterMs,
    node: config.node.name ?? nodeNameOf(hostname()),
  });
  closings.unshift(() => events.drain());
  const cancelled = (id: string): void => {
    engine.cancel(id);
    waiters.tell(id);
  };
  const dev = openDesk({ ...parts, sender, cancelled }, closings);
  const api = await createApi({ ...parts, engine, waiters, events, dev });
  closings.unshift(() => api.close());
  return { engine, api, reloadTypes, events };
}
