import type { FieldsOf } from "../../api/operations.ts";
import { constant, object, text } from "../../api/schema.ts";
import { STATUS_TABLE, StatusError } from "../../domain/status.ts";
import { CONTENT_TYPES, formatOf } from "../metrics/metrics.ts";
import type { ConfiguredType, OperationDeps } from "../operation-deps.ts";
import { type AnswerHeaderDoc, type Operation, defineOperation } from "../operation.ts";
import { CACHED_HEADERS, constantAnswer, envelope, withEntityTag } from "../respond.ts";

export function marketplaces(deps: OperationDeps): Operation {
  const text = (): string => envelope({ marketplaces: deps.marketplaces });
  return defineOperation("GET /v1/appendix/marketplaces", {
    access: "public",
    id: "listMarketplaces",
    summary: "List marketplaces",
    description: "The operator's list of allowed values for a task's `marketplace`.",
    answerHeaders: CACHED_HEADERS,
    handle: constantAnswer(text, keptFor(300)),
  });
}

export function taskTypes({ runnerTypes }: OperationDeps): Operation {
  return defineOperation("GET /v1/appendix/types", {
    access: "viewer",
    id: "listTypes",
    group: "Reference",
    summary: "List types",
    description: "The operator's list of allowed values for a task's `type`.",
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
    id: "listStatusCodes",
    summary: "List status codes",
    description:
      "Every code with its message and its HTTP status; the status is null for codes that only tasks have.",
    answerHeaders: CACHED_HEADERS,
    handle: constantAnswer(() => envelope(fields), keptFor(3600)),
  });
}

export function serviceStatus(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/appendix/status", {
    access: "public",
    id: "getStatus",
    summary: "Get the service's status",
    description:
      "Computed at most a second ago from the age of the queue and the failure rates of runs and deliveries.",
    answerHeaders: CACHED_HEADERS,
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

const UNAVAILABLE = object({
  status: constant("unavailable"),
  reason: text("Why, in words."),
});

const PROBE = { access: "public", isHealthCheck: true, group: "Health" } as const;

export function livez(): Operation {
  return defineOperation("GET /livez", {
    ...PROBE,
    id: "isAlive",
    summary: "Check that the process is alive",
    description:
      "Responds as long as the process serves requests: a restart would not help. Never requires HTTPS.",
    handle: () => ({ status: 200, text: '{"status":"ok"}' }),
  });
}

export function readyz({ notReadyReason, databaseWarnings }: OperationDeps): Operation {
  return defineOperation("GET /readyz", {
    ...PROBE,
    id: "isReady",
    summary: "Check that tasks can be posted",
    description:
      "503 with the reason if this daemon accepts no tasks. `warnings` lists problems that the operator should fix in the " +
      "shared database. Never requires HTTPS.",
    otherAnswers: { 503: { description: "Tasks cannot be posted now.", schema: UNAVAILABLE } },
    async handle() {
      const reason = await notReadyReason();
      if (reason !== null) {
        return { status: 503, text: JSON.stringify({ status: "unavailable", reason }) };
      }
      const warnings = databaseWarnings();
      const status = "ok";
      return {
        status: 200,
        text: JSON.stringify(warnings.length === 0 ? { status } : { status, warnings }),
      };
    },
  });
}

export function metrics(deps: Pick<OperationDeps, "metricsText">): Operation {
  return defineOperation("GET /metrics", {
    access: "scraper",
    id: "getMetrics",
    summary: "Get metrics",
    description:
      "All metrics in Prometheus' text format, or in OpenMetrics if `Accept` has `application/openmetrics-text`. " +
      "A Prometheus server reads it with the token of `metrics.token`, or without credentials at the address of `metrics.listen`.",
    answerType: CONTENT_TYPES.prometheus,
    answerExamples: { start: METRICS_EXAMPLE },
    async handle({ headers }) {
      const format = formatOf(headers("accept"));
      return {
        status: 200,
        text: await deps.metricsText(format),
        contentType: CONTENT_TYPES[format],
      };
    },
  });
}

const METRICS_EXAMPLE = [
  "# HELP postbackd_ready 1 while tasks can be posted, as in /readyz.",
  "# TYPE postbackd_ready gauge",
  "postbackd_ready 1\n",
].join("\n");

const CONTENT_TYPE = "text/event-stream";

// nginx would gather the events of minutes before it passes them on.
const UNBUFFERED = { "x-accel-buffering": "no" } as const;

const HEADER_DOCS: Readonly<Record<string, AnswerHeaderDoc>> = {
  "X-Accel-Buffering": {
    description: "Disables buffering in proxies.",
    schema: { const: "no" },
    isAlways: true,
  },
};

const CHANGE_EXAMPLE = [
  "retry: 2000\n",
  "event: change",
  "id: 5f0c7a1e9b3d.17",
  'data: {"tasks":{"waiting":2,"running":1,"ready":0,"retrying":1,"undelivered":0},"time":"2026-01-01T12:00:00.000Z"}\n\n',
].join("\n");

export function events({ liveFeed }: OperationDeps): Operation {
  return defineOperation("GET /v1/events", {
    access: "viewer",
    isDashboard: true,
    id: "streamEvents",
    summary: "Stream of changes",
    description:
      "Server-sent events. `change`: a task or a delivery has changed; `data` has the current amounts of work. It " +
      "comes at most four times a second, and immediately when the stream begins, unless `Last-Event-ID` shows that " +
      "nothing is new. `end`: the daemon stops, or the session or the key is over. A comment comes every 15 seconds. " +
      "A session or a key may have 10 streams open, an account 50; all together 200.",
    headers: {
      "Last-Event-ID": {
        description: "The id of the last event of an earlier stream.",
        schema: { type: "string", examples: ["5f0c7a1e9b3d.17"] },
      },
    },
    answerType: CONTENT_TYPE,
    answerHeaders: HEADER_DOCS,
    answerExamples: { change: CHANGE_EXAMPLE },
    codes: [42900],
    handle({ scope, credential, admitAgain, headers }) {
      const lastEventId = headers("last-event-id")[0] ?? null;
      const stillAdmitted = (): Promise<boolean> => isAdmitted(admitAgain);
      const listener = { scope: scope?.accountId ?? null, credential, stillAdmitted, lastEventId };
      return {
        status: 200,
        text: "",
        headers: UNBUFFERED,
        stream: { contentType: CONTENT_TYPE, open: () => liveFeed.open(listener) },
      };
    },
  });
}

async function isAdmitted(admitAgain: () => Promise<void>): Promise<boolean> {
  try {
    await admitAgain();
    return true;
  } catch (error) {
    if (error instanceof StatusError) return false;
    throw error;
  }
}
