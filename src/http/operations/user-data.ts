import type { UserData } from "../../api/account.ts";
import { ACTIVE_KEYS_MAX } from "../../domain/account/key.ts";
import { limitsDocument, usageDocument } from "../account-document.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { keyDocument } from "./keys.ts";

// Keys can be made and revoked without end; the list has one.
const REVOKED_KEYS_SHOWN_MAX = 100;

export function userData({ store, keyUsage, limits, retentionDays }: OperationDeps): Operation {
  return defineOperation("GET /v1/appendix/user_data", {
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
        limits: {
          body_bytes: limits.bodyBytes,
          tasks_per_post: limits.tasksPerPost,
          result_bytes: limits.resultBytes,
          queue_days: limits.queueDays,
          ...limitsDocument(ofAccount),
        },
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
};
