import { fault, quote, rawOf, type Rule } from "../rule.ts";

/** The limits of an account; each 0 is no limit. */
export interface AccountLimits {
  /** Of data in the store, as {@link AccountUsage} measures it. */
  readonly bytes: number;
  /** Tasks that wait or run. */
  readonly openTasks: number;
  readonly requestsPerMinute: number;
  /** Posted tasks, including refused ones. */
  readonly tasksPerMinute: number;
}

/** The limits that the operator gave to one account; null takes the configured one. */
export type OwnLimits = Readonly<Record<keyof AccountLimits, number | null>>;

/** The word that removes an own limit. */
export const DEFAULT_LIMIT = "default";

/** An account's own limit, or the word that removes it. */
export function ownLimit(rule: Rule<number>): Rule<number | typeof DEFAULT_LIMIT> {
  return {
    ...rule,
    takes: `${rule.takes}, or ${quote(DEFAULT_LIMIT)}`,
    hint: `${rule.hint}|${DEFAULT_LIMIT}`,
    form: "text",
    parse(raw) {
      if (raw === DEFAULT_LIMIT) return { kind: "value", value: DEFAULT_LIMIT };
      const parsed = rule.parse(typeof raw === "string" ? rawOf(rule, raw) : raw);
      return parsed.kind === "value"
        ? parsed
        : fault(`${parsed.reason}, or ${quote(DEFAULT_LIMIT)}`);
    },
  };
}

/** Decides which limits apply to an account. */
export function limitsOf(own: OwnLimits, standard: AccountLimits): AccountLimits {
  return {
    bytes: own.bytes ?? standard.bytes,
    openTasks: own.openTasks ?? standard.openTasks,
    requestsPerMinute: own.requestsPerMinute ?? standard.requestsPerMinute,
    tasksPerMinute: own.tasksPerMinute ?? standard.tasksPerMinute,
  };
}

/** The amount that an account has in the store. */
export interface AccountUsage {
  /**
   * Its tasks' data, input, result and error, the records of their attempts, and kept answers, in UTF-8, each with the
   * size of its rows and index entries.
   */
  readonly bytes: number;
  /** Tasks that wait or run. */
  readonly openTasks: number;
}

type OpenCounts = Readonly<Record<"queued" | "delayed" | "running", number>>;

export function openTasksOf({ queued, delayed, running }: OpenCounts): number {
  return queued + delayed + running;
}

/** True when there is room for one more beside the existing ones, which are counted in the step that adds it. */
export function hasRoomBeside(existing: number, max: number): boolean {
  return existing < max;
}

/** The most keys, sign-ins and noted redeliveries of an account in an hour: keys of 30 days take some 30 MB. */
export const UNCOUNTED_PER_HOUR = 100;

/** The limits that a post may not exceed for its account; each 0 is no limit. */
export interface PostQuota extends Pick<AccountLimits, "bytes" | "openTasks"> {
  /** One account's part of the room for everybody's data. */
  readonly shareBytes: number;
}

/** A limit that would be exceeded. */
export interface QuotaExcess {
  readonly quota: keyof PostQuota;
  readonly limit: number;
  /** The account's usage before. */
  readonly used: number;
  /** The amount that would be added. */
  readonly asked: number;
}

/** The usage that each limit of a post bounds. */
const BOUNDED: readonly (readonly [keyof PostQuota, keyof AccountUsage])[] = [
  ["bytes", "bytes"],
  ["shareBytes", "bytes"],
  ["openTasks", "openTasks"],
];

/** Finds the limit that a post would exceed; reaching it exactly is allowed. Null when it exceeds none. */
export function excessOf(
  asked: AccountUsage,
  { used, quota }: { readonly used: AccountUsage; readonly quota: PostQuota },
): QuotaExcess | null {
  for (const [name, measure] of BOUNDED) {
    const excess = { quota: name, limit: quota[name], used: used[measure], asked: asked[measure] };
    const isBounded = excess.limit > 0 && excess.asked > 0;
    if (isBounded && excess.used + excess.asked > excess.limit) return excess;
  }
  return null;
}
