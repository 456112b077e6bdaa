import { createHash } from "node:crypto";
import { basename } from "node:path";

import { version } from "../assets.ts";
import type { Config, TypeConfig } from "../config/config.ts";
import { shownRows, tomlText, typeKey } from "../config/shown-setting.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import type { LogLine } from "../domain/log.ts";
import type { StandingCondition } from "../domain/stats/condition.ts";
import type { UrlPolicy } from "../domain/webhook/webhook-url.ts";
import type { ConfiguredType, ShownRunner, SystemFacts } from "../http/operation-deps.ts";
import type { BackupKeeper, BackupState } from "../ops/backup.ts";
import type { ConditionBoard } from "../ops/conditions.ts";
import type { Database } from "../ops/database.ts";
import type { LoopDelay } from "../ops/meter.ts";
import type { Parser } from "../parser/parser.ts";
import { sqliteVersion } from "../store/sqlite/machine/connection.ts";
import type { Store } from "../store/store.ts";
import type { ConfigInForce } from "./reload.ts";

export interface SystemParts {
  readonly inForce: Readonly<ConfigInForce>;
  readonly clock: Clock;
  readonly database: Pick<Database, "sizes">;
  readonly store: Pick<Store, "usedBytes">;
  /** The URL that the daemon listens on, once it does. */
  readonly url: () => string;
  readonly backups: Pick<BackupKeeper, "state">;
  readonly conditions: Pick<ConditionBoard, "standing">;
  readonly recentLog: () => readonly LogLine[];
  /** Null when the event loop is not watched. */
  readonly loopDelay: () => LoopDelay | null;
}

/** Collects the facts for the operator; reads the machine again each time. */
export function systemSource(parts: SystemParts): () => Promise<SystemFacts> {
  const { inForce, clock, database, store } = parts;
  const fixed = {
    version,
    node: process.version,
    sqlite: sqliteVersion(),
    platform: `${process.platform} ${process.arch}`,
    pid: process.pid,
    started_at: timeText(clock.now()),
  };
  const startedMs = clock.monotonic();
  return async () => {
    const [sizes, dataBytes] = await Promise.all([database.sizes(), store.usedBytes()]);
    const { bytes, walBytes: wal_bytes, diskFreeBytes, diskTotalBytes } = sizes;
    const { rss, heapUsed } = process.memoryUsage();
    const delay = parts.loopDelay();
    return {
      ...fixed,
      uptime_ms: Math.round(clock.monotonic() - startedMs),
      url: parts.url(),
      settings: shownSettings(inForce.config),
      restart_needs: inForce.restartNeeds,
      database: { path: inForce.config.database, bytes, wal_bytes, data_bytes: dataBytes },
      disk: { free_bytes: diskFreeBytes, total_bytes: diskTotalBytes },
      memory: { rss_bytes: rss, heap_bytes: heapUsed },
      event_loop: delay && { p99_delay_ms: delay.p99Ms, worst_delay_ms: delay.worstMs },
      conditions: parts.conditions.standing().map(shownCondition),
      backups: shownBackups(parts.backups.state()),
      log: parts.recentLog(),
    };
  };
}

function shownCondition({ name, subject, text, remedy, since }: StandingCondition) {
  return { name, subject, text, remedy, since: timeText(since) };
}

function shownBackups(state: BackupState | null): SystemFacts["backups"] {
  if (state === null) return null;
  const { newest, failure } = state;
  return {
    newest: newest && {
      file: newest.file,
      created_at: timeText(newest.createdAt),
      bytes: newest.bytes,
    },
    failure: failure && { at: timeText(failure.at), reason: failure.reason },
  };
}

export function configFacts({
  config,
  inForce,
  parser,
  urlPolicy,
}: Pick<SystemParts, "inForce"> & {
  readonly config: Config;
  readonly parser: Pick<Parser, "bodies">;
  readonly urlPolicy: () => UrlPolicy;
}) {
  const { limits, retentionMs, retentionDays, webhooks } = config;
  const types = [...config.types.values()];
  const names = new Set(types.map(({ name }) => name));
  const codes = new Set(config.marketplaces.map(({ code }) => code));
  const ofWorkers = types.filter(({ kind }) => kind === "worker").map(({ name }) => name);
  return {
    servesDashboard: config.dashboard,
    ...{ limits, retentionMs, retentionDays, webhooks },
    rules: () => ({ types: names, marketplaces: codes, urlPolicy: urlPolicy() }),
    parser: parser.bodies,
    workerTypes: new Set(ofWorkers),
    runnerTypes: () => runnerTypes(inForce.config),
    runnerOf: (type: string) => shownRunner(type, inForce.config),
    marketplaces: config.marketplaces.map(({ details, ...head }) => ({ ...head, ...details })),
  };
}

/** The configured types, without anything that may be a secret. */
export function runnerTypes({ types }: Config): readonly ConfiguredType[] {
  return [...types.values()].map((type) => {
    const { name, kind, concurrency, timeoutMs: timeout_ms, retries } = type;
    const lease_ms = type.kind === "worker" ? type.leaseMs : null;
    return { name, kind, runs: whatRuns(type), concurrency, timeout_ms, lease_ms, retries };
  });
}

/** Names the runner of a type's tasks, also for those who see only their own tasks; a lease names the worker. */
function shownRunner(name: string, { types }: Config): ShownRunner | null {
  const type = types.get(name);
  return type === undefined ? null : { kind: type.kind, name: nameOf(type) };
}

// Not even its folder, which belongs to the machine.
function nameOf(type: TypeConfig): string | null {
  if (type.kind === "http") return new URL(type.url).origin;
  return type.kind === "command" ? basename(type.command[0]) : null;
}

/** Arguments, and everything after a service's host, may be secrets. */
function whatRuns(type: TypeConfig): string | null {
  if (type.kind !== "command") return nameOf(type);
  const [program, { length }] = [type.command[0], type.command.slice(1)];
  if (length === 0) return program;
  return `${program} (${length} ${length === 1 ? "argument" : "arguments"})`;
}

/** As `config print` shows them, but with less that may be a secret: many more people see a page than a terminal. */
function shownSettings(config: Config): SystemFacts["settings"] {
  const types = [...config.types.values()];
  const hidden = new Set(
    types.flatMap(({ name }) => [typeKey(name, "env"), typeKey(name, "headers")]),
  );
  const replaced = new Map(
    types.flatMap((type) =>
      ["command", "url"].map((key) => [typeKey(type.name, key), whatRuns(type)] as const),
    ),
  );
  return shownRows(config).flatMap(({ key, value, source }) => {
    if (hidden.has(key)) return [];
    const shown = replaced.get(key) ?? value;
    const text = shown === null ? null : tomlText(shown);
    return [{ key, value: text, source, is_default: source === "default" }];
  });
}

/** The same at all daemons of a server's database; null where a file is served, by one daemon. */
export function sessionScope({ server }: Pick<Config, "server">): string | null {
  if (server === null) return null;
  const hosts = server.hosts.map(({ host, port }) => `${host}:${port}`).toSorted();
  const place = JSON.stringify([hosts, server.database, server.searchPath]);
  return createHash("sha256").update(place).digest("hex").slice(0, 12);
}
