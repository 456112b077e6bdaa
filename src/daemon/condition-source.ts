import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import {
  decideConditions,
  type Condition,
  type ConditionFacts,
} from "../domain/stats/condition.ts";
import type { FloodWatch } from "../http/guard/flood-watch.ts";
import type { ProxyWatch } from "../http/guard/proxy-watch.ts";
import type { BackupKeeper } from "./backup-keeper.ts";
import { retentionWarning } from "./check.ts";
import type { Watch } from "./database.ts";
import type { ReceiverWatch } from "./receiver-watch.ts";
import type { Sampled, StoreSample } from "./store-sample.ts";
import type { TlsMaterial } from "./tls.ts";

export interface ConditionParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly watch: Pick<Watch, "warnings">;
  readonly backups: Pick<BackupKeeper, "state">;
  readonly sample: StoreSample;
  readonly receivers: Pick<ReceiverWatch, "failing">;
  readonly floods: Pick<FloodWatch, "accounts">;
  readonly proxies: Pick<ProxyWatch, "address">;
  /** The certificate that is served; null without one. */
  readonly certificate: () => Pick<TlsMaterial, "validFrom" | "validTo"> | null;
  /** Why nothing is accepted, unless for lack of room; null while tasks are. */
  readonly fault: () => string | null;
  readonly shortage: () => Promise<string | null>;
  /** How many daemons share the database. */
  readonly nodes: () => number;
}

// Until then no worker that lives need have been heard after a start.
const WORKERS_HEARD_MS = 60_000;

/** Looks at everything that the operator may have to mend. What cannot be read is no condition of its own. */
export function conditionSource(parts: ConditionParts): () => Promise<readonly Condition[]> {
  const { config, clock } = parts;
  const startedAt = clock.monotonic();
  const retention = retentionWarning(config);
  return async () => {
    const sampled = await parts.sample.look();
    // The fault is asked for last: where the database does not answer, the questions before took their time.
    const shortage = await parts.shortage();
    const areWorkersHeard = clock.monotonic() - startedAt >= WORKERS_HEARD_MS;
    const isAlone = parts.nodes() === 1;
    return decideConditions({
      now: clock.now(),
      fault: parts.fault(),
      shortage,
      disk: diskOf(sampled, config),
      backupFailure: parts.backups.state()?.failure ?? null,
      certificate: validityOf(parts.certificate()),
      typesWithoutWorker: areWorkersHeard ? withoutWorker(sampled) : [],
      failingHosts: parts.receivers.failing({ isAlone }),
      isAlone,
      limitedAccounts: parts.floods.accounts(),
      untrustedProxy: parts.proxies.address(),
      retention,
      databaseWarnings: parts.watch.warnings(),
    });
  };
}

function diskOf({ sizes }: Sampled, { limits }: Config): ConditionFacts["disk"] {
  if (sizes.diskFreeBytes === null) return null;
  return { freeBytes: sizes.diskFreeBytes, freeBytesMin: limits.diskFreeBytes };
}

function withoutWorker({ types }: Sampled): ConditionFacts["typesWithoutWorker"] {
  return types
    .filter(({ hasWorker }) => hasWorker === false)
    .map(({ name: type, waiting, oldestMs }) => ({ type, waiting, oldestMs }));
}

function validityOf(certificate: ReturnType<ConditionParts["certificate"]>) {
  if (certificate === null) return null;
  const [from, to] = [certificate.validFrom.getTime(), certificate.validTo.getTime()];
  // A date that cannot be read tells nothing.
  return Number.isNaN(from) || Number.isNaN(to) ? null : { from, to };
}
