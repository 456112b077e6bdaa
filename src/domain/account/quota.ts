/** What an account may take up; of each 0 is no limit. */
export interface AccountLimits {
  /** Of data in the store, by the measure of {@link AccountUsage}. */
  readonly bytes: number;
  /** Tasks that wait or run. */
  readonly openTasks: number;
  readonly requestsPerMinute: number;
  /** Posted ones, refused ones among them. */
  readonly tasksPerMinute: number;
}

/** The limits that the operator gave an account for itself; null stands for the configuration's. */
export type OwnLimits = Readonly<Record<keyof AccountLimits, number | null>>;

/** The limits that count for an account. */
export function limitsOf(own: OwnLimits, standard: AccountLimits): AccountLimits {
  return {
    bytes: own.bytes ?? standard.bytes,
    openTasks: own.openTasks ?? standard.openTasks,
    requestsPerMinute: own.requestsPerMinute ?? standard.requestsPerMinute,
    tasksPerMinute: own.tasksPerMinute ?? standard.tasksPerMinute,
  };
}

/** What an account has in the store. */
export interface AccountUsage {
  /** Its tasks' data, input, result and error in UTF-8, and for each task what its rows and indexes take beside. */
  readonly bytes: number;
  /** Tasks that wait or run. */
  readonly openTasks: number;
}

/** Of an account's tasks, those that wait or run. */
export function openTasksOf({
  queued,
  delayed,
  running,
}: Readonly<Record<"queued" | "delayed" | "running", number>>): number {
  return queued + delayed + running;
}

/** True where there is room for one more beside those that there are, counted in the step that adds it. */
export function hasRoomBeside(existing: number, max: number): boolean {
  return existing < max;
}

/** Beyond what a post may not bring its account; of each 0 is no limit. */
export interface PostQuota extends Pick<AccountLimits, "bytes" | "openTasks"> {
  /** The part of the room for everybody's data that one account may take. */
  readonly shareBytes: number;
}

/** A limit that a post would go beyond. */
export interface QuotaExcess {
  readonly quota: keyof PostQuota;
  readonly limit: number;
  /** What the account has without the post. */
  readonly used: number;
  /** What the post would add. */
  readonly asked: number;
}

/** What each limit of a post bounds. */
const BOUNDED: readonly (readonly [keyof PostQuota, keyof AccountUsage])[] = [
  ["bytes", "bytes"],
  ["shareBytes", "bytes"],
  ["openTasks", "openTasks"],
];

/** Whether what a post adds is more than its account may have; what it may have exactly is fine. Null: it is not. */
export function excessOf(
  asked: AccountUsage,
  { used, quota }: { readonly used: AccountUsage; readonly quota: PostQuota },
): QuotaExcess | null {
  for (const [name, measure] of BOUNDED) {
    const excess = {
      quota: name,
      limit: quota[name],
      used: used[measure],
      asked: asked[measure],
    };
    if (isBeyond(excess)) return excess;
  }
  return null;
}

function isBeyond({ limit, used, asked }: QuotaExcess): boolean {
  return limit > 0 && asked > 0 && used + asked > limit;
}
