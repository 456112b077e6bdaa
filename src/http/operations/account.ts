import { limitsDocument, secretsDocument, usageDocument } from "../../admin/account.ts";
import { createKey, keyDocument, revokeKey } from "../../admin/key.ts";
import { KeyId, type Key as KeyShown, type UserData } from "../../api/account.ts";
import { KEY_ID } from "../../domain/account/account.ts";
import { ACTIVE_KEYS_MAX } from "../../domain/account/key.ts";
import { StatusError } from "../../domain/status.ts";
import type { Key } from "../../store/store.ts";
import type { RatePolicy } from "../guard/rate-limiter.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import type { LastUses } from "../usage-notes.ts";

// Thousands of revoked keys may be kept.
const REVOKED_KEYS_SHOWN_MAX = 100;

export function userData({ store, keyUsage, limits, retentionDays }: OperationDeps): Operation {
  return defineOperation("GET /v1/appendix/user_data", {
    access: "account",
    doc: {
      id: "getUserData",
      group: "Account",
      summary: "Get the account",
      description:
        "The account with its webhook secret and its keys: all active ones, and of the revoked ones the last " +
        `${REVOKED_KEYS_SHOWN_MAX}. A key's last use may be shown up to a minute late after a crash.`,
    },
    async handle({ holder: { accountId, limits: ofAccount } }) {
      const lastUses = keyUsage.lastUses();
      const data = await store.findAccountData({ accountId, revokedMax: REVOKED_KEYS_SHOWN_MAX });
      if (data === null) throw new Error("an account that has authenticated is not there");
      const { queued, running, completed, failed, cancelled } = data.taskCounts;
      const fields: UserData = {
        ...secretsDocument(data.login, data),
        keys: data.keys.map((key) => usedKeyDocument(key, lastUses)),
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

const KEYS_LIMIT: RatePolicy = {
  name: "keys",
  detail: () => "This account made too many keys within the last hour.",
};

export function keyCreate({ store, ids, uncounted }: OperationDeps): Operation {
  return defineOperation("POST /v1/appendix/keys", {
    access: "account",
    doc: {
      id: "createKey",
      group: "Account",
      summary: "Make an API key",
      description:
        `The whole key is shown this once. An account has at most ${ACTIVE_KEYS_MAX} active keys, and makes at most ` +
        "100 an hour.",
      codes: [40910, 42900, 50700],
      examples: { labelled: { label: "ci" }, plain: {} },
    },
    async handle({ holder, body: { label }, audit, now }) {
      uncounted.admit(`keys of ${holder.login}`, KEYS_LIMIT);
      const key = await createKey({ login: holder.login, label }, { store, ids, audit, now });
      if (typeof key === "string") throw limitReached();
      return { fields: { key } };
    },
  });
}

// The caller has just authenticated, so the account exists: only disabled accounts are erased.
function limitReached(): StatusError {
  const detail = `This account has ${ACTIVE_KEYS_MAX} active keys: revoke one first.`;
  return new StatusError(40910, { detail });
}

export function keyRevoke({ store, keyUsage }: OperationDeps): Operation {
  return defineOperation("DELETE /v1/appendix/keys/:key_id", {
    access: "account",
    doc: {
      id: "revokeKey",
      group: "Account",
      summary: "Revoke an API key",
      description:
        "The key is refused from the next request on. Revoking it again returns the same. A revoked key is erased " +
        "after the retention, and is then an unknown one.",
      params: {
        key_id: {
          description: "Id of a key of this account.",
          schema: KeyId,
          example: "key_01980f2a4c7e7b3f9d20a1b2c3d4e5f6",
        },
      },
      codes: [40400, 50700],
    },
    async handle({ holder, params, audit, now }) {
      const keyId = KEY_ID.parse(params["key_id"]);
      if (keyId.kind === "fault") throw new StatusError(40400);
      const { accountId } = holder;
      const lastUses = keyUsage.lastUses();
      const order = { keyId: keyId.value, accountId };
      const key = await revokeKey(order, { store, audit, now });
      if (key === null) throw new StatusError(40400);
      return { fields: { key: usedKeyDocument(key, lastUses) } };
    },
  });
}

function usedKeyDocument(key: Key, lastUses: LastUses<string>): KeyShown {
  return keyDocument({ ...key, lastUsedAt: lastUses(key.keyId, key.lastUsedAt) });
}
