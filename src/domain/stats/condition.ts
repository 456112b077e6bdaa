import { DAY_MS, MINUTE_MS } from "../clock/duration.ts";
import { timeText } from "../clock/time.ts";

/**
 * The states that the operator should end, each named alike in the log, in the dashboard and in the events that tell of
 * it.
 */
export const CONDITION_NAMES = [
  ...(["tasks.refused", "storage.full", "disk.low", "backup.failed"] as const),
  ...(["certificate.expiring", "worker.missing", "host.failing", "account.limited"] as const),
  ...(["proxy.untrusted", "retention.short", "database.unhealthy", "node.lost"] as const),
];
export type ConditionName = (typeof CONDITION_NAMES)[number];

/** Something that the operator should mend. Of a name there is one for each subject. */
export interface Condition {
  readonly name: ConditionName;
  /** The host, the type, the account or the node that it is about; null for the daemon itself. */
  readonly subject: string | null;
  /** One sentence without a full stop; for the operator, and free of secrets. */
  readonly text: string;
  /** How to mend it, without a full stop. */
  readonly remedy: string;
}

/** A condition that has not ended. */
export interface StandingCondition extends Condition {
  readonly since: number;
}

/** Conditions that every node sees alike: one of them tells of these, and each of all others. */
export const SEEN_BY_ALL: ReadonlySet<ConditionName> = new Set([
  ...(["storage.full", "worker.missing", "retention.short", "database.unhealthy"] as const),
  "node.lost",
]);

/** Conditions whose own part logs them, with more than is known here. */
export const LOGGED_ELSEWHERE: ReadonlySet<ConditionName> = new Set([
  ...(["storage.full", "backup.failed", "database.unhealthy"] as const),
]);

/** The facts that are known at the moment. */
export interface ConditionFacts {
  readonly now: number;
  /** Why nothing is accepted, unless for lack of room; null while tasks are. */
  readonly fault: string | null;
  /** The sentence that says of what there is too little; null while there is room. */
  readonly shortage: string | null;
  readonly disk: { readonly freeBytes: number; readonly freeBytesMin: number } | null;
  readonly backupFailure: { readonly at: number; readonly reason: string } | null;
  /** When the certificate that is served is valid; null without one. */
  readonly certificate: { readonly from: number; readonly to: number } | null;
  readonly typesWithoutWorker: readonly WaitingType[];
  readonly failingHosts: readonly FailingHost[];
  /** False where other daemons send webhooks to the same hosts. */
  readonly isAlone: boolean;
  /** Accounts of which many requests are refused for their limits. */
  readonly limitedAccounts: readonly string[];
  /** The address of a peer that sends X-Forwarded-* and is no trusted proxy; null when there is none. */
  readonly untrustedProxy: string | null;
  readonly retention: Pick<Condition, "text" | "remedy"> | null;
  readonly databaseWarnings: readonly string[];
  readonly lostNodes: readonly LostNode[];
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

/** Decides which conditions there are now, those that refuse or lose work first. */
export function decideConditions(facts: ConditionFacts): readonly Condition[] {
  return [
    ...tasksRefused(facts),
    ...storageFull(facts),
    ...diskLow(facts),
    ...backupFailed(facts),
    ...certificateExpiring(facts),
    ...workerMissing(facts),
    ...hostFailing(facts),
    ...accountLimited(facts),
    ...proxyUntrusted(facts),
    ...retentionShort(facts),
    ...databaseUnhealthy(facts),
    ...nodeLost(facts),
  ];
}

function tasksRefused({ fault }: ConditionFacts): Condition[] {
  if (fault === null) return [];
  const remedy = "read the log; 'postbackd doctor' examines what is on disk";
  const text = `no task is accepted (50300): ${fault}`;
  return [{ name: "tasks.refused", subject: null, text, remedy }];
}

function storageFull({ shortage }: ConditionFacts): Condition[] {
  if (shortage === null) return [];
  const text = `no new task is accepted (50700): ${shortage}`;
  return [{ name: "storage.full", subject: null, text, remedy: "make room, or raise that limit" }];
}

// Some hundred megabytes more than the floor leave time to make room before anything is refused.
const DISK_FLOORS_MIN = 4;

function diskLow({ disk }: ConditionFacts): Condition[] {
  if (disk === null || disk.freeBytes >= DISK_FLOORS_MIN * disk.freeBytesMin) return [];
  const [free, min] = [disk.freeBytes, disk.freeBytesMin].map((bytes) => Math.floor(bytes / 1e6));
  const text = `${free} MB of the disk are free, and below ${min} MB (limits.disk_free) new tasks are refused`;
  const remedy = "make room soon, or shorten retention_days";
  return [{ name: "disk.low", subject: null, text, remedy }];
}

function backupFailed({ backupFailure }: ConditionFacts): Condition[] {
  if (backupFailure === null) return [];
  const text = `the backup of ${timeText(backupFailure.at)} failed: ${backupFailure.reason}`;
  const remedy = "mend that; 'postbackd backup create FILE' makes a copy at once";
  return [{ name: "backup.failed", subject: null, text, remedy }];
}

// Whoever renews a certificate of 90 days does so 30 days before its end, and one of a week after two thirds of it.
const EXPIRES_SOON_MS = 14 * DAY_MS;
const EXPIRES_SOON_SHARE = 1 / 4;

function certificateExpiring({ certificate, now }: ConditionFacts): Condition[] {
  if (certificate === null) return [];
  const { from, to } = certificate;
  if (to - now > Math.min(EXPIRES_SOON_MS, EXPIRES_SOON_SHARE * (to - from))) return [];
  const text =
    to > now
      ? `the certificate runs out at ${timeText(to)}`
      : `the certificate has expired at ${timeText(to)}: clients refuse it`;
  const remedy = "put a new one into its file and send SIGHUP";
  return [{ name: "certificate.expiring", subject: null, text, remedy }];
}

// Workers that are started together with those who post need a moment.
const WAIT_MS_MIN = MINUTE_MS;

function workerMissing({ typesWithoutWorker }: ConditionFacts): Condition[] {
  const waiting = typesWithoutWorker.filter(({ oldestMs }) => oldestMs >= WAIT_MS_MIN);
  return waiting.map(({ type, waiting: count, isMoreWaiting }) => ({
    name: "worker.missing",
    subject: type,
    text:
      `${count}${isMoreWaiting ? "+" : ""} ${count === 1 ? "task" : "tasks"} of type ${type} wait, ` +
      "and no worker for it has connected in the last minute",
    remedy: "start one, or see why it cannot reach this daemon",
  }));
}

function hostFailing({ failingHosts, isAlone }: ConditionFacts): Condition[] {
  const from = isAlone ? "" : " from this node";
  return failingHosts.map(({ host, failures, since }) => ({
    name: "host.failing",
    subject: host,
    text: `${failures} attempts to reach ${host}${from} have failed since ${timeText(since)}, and none succeeded`,
    remedy: `fix the receiver; 'postbackd admin delivery list --host ${host}' shows what was sent and why it failed`,
  }));
}

function accountLimited({ limitedAccounts }: ConditionFacts): Condition[] {
  return limitedAccounts.map((login) => ({
    name: "account.limited",
    subject: login,
    text: `the account ${login} goes on although most of its requests are refused for its limits (42900, 50700)`,
    remedy: `talk to its owner; 'postbackd admin account limit ${login}' changes the limits, 'disable' stops it`,
  }));
}

function proxyUntrusted({ untrustedProxy: address }: ConditionFacts): Condition[] {
  if (address === null) return [];
  const text =
    `X-Forwarded-* comes from ${address}, which is no trusted proxy: it counts for nothing, and all clients behind it ` +
    "count as one";
  const remedy =
    "if that is your proxy, name it in trusted_proxies (--trusted-proxy); if not, somebody makes these headers up";
  return [{ name: "proxy.untrusted", subject: null, text, remedy }];
}

function retentionShort({ retention }: ConditionFacts): Condition[] {
  return retention === null ? [] : [{ name: "retention.short", subject: null, ...retention }];
}

function databaseUnhealthy({ databaseWarnings: texts }: ConditionFacts): Condition[] {
  if (texts.length === 0) return [];
  const remedy = 'see docs/scaling.md, "What a failure looks like"';
  return [{ name: "database.unhealthy", subject: null, text: texts.join("; "), remedy }];
}

function nodeLost({ lostNodes }: ConditionFacts): Condition[] {
  return lostNodes.map(({ name, lastSeenAt }) => ({
    name: "node.lost",
    subject: name,
    text: `the node ${name} ended without leaving: it was killed or cut off, last seen at ${timeText(lastSeenAt)}`,
    remedy:
      "start it again under this name (node.name); without a start this condition ends after a day",
  }));
}
