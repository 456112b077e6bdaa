import { DAY_MS, MINUTE_MS } from "../clock/duration.ts";
import { timeText } from "../clock/time.ts";

/** A state that the operator should end. Log, dashboard, events, `/readyz` and doctor show it with this name and text. */
export interface Condition {
  readonly name: ConditionName;
  /** The host, the type, the account or the node that it is about; null for the daemon itself. */
  readonly subject: string | null;
  /** `failed` refuses or loses work now. */
  readonly severity: "failed" | "warning";
  /** One sentence without a full stop; for the operator, and free of secrets. */
  readonly text: string;
  /** How to fix it, without a full stop. */
  readonly remedy: string;
}

export interface StandingCondition extends Condition {
  readonly since: number;
}

/** The facts that are known at the moment. A fact that was not looked at is left out. */
export interface ConditionFacts {
  readonly now: number;
  /** Why nothing is accepted, unless for lack of space; null while tasks are. */
  readonly fault?: string | null;
  /** The sentence that names the limit that is reached; null while there is space. */
  readonly shortage?: string | null;
  readonly disk?: { readonly freeBytes: number; readonly freeBytesMin: number } | null;
  readonly backupFailure?: { readonly at: number; readonly reason: string } | null;
  readonly certificate?: CertificateValidity | null;
  readonly typesWithoutWorker?: readonly WaitingType[];
  readonly failingHosts?: readonly FailingHost[];
  /** False if other daemons send webhooks to the same hosts. */
  readonly isAlone?: boolean;
  readonly limitedAccounts?: readonly string[];
  /** The address of a peer that sends X-Forwarded-* and is not a trusted proxy; null if none does. */
  readonly untrustedProxy?: string | null;
  readonly retention?: Pick<Condition, "text" | "remedy"> | null;
  readonly databaseWarnings?: readonly string[];
  readonly lostNodes?: readonly LostNode[];
}

export interface CertificateValidity {
  readonly from: number;
  readonly to: number;
}

/** A node that ended without leaving, and has not joined again. */
export interface LostNode {
  readonly name: string;
  readonly lastSeenAt: number;
}

export interface WaitingType {
  readonly type: string;
  readonly waiting: number;
  /** True if more wait than were counted. */
  readonly isMoreWaiting: boolean;
  /** How long the longest-waiting task has waited. */
  readonly oldestMs: number;
}

export interface FailingHost {
  readonly host: string;
  /** Attempts since the last that succeeded. */
  readonly failures: number;
  readonly since: number;
}

type Found = Pick<Condition, "text" | "remedy"> & Partial<Pick<Condition, "subject" | "severity">>;

interface Rule {
  /** Unless a finding has its own. */
  readonly severity: Condition["severity"];
  /** True if every node sees the same: then one node reports it for all. */
  readonly isSeenByAll?: true;
  /** True if the part that it is about logs it, with more facts. */
  readonly isLoggedElsewhere?: true;
  readonly find: (
    facts: ConditionFacts,
  ) => Found | readonly Found[] | "" | false | null | undefined;
}

/** Every condition there is, those that refuse or lose work first. */
const RULES = {
  "tasks.refused": {
    severity: "failed",
    find: ({ fault }) =>
      fault && {
        text: `no task is accepted (50300): ${fault}`,
        remedy: "read the log; 'postbackd doctor' examines what is on disk",
      },
  },
  "storage.full": {
    severity: "failed",
    isSeenByAll: true,
    isLoggedElsewhere: true,
    find: ({ shortage }) =>
      shortage && {
        text: `no new task is accepted (50700): ${shortage}`,
        remedy: "free disk space, or raise that limit",
      },
  },
  "disk.low": { severity: "warning", find: ({ disk }) => disk && diskLow(disk) },
  "backup.failed": {
    severity: "warning",
    isLoggedElsewhere: true,
    find: ({ backupFailure: failure }) =>
      failure && {
        text: `the backup of ${timeText(failure.at)} failed: ${failure.reason}`,
        remedy: "fix the problem; 'postbackd backup create FILE' makes a backup immediately",
      },
  },
  "certificate.expiring": {
    severity: "warning",
    find: ({ certificate, now }) => certificate && certificateExpiring(certificate, now),
  },
  "worker.missing": {
    severity: "warning",
    isSeenByAll: true,
    find: ({ typesWithoutWorker = [] }) =>
      typesWithoutWorker.filter(({ oldestMs }) => oldestMs >= WAIT_MS_MIN).map(workerMissing),
  },
  "host.failing": {
    severity: "warning",
    find: ({ failingHosts = [], isAlone = true }) =>
      failingHosts.map(({ host, failures, since }) => ({
        subject: host,
        text:
          `${failures} attempts to reach ${host}${isAlone ? "" : " from this node"} have failed since ` +
          `${timeText(since)}, and none succeeded`,
        remedy: `fix the receiver; 'postbackd admin delivery list --host ${host}' shows its deliveries and why they failed`,
      })),
  },
  "account.limited": {
    severity: "warning",
    find: ({ limitedAccounts = [] }) =>
      limitedAccounts.map((login) => ({
        subject: login,
        text: `most requests of the account ${login} are refused for its limits (42900, 50700), and it continues to send them`,
        remedy: `contact its owner; 'postbackd admin account limit ${login}' changes the limits, 'disable' stops it`,
      })),
  },
  "proxy.untrusted": {
    severity: "warning",
    find: ({ untrustedProxy: address }) =>
      address && {
        text:
          `X-Forwarded-* headers come from ${address}, which is not a trusted proxy: the daemon ignores them, and all clients ` +
          "of this address share one limit",
        remedy:
          "if that is your proxy, name it in trusted_proxies (--trusted-proxy); if not, a client forges these headers",
      },
  },
  "retention.short": {
    severity: "warning",
    isSeenByAll: true,
    find: ({ retention }) => retention,
  },
  "database.unhealthy": {
    severity: "warning",
    isSeenByAll: true,
    isLoggedElsewhere: true,
    find: ({ databaseWarnings: texts = [] }) =>
      texts.length > 0 && {
        text: texts.join("; "),
        remedy: 'see docs/guides/postgres-cluster.md, "Failures"',
      },
  },
  "node.lost": {
    severity: "warning",
    isSeenByAll: true,
    find: ({ lostNodes = [] }) =>
      lostNodes.map(({ name, lastSeenAt }) => ({
        subject: name,
        text: `the node ${name} ended without leaving: it was killed or cut off, last seen at ${timeText(lastSeenAt)}`,
        remedy:
          "start it again with this name (node.name); otherwise this condition ends after a day",
      })),
  },
} satisfies Readonly<Record<string, Rule>>;

export type ConditionName = keyof typeof RULES;

const ENTRIES = Object.entries<Rule>(RULES) as readonly [ConditionName, Rule][];

export const CONDITION_NAMES = ENTRIES.map(([name]) => name);

export function conditionRule(name: ConditionName): Omit<Rule, "find"> {
  return RULES[name];
}

/** Decides which conditions there are now, by the facts that were looked at. */
export function decideConditions(facts: ConditionFacts): readonly Condition[] {
  return ENTRIES.flatMap(([name, { severity, find }]) =>
    [find(facts) || []].flat().map((each) => ({ name, subject: null, severity, ...each })),
  );
}

// Some hundred megabytes more than the minimum leave time to make room before anything is refused.
const DISK_MINIMA = 4;

function diskLow({ freeBytes, freeBytesMin }: NonNullable<ConditionFacts["disk"]>): Found | null {
  if (freeBytes >= DISK_MINIMA * freeBytesMin) return null;
  const [free, min] = [freeBytes, freeBytesMin].map((bytes) => Math.floor(bytes / 1e6));
  return {
    severity: freeBytes < freeBytesMin ? "failed" : "warning",
    text: `${free} MB of the disk are free, and below ${min} MB (limits.disk_free) new tasks are refused (50700)`,
    remedy: "free disk space soon, or shorten retention_days",
  };
}

// A certificate of 90 days is usually renewed 30 days before its end, and one of a week after two thirds of it.
const EXPIRES_SOON_MS = 14 * DAY_MS;
const EXPIRES_SOON_SHARE = 1 / 4;

function certificateExpiring({ from, to }: CertificateValidity, now: number): Found | null {
  const renew = "write a new certificate to its file, and send SIGHUP";
  if (to < now) {
    const text = `the certificate expired at ${timeText(to)}: clients refuse it`;
    return { severity: "failed", text, remedy: renew };
  }
  if (now < from) {
    const text = `the certificate is not valid yet, only from ${timeText(from)} on: clients refuse it`;
    return {
      severity: "failed",
      text,
      remedy: "check the clock, or write another certificate to its file",
    };
  }
  if (to - now > Math.min(EXPIRES_SOON_MS, EXPIRES_SOON_SHARE * (to - from))) return null;
  return { text: `the certificate expires at ${timeText(to)}`, remedy: renew };
}

// Workers that are started together with clients need a moment.
const WAIT_MS_MIN = MINUTE_MS;

function workerMissing({ type, waiting, isMoreWaiting }: WaitingType): Found {
  const tasks = `${waiting}${isMoreWaiting ? "+" : ""} waiting ${waiting === 1 ? "task" : "tasks"}`;
  return {
    subject: type,
    text: `${tasks} of type ${type}: no worker for it has connected in the last minute`,
    remedy: "start a worker, or find out why it cannot reach this daemon",
  };
}
