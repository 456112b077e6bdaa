import { excessOf, type PostQuota, type QuotaExcess } from "../../domain/account/quota.ts";
import { StatusError, type ResponseHeaders } from "../../domain/status.ts";
import type { OperationDeps } from "../operation-deps.ts";
import type { AccountRef } from "../operation.ts";
import type { RatePolicy } from "./rates.ts";

/** The limits of an account that its posts, and webhooks that it sends again, may not exceed. */

const TASKS: RatePolicy = {
  name: "tasks",
  detail: ({ limit, remaining }, tasks) =>
    `This account may post ${limit} tasks a minute; ${remaining} are left of them, and this post has ${tasks}.`,
};

/** Counts the tasks of a post; throws 42900 when they are too many for this minute. */
export function countPosted(
  { accountId, login, limits: { tasksPerMinute: limit } }: AccountRef,
  events: number,
  { postedTasks, floods }: OperationDeps,
): ResponseHeaders {
  if (limit === 0) return {};
  const refused = (): void => floods.note(login);
  return postedTasks.admit(String(accountId), TASKS, { limit, events, refused });
}

/** The limits within which the store must keep this account's posts. */
export function quotaOf({ limits }: AccountRef, { shareBytes }: OperationDeps): PostQuota {
  return { bytes: limits.bytes, openTasks: limits.openTasks, shareBytes: shareBytes() };
}

// Tasks are erased days after they have finished, so asking more often gains nothing.
const BYTES_RETRY_SECONDS = "3600";
// Tasks finish all the time.
const OPEN_TASKS_RETRY_SECONDS = "10";

/**
 * Throws 50700 for an account that has as many bytes as it may have: each attempt to send a webhook again would add to
 * them.
 */
export async function refuseBeyondBytes(holder: AccountRef, deps: OperationDeps): Promise<void> {
  // The share is as of the last look at the room.
  await deps.shortage();
  const { bytes } = await deps.store.countWork(holder.accountId);
  const used = { bytes, openTasks: 0 };
  const excess = excessOf({ bytes: 1, openTasks: 0 }, { used, quota: quotaOf(holder, deps) });
  if (excess !== null) {
    const { retentionDays, floods } = deps;
    throw overQuota(excess, holder, { retentionDays, floods, adds: "each attempt adds some" });
  }
}

/** 42900 or 50700, for the account that would have exceeded its quota; it is noted. `adds` says what would have. */
export function overQuota(
  { quota, limit, used, asked }: QuotaExcess,
  { login }: AccountRef,
  {
    retentionDays,
    floods,
    adds = `this post adds ${asked}`,
  }: Pick<OperationDeps, "retentionDays" | "floods"> & { readonly adds?: string },
): StatusError {
  floods.note(login);
  const raise = (flag: string): string =>
    `the operator can raise the limit: postbackd admin account limit ${login} ${flag}`;
  const kept = `To collect tasks frees nothing: they are kept for ${retentionDays} days after they have finished`;
  switch (quota) {
    case "openTasks":
      return new StatusError(42900, {
        detail:
          `This account may have ${limit} open tasks, which wait or run (limits.account.open_tasks); it has ` +
          `${used}, and this post has ${asked}. Post again when some have finished; ${raise("--open-tasks N")}.`,
        headers: { "retry-after": OPEN_TASKS_RETRY_SECONDS },
      });
    case "bytes":
      return new StatusError(50700, {
        detail:
          `This account may have ${limit} bytes of tasks in the store (limits.account.bytes); it has ${used}, and ` +
          `${adds}. ${kept}; ${raise("--bytes SIZE")}.`,
        headers: { "retry-after": BYTES_RETRY_SECONDS },
      });
    case "shareBytes":
      return new StatusError(50700, {
        detail:
          `While there are other accounts, one may take half of the room that there is for data, ${limit} bytes ` +
          `now; this one has ${used}, and ${adds}. ${kept}; the operator can make more room.`,
        headers: { "retry-after": BYTES_RETRY_SECONDS },
      });
  }
}
