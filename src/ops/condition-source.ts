import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import {
  decideConditions,
  type Condition,
  type ConditionFacts,
  type ConditionName,
} from "../domain/stats/condition.ts";
import type { FloodWatch } from "../http/guard/flood-watch.ts";
import type { ProxyWatch } from "../http/guard/proxy-watch.ts";
import type { Store } from "../store/store.ts";
import type { BackupKeeper } from "./backup-keeper.ts";
import { retentionWarning } from "./check.ts";
import type { Database, DatabaseSizes, Watch } from "./database.ts";
import { lostNodes } from "./nodes.ts";
import type { ReceiverWatch } from "./receiver-watch.ts";
import { unlessUnreadable, type TypeSample } from "./store-sample.ts";
import type { TlsMaterial } from "./tls.ts";

export interface ConditionParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly watch: Pick<Watch, "warnings">;
  readonly backups: Pick<BackupKeeper, "state">;
  readonly database: Pick<Database, "sizes">;
  /** Looks at the types that workers run. */
  readonly workerTypes: () => Promise<readonly TypeSample[]>;
  readonly receivers: Pick<ReceiverWatch, "failing">;
  readonly floods: Pick<FloodWatch, "accounts">;
  readonly proxies: Pick<ProxyWatch, "address">;
  /** The certificate that is served; null without one. */
  readonly certificate: () => Pick<TlsMaterial, "validFrom" | "validTo"> | null;
  /** Why nothing is accepted, unless for lack of room; null while tasks are. */
  readonly fault: () => string | null;
  readonly shortage: () => Promise<string | null>;
  readonly store: Pick<Store, "listNodes">;
  /** How many daemons share the database. */
  readonly nodes: () => number;
}

/** The findings of one look. */
export interface Looked {
  readonly conditions: readonly Condition[];
  /** The names of the conditions that could not be looked at: whatever was known of these still is. */
  readonly unknown: ReadonlySet<ConditionName>;
}

// Until then no worker that lives need have been heard after a start.
const WORKERS_HEARD_MS = 60_000;
// A worker asks again within that time. So one that lives is heard again after the wall clock was set forward.
const MISSING_MS = 30_000;

/** Looks at everything that the operator may have to mend. What cannot be read is no condition of its own. */
export function conditionSource(parts: ConditionParts): () => Promise<Looked> {
  const { config, clock } = parts;
  const startedAt = clock.monotonic();
  const retention = retentionWarning(config);
  const missing = new MissingWorkers(clock);
  return async () => {
    const [types, nodes, sizes] = await Promise.all([
      unlessUnreadable(parts.workerTypes()),
      unlessUnreadable(parts.store.listNodes()),
      parts.database.sizes(),
    ]);
    // The fault is asked for last: where the database does not answer, the questions before took their time.
    const shortage = await parts.shortage();
    const withoutWorker = types === null ? [] : missing.among(types);
    const areWorkersHeard = clock.monotonic() - startedAt >= WORKERS_HEARD_MS;
    const isAlone = parts.nodes() === 1;
    const unknown = new Set<ConditionName>();
    if (types === null) unknown.add("worker.missing");
    if (nodes === null) unknown.add("node.lost");
    if (sizes.diskFreeBytes === null) unknown.add("disk.low");
    const conditions = decideConditions({
      now: clock.now(),
      fault: parts.fault(),
      shortage,
      disk: diskOf(sizes, config),
      backupFailure: parts.backups.state()?.failure ?? null,
      certificate: validityOf(parts.certificate()),
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

/** The types that have had no worker for some looks. */
class MissingWorkers {
  readonly #clock: Pick<Clock, "monotonic">;
  /** By name: when it had none first, by the monotonic clock. */
  #since: ReadonlyMap<string, number> = new Map();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  among(types: readonly TypeSample[]): ConditionFacts["typesWithoutWorker"] {
    const now = this.#clock.monotonic();
    const without = types.filter(({ hasWorker }) => hasWorker === false);
    const since = new Map(without.map(({ name }) => [name, this.#since.get(name) ?? now]));
    this.#since = since;
    return without
      .filter(({ name }) => now - (since.get(name) ?? now) >= MISSING_MS)
      .map(({ name: type, ...work }) => ({ type, ...work }));
  }
}

function diskOf(
  { diskFreeBytes: freeBytes }: DatabaseSizes,
  { limits }: Config,
): ConditionFacts["disk"] {
  return freeBytes === null ? null : { freeBytes, freeBytesMin: limits.diskFreeBytes };
}

function validityOf(certificate: ReturnType<ConditionParts["certificate"]>) {
  if (certificate === null) return null;
  const [from, to] = [certificate.validFrom.getTime(), certificate.validTo.getTime()];
  // A date that cannot be read tells nothing.
  return Number.isNaN(from) || Number.isNaN(to) ? null : { from, to };
}
