import { hostname } from "node:os";

import { nodeNameOf } from "../domain/node-name.ts";
import type { ClockWatch } from "../engine/upkeep/clock-watch.ts";
import { openMetricsServer } from "../http/metrics/metrics-server.ts";
import { TaskWaiters } from "../http/task-waiters.ts";
import { newParser } from "../parser/parser.ts";
import { createApi, type Api, type ApiParts } from "./api.ts";
import type { ConfigInForce } from "./config-in-force.ts";
import type { DaemonOptions } from "./daemon.ts";
import { openDesk, type Closings } from "./development.ts";
import { createEngine, type MadeEngine } from "./engine.ts";
import { EventSender } from "./event-sender.ts";
import { policySource } from "./url.ts";

export { openServer } from "../http/server/server.ts";

/** Serves metrics at their own address; answers its URL, or null where there is none. */
export async function openMetrics(
  { config, log }: DaemonOptions,
  { api, closings }: { readonly api: Api; readonly closings: Closings },
): Promise<string | null> {
  const { listen } = config.metrics;
  if (listen === null) return null;
  const failed = (err: unknown): void => log.error({ err }, "metrics could not be answered");
  const server = await openMetricsServer({ listen, metrics: api.metrics, failed });
  closings.unshift(() => server.close());
  log.info({ url: server.url }, "metrics are served");
  return server.url;
}

/** Makes the parts behind the server; none of them has begun yet. */
export async function openParts(
  given: Omit<
    ApiParts,
    "clock" | "requestClock" | "engine" | "waiters" | "urlPolicy" | "parser" | "events" | "dev"
  > &
    DaemonOptions & { readonly clock: ClockWatch; readonly inForce: ConfigInForce },
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
