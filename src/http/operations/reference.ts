import type { FieldsOf } from "../../api/operations.ts";
import { STATUS_TABLE } from "../../domain/status.ts";
import { CACHED_HEADERS, constantAnswer, withEntityTag } from "../conditional.ts";
import type { ConfiguredType, OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { envelope } from "../respond.ts";

export function marketplaces(deps: OperationDeps): Operation {
  const text = (): string => envelope({ marketplaces: deps.marketplaces });
  return defineOperation("GET /v1/appendix/marketplaces", {
    access: "public",
    doc: {
      id: "listMarketplaces",
      group: "Reference",
      summary: "List marketplaces",
      description: "The operator's list. A task's `marketplace` is one of these codes.",
      answerHeaders: CACHED_HEADERS,
    },
    handle: constantAnswer(text, keptFor(300)),
  });
}

export function taskTypes({ runnerTypes }: OperationDeps): Operation {
  return defineOperation("GET /v1/appendix/types", {
    access: "viewer",
    doc: {
      id: "listTypes",
      group: "Reference",
      summary: "List types",
      description: "The operator's list. A task's `type` is one of these.",
    },
    handle: () => ({ fields: { types: namesOf(runnerTypes()) } }),
  });
}

function namesOf(types: readonly ConfiguredType[]): readonly string[] {
  const isEcho = ({ kind }: ConfiguredType): boolean => kind === "echo";
  const ordered = [...types.filter(isEcho), ...types.filter((type) => !isEcho(type))];
  return ordered.map(({ name }) => name);
}

export function statusCodes(): Operation {
  const table = Object.entries(STATUS_TABLE).map(([code, { message, http }]) => {
    return { code: Number(code), message, http };
  });
  const fields: FieldsOf<"GET /v1/appendix/status_codes"> = { status_codes: table };
  return defineOperation("GET /v1/appendix/status_codes", {
    access: "public",
    doc: {
      id: "listStatusCodes",
      group: "Reference",
      summary: "List status codes",
      description:
        "Every code with its message and its HTTP status, which is null for codes that only tasks have.",
      answerHeaders: CACHED_HEADERS,
    },
    handle: constantAnswer(() => envelope(fields), keptFor(3600)),
  });
}

export function serviceStatus(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/appendix/status", {
    access: "public",
    doc: {
      id: "getStatus",
      group: "Reference",
      summary: "Get the service's status",
      description:
        "From the age of the queue and the rates at which runs and deliveries fail; at most a second old.",
      answerHeaders: CACHED_HEADERS,
    },
    async handle(call) {
      const { status, components } = await deps.serviceStatus();
      const fields: FieldsOf<"GET /v1/appendix/status"> = { status, components };
      const text = envelope(fields);
      return withEntityTag(call, { status: 200, text, headers: keptFor(1) });
    },
  });
}

function keptFor(seconds: number) {
  return { "cache-control": `public, max-age=${seconds}` };
}
