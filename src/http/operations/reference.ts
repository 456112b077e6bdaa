import type { FieldsOf } from "../../api/answers.ts";
import type { ServiceStatus } from "../../domain/stats/service-status.ts";
import { STATUS_TABLE } from "../../domain/status.ts";
import { CACHED_HEADERS, constantAnswer, withEntityTag } from "../conditional.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { envelope } from "../respond.ts";

/** A marketplace as the operator configured it: its code, its name and everything else it has. */
export type MarketplaceDocument = Readonly<Record<string, unknown>>;

const REFERENCE = { method: "GET", access: "public" } as const;

/** GET /v1/appendix/marketplaces: the valid values of a task's `marketplace`. */
export function marketplaces(configured: readonly MarketplaceDocument[]): Operation {
  const text = (): string => envelope({ marketplaces: configured });
  return defineOperation({
    ...REFERENCE,
    path: "/v1/appendix/marketplaces",
    doc: {
      id: "listMarketplaces",
      group: "Reference",
      summary: "List marketplaces",
      description: "The operator's list. A task's `marketplace` is one of these codes.",
      answerHeaders: CACHED_HEADERS,
      codes: [],
    },
    handle: constantAnswer(text, keptFor(300)),
  });
}

/** GET /v1/appendix/status_codes: all codes. */
export function statusCodes(): Operation {
  const table = Object.entries(STATUS_TABLE).map(([code, { message, http }]) => {
    return { code: Number(code), message, http };
  });
  const fields: FieldsOf<"GET /v1/appendix/status_codes"> = { status_codes: table };
  return defineOperation({
    ...REFERENCE,
    path: "/v1/appendix/status_codes",
    doc: {
      id: "listStatusCodes",
      group: "Reference",
      summary: "List status codes",
      description:
        "Every code with its message and its HTTP status, which is null for codes that only tasks have.",
      answerHeaders: CACHED_HEADERS,
      codes: [],
    },
    handle: constantAnswer(() => envelope(fields), keptFor(3600)),
  });
}

/** GET /v1/appendix/status: the state of the service, in words. */
export function serviceStatus(current: () => Promise<ServiceStatus>): Operation {
  return defineOperation({
    ...REFERENCE,
    path: "/v1/appendix/status",
    doc: {
      id: "getStatus",
      group: "Reference",
      summary: "Get the service's status",
      description:
        "From the age of the queue and the rates at which runs and deliveries fail; at most a second old.",
      answerHeaders: CACHED_HEADERS,
      codes: [],
    },
    async handle(call) {
      const { status, components } = await current();
      const fields: FieldsOf<"GET /v1/appendix/status"> = { status, components };
      const text = envelope(fields);
      return withEntityTag(call, { status: 200, text, headers: keptFor(1) });
    },
  });
}

function keptFor(seconds: number) {
  return { "cache-control": `public, max-age=${seconds}` };
}
