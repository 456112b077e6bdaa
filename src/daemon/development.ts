import type { DevParts } from "../dev/dev-mode.ts";
import type { DevDesk } from "../http/dev-desk.ts";
import { openDueList } from "../store/sqlite/due-list.ts";
import type { DaemonOptions } from "./daemon.ts";

/** Functions that close what was opened, in that order: the last first. */
export type Closings = (() => unknown)[];

/**
 * The options of a daemon; of one for development without what is the operator's. A file that is read for tests as well
 * says where backups are, which an advance of weeks would push out, and who is told of trouble.
 */
export function forDevelopment(options: DaemonOptions): DaemonOptions {
  if (options.dev === undefined) return options;
  const { backup, events, ...config } = options.config;
  const without = { backup: { ...backup, schedule: null }, events: { ...events, url: null } };
  return { ...options, config: { ...config, ...without } };
}

/** Opens what operations for development work with; null where there are none. */
export function openDesk(
  { dev, config, ...parts }: Pick<DaemonOptions, "dev" | "config"> & Omit<DevParts, "due">,
  closings: Closings,
): DevDesk | null {
  if (dev === undefined) return null;
  const due = openDueList(config.database);
  closings.unshift(() => due.close());
  return dev.open({ ...parts, due });
}
