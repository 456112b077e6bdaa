import { approveRequest, denyRequest, requestDocument } from "../../admin/access.ts";
import {
  lettersOf,
  NETWORK_FACTOR,
  PENDING_REQUESTS_MAX,
} from "../../domain/account/access-request.ts";
import { timeText } from "../../domain/clock/time.ts";
import { StatusError } from "../../domain/status.ts";
import type { Undecidable } from "../../store/store.ts";
import { tooManyRequests, type RatePolicy } from "../guard/rate-limiter.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { loginTaken, newAccount } from "./operator-accounts.ts";

// An operator's decision takes hours or days, so there is no use in coming back sooner.
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
    doc: {
      id: "requestAccess",
      group: "Access",
      summary: "Ask for access",
      description:
        "Asks the operator for an account. The answer is the same for everybody, so nobody learns who has one. " +
        "Requests are limited by address, and by /48 of IPv6.",
      answerHeaders: {
        RateLimit: { description: "The rest of the limit by address, if there is one." },
        "RateLimit-Policy": { description: "The limit by address, if there is one." },
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
// Each may hold 4,000 characters from anybody: 500 of them took the main thread 33 ms (measured).
const LETTERS_MAX = 256 * 1024;

export function accessRequestList({ store }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/access_requests", {
    access: "operator",
    doc: {
      id: "listAccessRequests",
      group: "Operator",
      summary: "List access requests",
      description: `Oldest first, at most ${LISTED_MAX}, and fewer where they hold ${LETTERS_MAX} characters; \`more\` is true when there are others. The texts are anybody's.`,
    },
    async handle({ query: { which } }) {
      const bounds = { limit: LISTED_MAX + 1, lettersMax: LETTERS_MAX };
      const found = await store.listAccessRequests({ which, ...bounds });
      const letters = found.reduce((sum, request) => sum + lettersOf(request), 0);
      // One too many tells that there are others.
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
    doc: {
      id: "approveAccessRequest",
      group: "Operator",
      summary: "Approve an access request",
      description:
        "Makes the account, as createAccount does. Nothing is sent: hand over the key and the secret yourself. A request " +
        "that was decided before is 40000; where the login is taken (40501) it still waits.",
      params: DECISION_PARAMS,
      codes: [40400, 50700],
      examples: { ada: { login: "ada" } },
    },
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
    doc: {
      id: "denyAccessRequest",
      group: "Operator",
      summary: "Deny an access request",
      description:
        "Nothing is sent to the person who asked. A request that was decided before is 40000.",
      params: DECISION_PARAMS,
      codes: [40400, 50700],
    },
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
  const detail = "This access request was decided before: the list of all shows how.";
  return new StatusError(40000, { detail });
}
