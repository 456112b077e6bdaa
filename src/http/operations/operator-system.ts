import type { System } from "../../api/operator.ts";
import { timeText } from "../../domain/clock/time.ts";
import type { LogLine } from "../../domain/log.ts";
import type { ServiceStatus } from "../../domain/stats/service-status.ts";
import { defineOperation, type Operation } from "../operation.ts";

/** The process, its machine and its configuration. Nothing of it is secret. */
export interface SystemFacts {
  readonly version: string;
  readonly node: string;
  readonly sqlite: string;
  readonly platform: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly uptimeMs: number;
  readonly url: string;
  readonly database: {
    readonly path: string;
    readonly bytes: number;
    readonly walBytes: number;
    readonly dataBytes: number;
  };
  /** Null when the file system does not tell. */
  readonly disk: { readonly freeBytes: number | null; readonly totalBytes: number | null };
  readonly memory: { readonly rssBytes: number; readonly heapBytes: number };
  /** How late it was in the last minute; null when it is not watched. */
  readonly eventLoop: { readonly p99Ms: number; readonly worstMs: number } | null;
  readonly settings: readonly SystemSetting[];
  /** Newest last. */
  readonly log: readonly LogLine[];
}

/** A value of the configuration. */
export interface SystemSetting {
  readonly key: string;
  /** As TOML writes it; null when there is none. */
  readonly value: string | null;
  readonly source: string;
  readonly isDefault: boolean;
}

export interface OperatorSystemDeps {
  readonly systemFacts: () => Promise<SystemFacts>;
  readonly serviceStatus: () => Promise<ServiceStatus>;
}

/** GET /v1/operator/system: the process, its database, its configuration and its last log lines. */
export function systemShow({ systemFacts, serviceStatus }: OperatorSystemDeps): Operation {
  return defineOperation({
    method: "GET",
    path: "/v1/operator/system",
    access: "operator",
    doc: {
      id: "getSystem",
      group: "Operator",
      summary: "Get the system",
      description:
        "The process, its database, its configuration with the source of each value, and the last lines of its log.",
      codes: [],
    },
    async handle() {
      const [facts, status] = await Promise.all([systemFacts(), serviceStatus()]);
      return { fields: systemDocument(facts, status) };
    },
  });
}

function systemDocument(facts: SystemFacts, { status, components }: ServiceStatus): System {
  const { version, node, sqlite, platform, pid, url, database, disk, memory, eventLoop } = facts;
  return {
    version,
    node,
    sqlite,
    platform,
    pid,
    started_at: timeText(facts.startedAt),
    uptime_ms: facts.uptimeMs,
    url,
    database: {
      path: database.path,
      bytes: database.bytes,
      wal_bytes: database.walBytes,
      data_bytes: database.dataBytes,
    },
    disk: { free_bytes: disk.freeBytes, total_bytes: disk.totalBytes },
    memory: { rss_bytes: memory.rssBytes, heap_bytes: memory.heapBytes },
    event_loop: eventLoop && {
      p99_delay_ms: eventLoop.p99Ms,
      worst_delay_ms: eventLoop.worstMs,
    },
    status: { status, components },
    settings: facts.settings.map(({ key, value, source, isDefault }) => {
      return { key, value, source, is_default: isDefault };
    }),
    log: facts.log,
  };
}
