import type { H3 } from "h3";

import { systemClock } from "../../domain/clock/clock.ts";
import { createApp, type AppDeps } from "../app.ts";
import { toBrowserPolicy } from "../guard/browser.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { metrics } from "../operations/service.ts";
import type { ConnectionLimits } from "../server/server.ts";

/** The bounds of connections to `metrics.listen`: a Prometheus server keeps one, and few other clients connect. */
export const METRICS_LIMITS: ConnectionLimits = {
  connections: 32,
  headerTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  sendTimeoutMs: 10_000,
};

interface MetricsAppDeps
  extends
    Pick<AppDeps, "gate" | "ids" | "log" | "limits" | "headers">,
    Pick<OperationDeps, "metricsText"> {
  /** Of the listener. */
  readonly host: string;
  readonly publicUrl: string | null;
}

/**
 * The app of `metrics.listen`: `/metrics` alone, without credentials. It counts no requests, and scrapes are served
 * when connections run out.
 */
export function createMetricsApp({ host, publicUrl, ...deps }: MetricsAppDeps): H3 {
  const operation = { ...metrics(deps), access: "network", isHealthCheck: true } as const;
  return createApp({
    ...deps,
    clock: systemClock,
    operations: [operation],
    gate: {
      ...deps.gate,
      browsers: toBrowserPolicy({ host, publicUrl }),
      proxies: { trusted: [], servesTls: false, insecureHttp: true },
    },
  });
}
