import { readdir } from "node:fs/promises";

import type { RunnerType } from "../api/node.ts";
import { version } from "../assets.ts";
import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { dateNow } from "../domain/clock/timers.ts";
import type { Logger } from "../domain/log.ts";
import type { WorkCounts } from "../domain/stats/work-counts.ts";
import {
  type Family,
  type MetricsFormat,
  type Sample,
  TypeNames,
  exposition,
  gauge,
} from "../http/metrics/metrics.ts";
import { TYPES_MAX } from "../http/metrics/series.ts";
import type { Engine } from "../run/engine.ts";
import { NODE_ROLES } from "../store/cluster.ts";
import { sqliteVersion } from "../store/sqlite/machine/connection.ts";
import type { Store } from "../store/store.ts";
import type { BackupKeeper, BackupState } from "./backup.ts";
import { openFilesMax } from "./check.ts";
import type { Database, DatabaseSizes } from "./database.ts";
import type { LoopDelay, Meter } from "./meter.ts";
import { unlessUnreadable } from "./nodes.ts";

export interface MetricsParts {
  readonly config: Config;
  readonly clock: Clock;
  /** By it renderings are shared: the other one may stand still. */
  readonly requestClock: Clock;
  readonly meter: Meter;
  readonly sample: StoreSample;
  readonly store: Pick<Store, "cluster">;
  readonly engine: Pick<Engine, "lanes" | "facts" | "health">;
  /** Null when the event loop is not watched. */
  readonly loopDelay: () => LoopDelay | null;
  readonly isReady: () => Promise<boolean>;
  readonly backups: Pick<BackupKeeper, "state">;
}

/** Writes all series, as `/metrics` returns them. Nothing of it is read from tables meanwhile. */
export type MetricsSource = (format: MetricsFormat) => Promise<string>;

export function metricsSource(parts: MetricsParts): MetricsSource {
  const build = buildInfo(parts.config);
  return shared(parts.requestClock, async (format) => {
    const [read, machine, isReady] = await Promise.all([
      parts.sample.look(),
      processFamilies(),
      parts.isReady(),
    ]);
    const families = [
      build,
      gauge("postbackd_ready", isReady ? 1 : 0),
      ...parts.meter.families(),
      ...engineFamilies(parts),
      ...clusterFamilies(parts.store),
      ...backupFamilies(parts.backups.state()),
      ...typeFamilies(read.types ?? []),
      ...countFamilies(read.counts),
      ...sizeFamilies(read.sizes, read.dataBytes),
      gauge("postbackd_disk_free_min_bytes", parts.config.limits.diskFreeBytes),
      gauge("postbackd_sample_age_seconds", seconds(parts.clock.monotonic() - read.takenAt)),
      ...loopFamilies(parts.loopDelay()),
      ...machine,
    ];
    return exposition(families, format);
  });
}

const SHARED_MS = 1000;

/** One rendering for all scrapes of a format within a second, and while it is being made. A failed one is dropped. */
function shared(clock: Clock, render: MetricsSource): MetricsSource {
  const renderings = new Map<MetricsFormat, { text: Promise<string>; endsAt: number }>();
  return (format) => {
    const known = renderings.get(format);
    if (known !== undefined && clock.monotonic() < known.endsAt) return known.text;
    const rendering = { text: render(format), endsAt: Infinity };
    renderings.set(format, rendering);
    const end = (ms: number): void => void (rendering.endsAt = clock.monotonic() + ms);
    rendering.text.then(
      () => end(SHARED_MS),
      () => end(0),
    );
    return rendering.text;
  };
}

function buildInfo({ server }: Config): Family {
  const database = server === null ? "sqlite" : "postgres";
  const labels = [version, process.version, sqliteVersion(), database];
  return gauge("postbackd_build_info", [{ labels, value: 1 }]);
}

function engineFamilies({ engine }: MetricsParts): readonly Family[] {
  const { lanes, underWay, heldAccounts, pauses } = engine.lanes;
  const { receivers } = engine.health();
  const running = engine.facts().running.map(({ type, runs }) => ({ type, value: runs }));
  return [
    gauge("postbackd_runs_active", byType(running)),
    gauge("postbackd_delivery_attempts_active", underWay),
    gauge("postbackd_delivery_lanes", lanes),
    gauge("postbackd_held_accounts", heldAccounts),
    gauge("postbackd_delivery_pauses", pauses),
    gauge("postbackd_receivers", receivers.all),
    gauge("postbackd_receivers_failing", receivers.failed),
  ];
}

function backupFamilies(state: BackupState | null): readonly Family[] {
  const madeAt = state?.newest?.createdAt ?? null;
  return [
    gauge("postbackd_backup_last_success_timestamp_seconds", madeAt && seconds(madeAt)),
    gauge("postbackd_backup_failed", state && (state.failure === null ? 0 : 1)),
  ];
}

function clusterFamilies({ cluster }: Pick<Store, "cluster">): readonly Family[] {
  const roles = NODE_ROLES.map((role) => ({ labels: [role], value: cluster.holds(role) ? 1 : 0 }));
  return [
    gauge("postbackd_nodes", cluster.membership().length),
    gauge("postbackd_node_role", roles),
  ];
}

function typeFamilies(types: readonly TypeSample[]): readonly Family[] {
  const family = (name: FamilyName, valueOf: (type: TypeSample) => number | null, join = sum) => {
    const values = types.map((type) => ({ type: type.name, value: valueOf(type) }));
    return gauge(name, byType(values, join));
  };
  return [
    family("postbackd_queue_tasks", ({ waiting }) => waiting),
    family("postbackd_queue_age_seconds", ({ oldestMs }) => seconds(oldestMs), Math.max),
    family("postbackd_running_tasks", ({ running }) => running),
    family("postbackd_workers_waiting", ({ workersWaiting }) => workersWaiting),
    family("postbackd_queue_without_worker", ({ hasWorker }) =>
      hasWorker === null ? null : Number(!hasWorker),
    ),
  ];
}

type FamilyName = Parameters<typeof gauge>[0];

export function toTypeSample(type: RunnerType): TypeSample {
  const { name, running, waiting, waiting_is_more, oldest_waiting_ms } = type;
  const work = { running, waiting, isMoreWaiting: waiting_is_more };
  const workers = { workersWaiting: type.workers_waiting, hasWorker: type.has_worker };
  return { name, ...work, oldestMs: oldest_waiting_ms ?? 0, ...workers };
}

interface TypeValue {
  readonly type: string;
  /** Null where it does not apply. */
  readonly value: number | null;
}

const sum = (one: number, other: number): number => one + other;

/** A sample for each type, of which the last stands for all that are too many. */
function byType(values: readonly TypeValue[], join = sum): readonly Sample[] {
  const names = new TypeNames(TYPES_MAX);
  const samples = new Map<string, Sample>();
  for (const { type, value } of values) {
    if (value === null) continue;
    const name = names.of(type);
    const known = samples.get(name)?.value;
    samples.set(name, { labels: [name], value: known === undefined ? value : join(known, value) });
  }
  return [...samples.values()];
}

const STATES = ["delayed", "queued", "running", "completed", "failed", "cancelled"] as const;

function countFamilies(counts: WorkCounts | null): readonly Family[] {
  if (counts === null) return [];
  const states = STATES.map((state) => ({ labels: [state], value: counts[state] }));
  return [
    gauge("postbackd_tasks", states),
    gauge("postbackd_tasks_ready", counts.ready),
    gauge("postbackd_deliveries_retrying", counts.retrying),
    gauge("postbackd_deliveries_undelivered", counts.undelivered),
  ];
}

function sizeFamilies(sizes: DatabaseSizes, dataBytes: number | null): readonly Family[] {
  return [
    gauge("postbackd_database_size_bytes", sizes.bytes),
    gauge("postbackd_database_wal_size_bytes", sizes.walBytes),
    gauge("postbackd_database_data_bytes", dataBytes),
    gauge("postbackd_disk_free_bytes", sizes.diskFreeBytes),
    gauge("postbackd_disk_size_bytes", sizes.diskTotalBytes),
  ];
}

function loopFamilies(delay: LoopDelay | null): readonly Family[] {
  return [
    gauge("postbackd_event_loop_delay_p99_seconds", delay && seconds(delay.p99Ms)),
    gauge("postbackd_event_loop_delay_max_seconds", delay && seconds(delay.worstMs)),
  ];
}

/** The process, under the names that every exporter has for these. */
async function processFamilies(): Promise<readonly Family[]> {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  const openFds = await readdir("/proc/self/fd").then(
    ({ length }) => length,
    () => null,
  );
  return [
    gauge("process_cpu_seconds_total", (user + system) / 1e6),
    gauge("process_resident_memory_bytes", rss),
    gauge("process_heap_bytes", heapUsed),
    gauge("process_open_fds", openFds),
    gauge("process_max_fds", openFilesMax()),
    gauge("process_start_time_seconds", STARTED_AT),
  ];
}

// Counted back from now once: a clock that is set later does not move it.
const STARTED_AT = Math.round(dateNow() - process.uptime() * 1000) / 1000;

function seconds(ms: number): number {
  return Math.round(ms * 1000) / 1e6;
}

export interface StoreSampleParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly store: Pick<Store, "countWork" | "usedBytes">;
  readonly database: Pick<Database, "sizes">;
  readonly types: () => Promise<readonly TypeSample[]>;
}

export interface TypeSample {
  readonly name: string;
  readonly running: number;
  readonly waiting: number;
  /** True if more wait than were counted. */
  readonly isMoreWaiting: boolean;
  /** How long the longest-waiting task has waited; 0 when none waits. */
  readonly oldestMs: number;
  /** Null for a type that no worker runs. */
  readonly workersWaiting: number | null;
  /** False where tasks wait that no worker seems to want; null for a type that no worker runs. */
  readonly hasWorker: boolean | null;
}

/** Numbers read from the database at a moment; what could not be read is null. */
export interface Sampled {
  /** Monotonic. */
  readonly takenAt: number;
  readonly types: readonly TypeSample[] | null;
  readonly counts: WorkCounts | null;
  readonly sizes: DatabaseSizes;
  readonly dataBytes: number | null;
}

const FRESH_MS = 5000;
const STALE_MS = 30_000;

/** Read ahead: a caller gets the last reading and starts the next. Only readings older than 30 s are waited for. */
export class StoreSample {
  readonly #parts: StoreSampleParts;
  #last: Sampled | null = null;
  #reading: Promise<Sampled> | null = null;

  constructor(parts: StoreSampleParts) {
    this.#parts = parts;
  }

  async look(): Promise<Sampled> {
    const last = this.#last;
    const ageMs = last === null ? Infinity : this.#parts.clock.monotonic() - last.takenAt;
    if (last !== null && ageMs < FRESH_MS) return last;
    this.#reading ??= this.#read().finally(() => (this.#reading = null));
    if (last === null || ageMs >= STALE_MS) return this.#reading;
    this.#reading.catch((err: unknown) =>
      this.#parts.log.error({ err }, "the numbers for /metrics could not be read"),
    );
    return last;
  }

  async #read(): Promise<Sampled> {
    const { clock, store, database, types } = this.#parts;
    const takenAt = clock.monotonic();
    const [sampledTypes, counts, sizes, dataBytes] = await Promise.all([
      unlessUnreadable(types()),
      unlessUnreadable(store.countWork(null)),
      database.sizes(),
      unlessUnreadable(store.usedBytes()),
    ]);
    this.#last = { takenAt, types: sampledTypes, counts, sizes, dataBytes };
    return this.#last;
  }
}
