import {
  approveRequest,
  createKey,
  denyRequest,
  keyDocument,
  limitsDocument,
  requestDocument,
  revokeKey,
  secretsDocument,
  usageDocument,
} from "../../admin/account.ts";
import { type Key as KeyShown, KeyId, type UserData } from "../../api/account.ts";
import {
  KEY_ID,
  NETWORK_FACTOR,
  PENDING_REQUESTS_MAX,
  lettersOf,
} from "../../domain/account/account.ts";
import { ACTIVE_KEYS_MAX } from "../../domain/account/key.ts";
import { timeText } from "../../domain/clock/time.ts";
import { StatusError } from "../../domain/status.ts";
import type { Key, Undecidable } from "../../store/store.ts";
import { type RatePolicy, tooManyRequests } from "../admission/quota.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { type Operation, defineOperation } from "../operation.ts";
import type { LastUses } from "../usage-notes.ts";
import { loginTaken, newAccount } from "./accounts.ts";

// Thousands of revoked keys may be kept.
const REVOKED_KEYS_SHOWN_MAX = 100;

export function userData({ store, keyUsage, limits, retentionDays }: OperationDeps): Operation {
  return defineOperation("GET /v1/appendix/user_data", {
    access: "account",
    id: "getUserData",
    group: "Account",
    summary: "Get the account",
    description:
      "The account with its webhook secret, its active keys, and the last revoked keys, at most " +
      `${REVOKED_KEYS_SHOWN_MAX}. After a crash, a key's last use can be a minute too early.`,
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
  detail: () => "This account created too many keys within the last hour.",
};

export function keyCreate({ store, ids, uncounted }: OperationDeps): Operation {
  return defineOperation("POST /v1/appendix/keys", {
    access: "account",
    id: "createKey",
    group: "Account",
    summary: "Create an API key",
    description:
      `The response is the only one with the complete key. An account has at most ${ACTIVE_KEYS_MAX} active keys, and creates at most ` +
      "100 an hour.",
    codes: [40910, 42900, 50700],
    examples: { labelled: { label: "ci" }, plain: {} },
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
    id: "revokeKey",
    group: "Account",
    summary: "Revoke an API key",
    description:
      "The next request with the key is refused. A repetition returns the same response. A revoked key is erased " +
      "after the retention period, and is unknown then.",
    params: {
      key_id: {
        description: "Id of a key of this account.",
        schema: KeyId,
        example: "key_01980f2a4c7e7b3f9d20a1b2c3d4e5f6",
      },
    },
    codes: [40400, 50700],
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

// An operator's decision takes hours or days, so an earlier retry is useless.
const FULL_RETRY_SECONDS = 3600;

const LIMIT: RatePolicy = {
  name: "access-requests",
  detail: () => "Too many access requests came from this address.",
};

const LIMIT_OF_NETWORK: RatePolicy = {
  name: "access-requests-of-network",
  detail: () => "Too many access requests came from this network.",
};

export function accessRequest(deps: OperationDeps): Operation {
  const { store, ids, accessRequests, accessNetworks, shortage } = deps;
  return defineOperation("POST /v1/access_requests", {
    access: "public",
    id: "requestAccess",
    group: "Access",
    summary: "Request access",
    description:
      "Asks the operator for an account. Every caller gets the same response, so it does not reveal who has an account. " +
      "Requests are limited by address, and by /48 of IPv6.",
    answerHeaders: {
      RateLimit: { description: "The rest of the limit by address; absent without a limit." },
      "RateLimit-Policy": { description: "The limit by address; absent without a limit." },
    },
    codes: [42900, 50300, 50700],
    examples: {
      short: { email: "ada@example.com" },
      full: {
        email: "ada@example.com",
        name: "Ada Lovelace",
        company: "Analytical Engines",
        message: "About 2,000 tasks a day.",
      },
    },
    async handle({ body, clientKey, now }) {
      const headers = accessRequests.admit(clientKey(), LIMIT);
      const limit = NETWORK_FACTOR * accessNetworks.limit;
      accessNetworks.admit(clientKey(48), LIMIT_OF_NETWORK, { limit });
      if ((await shortage()) !== null) throw new StatusError(50700);
      const id = ids.next(now);
      const request = { id, fields: body, createdAt: now, pendingMax: PENDING_REQUESTS_MAX };
      if ((await store.insertAccessRequest(request)) === "limit reached") {
        const detail = "Too many access requests wait for the operator.";
        throw tooManyRequests(FULL_RETRY_SECONDS, { detail });
      }
      return { fields: { request_id: id }, headers };
    },
  });
}

const LISTED_MAX = 500;
// Each may have 4,000 characters from any client: 500 requests took the main thread 33 ms (measured).
const LETTERS_MAX = 256 * 1024;

export function accessRequestList({ store }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/access_requests", {
    access: "operator",
    id: "listAccessRequests",
    summary: "List access requests",
    description: `Oldest first, at most ${LISTED_MAX}, and fewer if they exceed ${LETTERS_MAX} characters; \`more\` is true if others exist. The texts are unverified.`,
    async handle({ query: { which } }) {
      const bounds = { limit: LISTED_MAX + 1, lettersMax: LETTERS_MAX };
      const found = await store.listAccessRequests({ which, ...bounds });
      const letters = found.reduce((sum, request) => sum + lettersOf(request), 0);
      // One more than the page shows that others exist.
      const more = found.length > LISTED_MAX || letters > LETTERS_MAX;
      const requests = (more ? found.slice(0, -1) : found).map(requestDocument);
      return { fields: { requests, more } };
    },
  });
}

const DECISION_PARAMS = {
  request_id: {
    description: "Id of an access request.",
    schema: { type: "string", format: "uuid" },
    example: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
  },
} as const;

export function accessRequestApprove({ store, ids }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/access_requests/approve/:request_id", {
    access: "operator",
    id: "approveAccessRequest",
    summary: "Approve an access request",
    description:
      "Creates the account, as createAccount does. Nothing is sent: give the key and the secret to the person yourself. A request " +
      "that is already decided returns 40000. If the login is taken (40501), the request still waits.",
    params: DECISION_PARAMS,
    codes: [40400, 50700],
    examples: { ada: { login: "ada" } },
    async handle({ params, body: { login }, audit, now }) {
      const id = params["request_id"] ?? "";
      const outcome = await approveRequest({ id, login }, { store, ids, audit, now });
      if (outcome === "exists") throw loginTaken();
      if (typeof outcome === "string") throw undecidable(outcome);
      return { fields: newAccount(outcome) };
    },
  });
}

export function accessRequestDeny({ store }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/access_requests/deny/:request_id", {
    access: "operator",
    id: "denyAccessRequest",
    summary: "Deny an access request",
    description: "Nothing is sent to the person. A request that is already decided returns 40000.",
    params: DECISION_PARAMS,
    codes: [40400, 50700],
    async handle({ params, audit, now }) {
      const id = params["request_id"] ?? "";
      const outcome = await denyRequest(id, { store, audit, now });
      if (outcome !== "denied") throw undecidable(outcome);
      return { fields: { id, decision: "denied", decided_at: timeText(now) } };
    },
  });
}

function undecidable(reason: Undecidable): StatusError {
  if (reason === "unknown") return new StatusError(40400);
  const detail = "This access request is already decided: list with which=all to see how.";
  return new StatusError(40000, { detail });
}
