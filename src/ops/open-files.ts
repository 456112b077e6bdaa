import { readFileSync } from "node:fs";

import type { Config } from "../config/config.ts";
import type { Logger } from "../domain/log.ts";

/** The most files that this process may open; null on a system without /proc. Node raises the soft limit at its start. */
export function openFilesMax(): number | null {
  try {
    const text = readFileSync("/proc/self/limits", "utf8");
    const [, most] = /^Max open files\s+(\d+)/m.exec(text) ?? [];
    return most === undefined ? null : Number(most);
  } catch {
    return null;
  }
}

/** Databases, log, threads, pipes of commands, and the connections beyond the limits: health checks and metrics. */
const OTHER_FILES = 200;

/** The files that the process opens if all of its limits are reached. */
export function filesWanted({ limits, webhooks }: Pick<Config, "limits" | "webhooks">): number {
  return limits.connections + webhooks.maxInFlight + OTHER_FILES;
}

const SHARE_MIN = 1 / 4;

/**
 * The configuration with `limits.connections` lowered to the files that the process may open beside its webhooks, and a
 * line in the log about it. Without a free descriptor no connection is accepted, not even for a health check.
 */
export function fitConnections(
  config: Config,
  { log, filesMax = openFilesMax() }: { readonly log: Logger; readonly filesMax?: number | null },
): Config {
  const { limits, webhooks } = config;
  if (filesMax === null) return config;
  const free = Math.max(0, filesMax - OTHER_FILES);
  const most = Math.max(1, free - webhooks.maxInFlight, Math.floor(free * SHARE_MIN));
  if (limits.connections <= most) return config;
  const wanted = filesWanted(config);
  log.warn(
    { connections: most, configured: limits.connections, open_files: filesMax, wanted },
    "limits.connections is lowered: the process may open too few files (LimitNOFILE, ulimit -n)",
  );
  return { ...config, limits: { ...limits, connections: most } };
}
