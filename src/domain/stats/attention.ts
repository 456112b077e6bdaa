import { HOUR_MS, MINUTE_MS, durationText } from "../clock/duration.ts";
import { adviceText, type ReaderRole } from "../webhook/attempt-error.ts";
import type { Condition, ConditionName } from "./condition.ts";

export type AttentionWord =
  | "no_storage"
  | "no_worker"
  | "condition"
  | "host_fails"
  | "undelivered"
  | "waits_long"
  | "keys_full"
  | "access_requests";

export interface Attention {
  readonly level: "problem" | "warning";
  readonly what: AttentionWord;
  readonly text: string;
  /** The path of its page below the dashboard; null without a page. */
  readonly link: string | null;
}

/** The facts that are known at the moment; null or empty when they are not for this viewer. */
export interface AttentionFacts {
  readonly role: ReaderRole;
  readonly now: number;
  /** The sentence that says of what there is too little; null while there is room. */
  readonly shortage: string | null;
  /** Types with waiting work of this viewer and without a connected worker. */
  readonly typesWithoutWorker: readonly string[];
  /** Further conditions that the operator should fix. */
  readonly conditions: readonly Pick<Condition, "name" | "text" | "remedy">[];
  readonly hosts: readonly HostFacts[];
  /** Deliveries that are given up or refused now. */
  readonly undelivered: number;
  /** How long the longest-waiting task has waited, unless its worker is missing; null if none waits. */
  readonly oldestWaitingMs: number | null;
  readonly keys: { readonly active: number; readonly max: number } | null;
  /** Requests for access that wait for a decision. */
  readonly accessRequests: Counted;
}

/** A count that stops at a maximum. */
export interface Counted {
  readonly count: number;
  readonly isMore: boolean;
}

export interface HostFacts {
  readonly host: string;
  readonly attempts: number;
  readonly succeeded: number;
  /** When the last attempt failed; null when none has. */
  readonly failedAt: number | null;
  /** Deliveries that are retried now, and those that are refused now. */
  readonly retrying: number;
  readonly refused: number;
  /** True if the operator has paused all that this viewer's webhooks send there. */
  readonly isPaused: boolean;
}

export const WAIT_MS_MAX = MINUTE_MS;
// More would hide everything else; the page of hosts shows all of them.
const HOSTS_NAMED_MAX = 3;
const KEYS_LEFT_MIN = 1;

type Found = readonly Omit<Attention, "level">[];

/** Decides what needs attention now: problems first, the worst first. */
export function decideAttention(facts: AttentionFacts): readonly Attention[] {
  const problems = [noStorage, noWorker, conditions, failingHosts, undelivered];
  const warnings = [waitsLong, keysFull, accessRequests];
  return [
    ...problems
      .flatMap((find) => find(facts))
      .map((each) => ({ level: "problem", ...each }) as const),
    ...warnings
      .flatMap((find) => find(facts))
      .map((each) => ({ level: "warning", ...each }) as const),
  ];
}

function noStorage({ shortage }: AttentionFacts): Found {
  if (shortage === null) return [];
  const text = `New tasks are refused with 50700: ${shortage}. Free disk space, or raise that limit.`;
  return [{ what: "no_storage", text, link: "/system" }];
}

function noWorker({ typesWithoutWorker, role }: AttentionFacts): Found {
  const advice = adviceText(
    { operator: "start a worker, or find out why it cannot reach this daemon" },
    role,
  );
  return typesWithoutWorker.map((type) => ({
    what: "no_worker",
    text: `Tasks of type ${type} wait, and no worker for it has connected in the last minute. ${sentence(advice)}`,
    link: role === "operator" ? "/runners" : "/tasks?q=state:waiting",
  }));
}

// These have words of their own, as of this moment.
const SAID_OTHERWISE = new Set<ConditionName>(["storage.full", "worker.missing", "host.failing"]);

function conditions({ conditions: all }: AttentionFacts): Found {
  return all.flatMap(({ name, text, remedy }) => {
    const said = `${sentence(text)} ${sentence(remedy)}`;
    return SAID_OTHERWISE.has(name) ? [] : { what: "condition", text: said, link: "/system" };
  });
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function failingHosts({ hosts, now, role }: AttentionFacts): Found {
  const failing = hosts.filter(
    ({ attempts, succeeded, failedAt }) =>
      attempts > 0 && succeeded === 0 && failedAt !== null && failedAt > now - HOUR_MS,
  );
  const named = failing.slice(0, HOSTS_NAMED_MAX).map((each) => {
    const { host, attempts } = each;
    const count = attempts === 1 ? "The only attempt" : `All ${attempts} attempts`;
    const text = `${count} to reach ${host} failed lately. ${retriesText(each, role)}`;
    const link = `/tasks?q=${encodeURIComponent(`host:${host}`)}`;
    return { what: "host_fails", text, link } as const;
  });
  const others = failing.length - named.length;
  if (others === 0) return named;
  const which = others === 1 ? "1 more host fails" : `${others} more hosts fail`;
  const text = `${which}. See the list of hosts.`;
  return [...named, { what: "host_fails", text, link: "/hosts" }];
}

function retriesText({ retrying, refused, isPaused }: HostFacts, role: ReaderRole): string {
  if (retrying === 0 && refused > 0) {
    return `Refused webhooks are not retried: ${adviceText(REFUSED_ADVICE, role)}; then send them again.`;
  }
  const fix = "See why, and fix the receiver";
  if (retrying === 0) return `${fix}; then send the webhooks again: no retry is left.`;
  return isPaused
    ? `${fix}. Retries are paused by the operator.`
    : `${fix}; retries continue meanwhile.`;
}

const REFUSED_ADVICE = {
  anybody: "correct the URL",
  operator: "allow the address with webhooks.allow",
};

function undelivered({ undelivered: count, role }: AttentionFacts): Found {
  if (count === 0) return [];
  const advice = { anybody: "Fix the receiver", operator: "allow the address with webhooks.allow" };
  const text =
    `${counted(count, "webhook is", "webhooks are")} undelivered: given up after all retries, or refused because the ` +
    `address may not be called. ${adviceText(advice, role)}; then send them again.`;
  const link = "/tasks?q=delivery:given_up,refused";
  return [{ what: "undelivered", text, link }];
}

function waitsLong({ oldestWaitingMs, role }: AttentionFacts): Found {
  if (oldestWaitingMs === null || oldestWaitingMs <= WAIT_MS_MAX) return [];
  const advice = { operator: "raise the type's concurrency or start more workers" };
  const text =
    `The oldest waiting task has waited for ${durationText(oldestWaitingMs)}. ` +
    `See which tasks are running; to run more at a time, ${adviceText(advice, role)}.`;
  return [{ what: "waits_long", text, link: "/tasks?q=state:waiting" }];
}

function keysFull({ keys }: AttentionFacts): Found {
  if (keys === null || keys.max - keys.active > KEYS_LEFT_MIN) return [];
  const text = `${keys.active} of ${keys.max} API keys are active. Revoke unused keys, so that a new one can be created.`;
  return [{ what: "keys_full", text, link: "/keys" }];
}

function accessRequests({ accessRequests: { count, isMore } }: AttentionFacts): Found {
  if (count === 0) return [];
  const waiting = isMore
    ? `${count}+ requests for access wait`
    : counted(count, "request for access waits", "requests for access wait");
  const text = `${waiting} for your decision.`;
  return [{ what: "access_requests", text, link: "/access" }];
}

function counted(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}
