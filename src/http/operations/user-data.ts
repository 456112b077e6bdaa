import type { UserData } from "../../api/account.ts";
import { ACTIVE_KEYS_MAX } from "../../domain/account/key.ts";
import type { Store } from "../../store/store.ts";
import { limitsDocument, usageDocument } from "../openapi/quota-document.ts";
import { defineOperation, type Operation } from "../operation.ts";
import type { UsageNotes } from "../usage-notes.ts";
import { keyDocument } from "./keys.ts";

/** The most that every account may send and get at once, as user_data shows it. */
export interface ShownLimits {
  readonly bodyBytes: number;
  readonly tasksPerPost: number;
  readonly resultBytes: number;
  /** The days that a task may wait to be started. */
  readonly queueDays: number;
}

export interface UserDataDeps {
  readonly store: Pick<Store, "findAccountData">;
  readonly keyUsage: UsageNotes<string>;
  readonly limits: ShownLimits;
  readonly retentionDays: number;
}

// Keys can be made and revoked without end; the list has one.
const REVOKED_KEYS_SHOWN_MAX = 100;

/** GET /v1/appendix/user_data: the account, its webhook secret and its keys. */
export function userData(deps: UserDataDeps): Operation {
  const { store, keyUsage, limits, retentionDays } = deps;
  return defineOperation({
    method: "GET",
    path: "/v1/appendix/user_data",
    access: "account",
    doc: DOC,
    async handle({ holder: { accountId, limits: ofAccount } }) {
      const lastUses = keyUsage.lastUses();
      const data = await store.findAccountData({ accountId, revokedMax: REVOKED_KEYS_SHOWN_MAX });
      if (data === null) throw new Error("an account that has authenticated is not there");
      const { queued, running, completed, failed, cancelled } = data.taskCounts;
      const fields: UserData = {
        login: data.login,
        webhook_secret: data.webhookSecret,
        webhook_secret_next: data.webhookSecretNext,
        keys: data.keys.map((key) => keyDocument(key, lastUses)),
        key_limit: ACTIVE_KEYS_MAX,
        limits: { ...postLimits(limits), ...limitsDocument(ofAccount) },
        usage: usageDocument(data.usage),
        retention_days: retentionDays,
        tasks: { queued, running, completed, failed, cancelled },
      };
      return { fields };
    },
  });
}

const DOC: Operation["doc"] = {
  id: "getUserData",
  group: "Account",
  summary: "Get the account",
  description:
    "The account with its webhook secret and its keys: all active ones, and of the revoked ones the last " +
    `${REVOKED_KEYS_SHOWN_MAX}. A key's last use may be shown up to a minute late after a crash.`,
  codes: [],
};

function postLimits(limits: ShownLimits) {
  return {
    body_bytes: limits.bodyBytes,
    tasks_per_post: limits.tasksPerPost,
    result_bytes: limits.resultBytes,
    queue_days: limits.queueDays,
  };
}
