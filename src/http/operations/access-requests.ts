import { PENDING_REQUESTS_MAX } from "../../domain/account/access-request.ts";
import { StatusError } from "../../domain/status.ts";
import { tooManyRequests, type RatePolicy } from "../guard/rate-limiter.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

// An operator's decision takes hours or days, so there is no use in coming back sooner.
const FULL_RETRY_SECONDS = 3600;

const LIMIT: RatePolicy = {
  name: "access-requests",
  detail: () => "Too many access requests came from this address.",
};

export function accessRequest(deps: OperationDeps): Operation {
  const { store, ids, accessRequests, shortage } = deps;
  return defineOperation("POST /v1/access_requests", {
    access: "public",
    doc: DOC,
    async handle({ body, clientKey, now }) {
      const headers = accessRequests.admit(clientKey(), LIMIT);
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

const DOC: Operation["doc"] = {
  id: "requestAccess",
  group: "Access",
  summary: "Ask for access",
  description:
    "Asks the operator for an account. The answer is the same for everybody, so nobody learns who has one. " +
    "Requests are limited by address.",
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
};
