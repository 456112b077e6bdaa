import type { Config } from "../config/config.ts";
import type { Clock, Timer } from "../domain/clock/clock.ts";
import { HOUR_MS, MINUTE_MS } from "../domain/clock/duration.ts";
import type { Logger } from "../domain/log.ts";
import {
  type Condition,
  type ConditionName,
  type StandingCondition,
  type WaitingType,
  conditionRule,
  decideConditions,
} from "../domain/stats/condition.ts";
import type { OperatorEvent } from "../domain/webhook/webhook-request.ts";
import type { Engine } from "../run/engine.ts";
import { FileFault, type Cluster, type Store } from "../store/store.ts";
import type { BackupKeeper } from "./backup.ts";
import { type TlsMaterial, retentionWarning, validityOf } from "./check.ts";
import type { Database, Watch } from "./database.ts";
import type { GivenUp, ReceiverWatch } from "./events.ts";
import type { TypeSample } from "./metrics.ts";
import { absence, lostNodes, unlessUnreadable } from "./nodes.ts";
import type { StorageWatch } from "./storage.ts";

export interface ConditionBoardDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly cluster: Pick<Cluster, "holds">;
  readonly find: () => Promise<Looked>;
  /** Takes the deliveries that were given up: those that are some minutes old, or all. */
  readonly takeGivenUp: (when: "in time" | "at once") => GivenUp | null;
  /** Calls `lost` when the event can no longer arrive. */
  readonly tell: (event: OperatorEvent, lost?: () => void) => void;
}

interface Entry {
  readonly since: number;
  condition: Condition;
  /** When it was last found, or could not be checked, by the monotonic clock. */
  foundAt: number;
  /** True once this node has reported its beginning. */
  isTold: boolean;
  /** When the event of its beginning was lost, by the monotonic clock; null if it is not known to be lost. */
  lostAt: number | null;
  /** True once it has ended and another node must report the end. */
  isOver: boolean;
}

const LOOK_MS = 15_000;
// A condition that comes and goes is reported once.
const OVER_AFTER_MS = 5 * MINUTE_MS;
// A dead node holds its roles for ten more seconds, and the checks are 15 s apart. An end may be sent twice, never lost.
const HANDED_OVER_MS = MINUTE_MS;
// An operator who was unreachable gets the open conditions within that time.
const LOST_AGAIN_MS = HOUR_MS;
// Clients name the hosts, so the number of reported hosts is limited.
const OF_A_NAME_MAX = 20;

/**
 * The board of conditions, checked every few seconds. The log, the dashboard and the operator's webhooks report a
 * condition when it begins, and when it has not been found for five minutes. A condition that all nodes see is reported by
 * the node that sweeps. The board is in memory, so an open condition is reported again after a restart, or when another
 * node sweeps; that node also reports a condition that ended meanwhile. If an event was lost, it is sent again after an
 * hour, provided that the condition is still open.
 */
export class ConditionBoard {
  readonly #deps: ConditionBoardDeps;
  readonly #entries = new Map<string, Entry>();
  #timer: Timer | null = null;
  #looking: Promise<void> | null = null;
  #isDrained = false;

  constructor(deps: ConditionBoardDeps) {
    this.#deps = deps;
  }

  /** Checks immediately, and then periodically until {@link drain}. */
  start(): void {
    this.#timer = this.#deps.clock.setTimer(LOOK_MS, () => this.start(), "tick");
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
  }

  /** The conditions that have not ended, the oldest first. */
  standing(): readonly StandingCondition[] {
    return this.#lasting().map(({ condition, since }) => ({ ...condition, since }));
  }

  /** Reports all open conditions to a new receiver of events. */
  tellAgain(): void {
    for (const entry of this.#lasting()) {
      if (entry.isTold) this.#tellBegan(entry);
    }
  }

  /** Starts no more checks, and reports nothing of a check in progress. Safe to call twice. */
  drain(): void {
    this.#isDrained = true;
    this.#timer?.cancel();
  }

  /** Logs the deliveries given up. To be called before the store is closed. Safe to call twice. */
  async close(): Promise<void> {
    this.drain();
    this.#tellGivenUp("at once");
    await this.#looking;
  }

  async #look(): Promise<void> {
    try {
      const found = await this.#deps.find();
      if (!this.#isDrained) this.#compare(found);
    } catch (error) {
      if (this.#isDrained) return;
      this.#deps.log.error({ err: error }, "the conditions of the daemon could not be looked at");
    }
  }

  #compare({ conditions: found, unknown }: Looked): void {
    const now = this.#deps.clock.monotonic();
    for (const entry of this.#lasting()) {
      if (unknown.has(entry.condition.name)) entry.foundAt = now;
    }
    const hasPlace = (condition: Condition): boolean =>
      this.#entries.has(keyOf(condition)) || this.#countOf(condition.name) < OF_A_NAME_MAX;
    const beyond = new Map<ConditionName, number>();
    for (const condition of found) {
      const { name } = condition;
      if (hasPlace(condition)) this.#note(condition, now);
      else beyond.set(name, (beyond.get(name) ?? 0) + 1);
    }
    for (const [name, count] of beyond) this.#note(toRest(name, count), now);
    for (const [key, entry] of this.#entries) {
      const unseenMs = now - entry.foundAt;
      entry.isOver = unseenMs >= OVER_AFTER_MS;
      if (!entry.isOver) this.#begin(entry, now);
      else if (this.#mayTell(entry)) this.#end(key, entry);
      else if (unseenMs >= OVER_AFTER_MS + HANDED_OVER_MS) this.#entries.delete(key);
    }
    this.#tellGivenUp("in time");
  }

  #note(condition: Condition, now: number): void {
    const key = keyOf(condition);
    const known = this.#entries.get(key);
    if (known !== undefined && !known.isOver) {
      known.condition = condition;
      known.foundAt = now;
    } else {
      // The oldest come first.
      this.#entries.delete(key);
      const times = { since: this.#deps.clock.now(), foundAt: now, lostAt: null };
      this.#entries.set(key, { condition, ...times, isTold: false, isOver: false });
    }
  }

  #lasting(): readonly Entry[] {
    return [...this.#entries.values()].filter(({ isOver }) => !isOver);
  }

  #countOf(name: ConditionName): number {
    const standing = this.#lasting().map(({ condition }) => condition);
    return standing.filter((each) => each.name === name && each.subject !== null).length;
  }

  #begin(entry: Entry, now: number): void {
    if (!this.#mayTell(entry)) return;
    const { name, text, remedy } = entry.condition;
    if (!entry.isTold) {
      if (!conditionRule(name).isLoggedElsewhere)
        this.#deps.log.warn({ ...factsOf(entry), remedy }, text);
      this.#tellBegan(entry);
    } else if (entry.lostAt !== null && now - entry.lostAt >= LOST_AGAIN_MS) {
      this.#tellBegan(entry);
    }
  }

  #tellBegan(entry: Entry): void {
    const { clock, tell } = this.#deps;
    entry.isTold = true;
    entry.lostAt = null;
    tell(toEvent(entry, "began", clock.now()), () => (entry.lostAt = clock.monotonic()));
  }

  #end(key: string, entry: Entry): void {
    this.#entries.delete(key);
    const { log, clock, tell } = this.#deps;
    const { name, text } = entry.condition;
    if (!conditionRule(name).isLoggedElsewhere) log.info(factsOf(entry), `no longer so: ${text}`);
    // Otherwise its beginning was not reported.
    if (entry.lostAt === null) tell(toEvent(entry, "ended", clock.now()));
  }

  #mayTell({ condition }: Entry): boolean {
    return !conditionRule(condition.name).isSeenByAll || this.#deps.cluster.holds("sweep");
  }

  #tellGivenUp(when: "in time" | "at once"): void {
    const { log, clock, tell, takeGivenUp } = this.#deps;
    const givenUp = takeGivenUp(when);
    if (givenUp === null) return;
    const { count, hosts, hostsInAll } = givenUp;
    const what =
      `${count} ${count === 1 ? "webhook was" : "webhooks were"} given up after all retries, to ` +
      `${hostsInAll} ${hostsInAll === 1 ? "host" : "hosts"}`;
    const remedy = "fix the receivers, then send them again: postbackd admin delivery redeliver";
    log.warn({ hosts, remedy }, what);
    const about = { time: clock.now(), since: null, subject: null, what, remedy, hosts };
    tell({ type: "delivery.given_up", status: "happened", ...about });
  }
}

function keyOf({ name, subject }: Condition): string {
  return `${name} ${subject ?? ""}`;
}

/** Stands for the conditions beyond the limit. */
function toRest(name: ConditionName, count: number): Condition {
  const text = `${name}: and ${count} more, next to the ${OF_A_NAME_MAX} that were reported`;
  const remedy = "fix those: then the others are reported";
  return { name, subject: null, severity: "warning", text, remedy };
}

function factsOf({ condition: { name, subject }, since }: Entry) {
  const facts = { condition: name, since: new Date(since).toISOString() };
  return subject === null ? facts : { ...facts, subject };
}

function toEvent(
  { condition, since }: Entry,
  status: "began" | "ended",
  time: number,
): OperatorEvent {
  const { name: type, subject, text: what, remedy } = condition;
  return { type, status, time, since, subject, what, remedy, hosts: null };
}

export interface ConditionParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly watch: Pick<Watch, "warnings">;
  readonly backups: Pick<BackupKeeper, "state">;
  readonly database: Pick<Database, "sizes">;
  readonly workerTypes: () => Promise<readonly TypeSample[]>;
  readonly receivers: Pick<ReceiverWatch, "failing">;
  readonly floods: { accounts(): readonly string[] };
  readonly proxies: { address(): string | null };
  readonly certificate: () => Pick<TlsMaterial, "validFrom" | "validTo"> | null;
  readonly fault: () => string | null;
  readonly shortage: () => Promise<string | null>;
  readonly store: Pick<Store, "listNodes">;
  readonly nodes: () => number;
}

export interface Looked {
  readonly conditions: readonly Condition[];
  /** The names of the conditions that could not be checked: they stay as they were. */
  readonly unknown: ReadonlySet<ConditionName>;
}

// After a start, every live worker has sent a request within this time.
const WORKERS_HEARD_MS = MINUTE_MS;
// Every live worker claims again within this time, also after the wall clock was set forward.
const MISSING_MS = 30_000;

/** Reads the facts of all conditions. A fact that cannot be read is not a condition itself. */
export function conditionSource(parts: ConditionParts): () => Promise<Looked> {
  const { config, clock } = parts;
  const startedAt = clock.monotonic();
  const retention = retentionWarning(config);
  const missing = new MissingWorkers(clock);
  return async () => {
    const [types, nodes, { diskFreeBytes: freeBytes }] = await Promise.all([
      unlessUnreadable(parts.workerTypes()),
      unlessUnreadable(parts.store.listNodes()),
      parts.database.sizes(),
    ]);
    // The fault is read last: if the database does not respond, the reads before have waited.
    const shortage = await parts.shortage();
    const withoutWorker = types === null ? [] : missing.among(types);
    const areWorkersHeard = clock.monotonic() - startedAt >= WORKERS_HEARD_MS;
    const isAlone = parts.nodes() === 1;
    const certificate = parts.certificate();
    const unknown = new Set<ConditionName>();
    if (types === null) unknown.add("worker.missing");
    if (nodes === null) unknown.add("node.lost");
    if (freeBytes === null) unknown.add("disk.low");
    const conditions = decideConditions({
      now: clock.now(),
      fault: parts.fault(),
      shortage,
      disk: freeBytes === null ? null : { freeBytes, freeBytesMin: config.limits.diskFreeBytes },
      backupFailure: parts.backups.state()?.failure ?? null,
      certificate: certificate && validityOf(certificate),
      typesWithoutWorker: areWorkersHeard ? withoutWorker : [],
      failingHosts: parts.receivers.failing({ isAlone }),
      isAlone,
      limitedAccounts: parts.floods.accounts(),
      untrustedProxy: parts.proxies.address(),
      retention,
      databaseWarnings: parts.watch.warnings(),
      lostNodes: nodes === null ? [] : lostNodes(nodes),
    });
    return { conditions, unknown };
  };
}

/** The types that had no worker at the last checks. */
class MissingWorkers {
  readonly #clock: Pick<Clock, "monotonic">;
  /** By name: since when it has no worker, by the monotonic clock. */
  #since: ReadonlyMap<string, number> = new Map();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  among(types: readonly TypeSample[]): readonly WaitingType[] {
    const now = this.#clock.monotonic();
    const without = types.filter(({ hasWorker }) => hasWorker === false);
    const since = new Map(without.map(({ name }) => [name, this.#since.get(name) ?? now]));
    this.#since = since;
    return without
      .filter(({ name }) => now - (since.get(name) ?? now) >= MISSING_MS)
      .map(({ name: type, ...work }) => ({ type, ...work }));
  }
}

interface Served {
  readonly store: Pick<Store, "fault" | "cluster">;
  readonly engine: Pick<Engine, "isHalted">;
}

/** Why `/readyz` and posts fail; null if they do not. */
export async function notReadyReason({
  store,
  engine,
  storage,
  isOpen,
}: Served & {
  readonly storage: Pick<StorageWatch, "shortage">;
  /** False while the daemon starts or stops. */
  readonly isOpen: boolean;
}): Promise<string | null> {
  const broken = brokenReason({ store, engine });
  if (broken !== null) return broken;
  if (!isOpen) return absence(store) ?? "starting or stopping";
  const shortage = await storage.shortage();
  // Read last: if the database does not respond, the other read has waited.
  return absence(store) ?? shortage;
}

/** Why no task is accepted, except for a lack of disk space; null if tasks are accepted. */
export function faultReason(served: Served): string | null {
  return brokenReason(served) ?? absence(served.store);
}

/** Why no task is accepted until a restart; null without such a fault. */
function brokenReason({ store, engine }: Served): string | null {
  const fault = store.fault();
  if (fault instanceof FileFault) return fault.trouble.reason;
  if (fault !== null) return "the database cannot be written";
  return engine.isHalted ? "the engine stopped after a fault" : null;
}
