import { PENDING_REQUESTS_MAX } from "../../domain/account/access-request.ts";
import type { IdGenerator } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import type { Store } from "../../store/store.ts";
import { tooManyRequests } from "../guard/gate.ts";
import { rateLimitHeaders, type RateLimiter } from "../guard/rate-limiter.ts";
import { defineOperation, type Operation } from "../operation.ts";

export interface AccessRequestDeps {
  readonly store: Pick<Store, "insertAccessRequest">;
  readonly ids: IdGenerator;
  /** By client address. */
  readonly accessRequests: RateLimiter;
  /** False while the disk or the database is as full as the operator allows. */
  readonly hasRoom: () => Promise<boolean>;
}

// An operator's decision takes hours or days, so there is no use in coming back sooner.
const FULL_RETRY_SECONDS = 3600;

/**
 * POST /v1/access_requests: asks the operator for an account. The answer is the same for everybody, so that nobody
 * learns who has an account or asked before.
 */
export function accessRequest(deps: AccessRequestDeps): Operation {
  return defineOperation({
    method: "POST",
    path: "/v1/access_requests",
    access: "public",
    doc: DOC,
    async handle({ body, clientKey, now }) {
      const { store, ids, accessRequests } = deps;
      const verdict = accessRequests.count(clientKey());
      const headers = rateLimitHeaders("access-requests", verdict);
      if (!verdict.isAllowed) {
        const detail = "Too many access requests came from this address.";
        throw tooManyRequests(verdict.resetSeconds, { detail, headers });
      }
      if (!(await deps.hasRoom())) throw new StatusError(50700);
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
