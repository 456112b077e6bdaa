import { STATUS_WORDS } from "../domain/stats/health.ts";
import { type RequestStatusCode, STATUS_TABLE, type StatusCode } from "../domain/status.ts";
import type { TaskState } from "../domain/task/task.ts";
import { envelope } from "./envelope.ts";
import * as s from "./schema.ts";

/** When a client meets each code, in the words of the API's document. */
export const STATUS_REASONS = {
  20000: "The request was served; on a task: it has completed.",
  20100: "On a task in the answer to task_post: it is accepted and on disk.",
  40000: "The path, the query or a header is malformed, unknown or out of range.",
  40006: "One request posts more tasks than it may.",
  40100:
    "The header is missing or malformed, the key is unknown, login and key do not belong together, or the session is over.",
  40101: "The key, or the worker's token, was revoked.",
  40102: "The operator has disabled the account: its tasks and webhooks are suspended.",
  40300: "The request came over plain HTTP, but HTTPS is required.",
  40301:
    "A worker's token is not for this type, the operation needs the operator's session, or a browser's request comes " +
    "from another site or under an unknown host name.",
  40400: "The path, key, account or access request does not exist.",
  40401: "The account has no task of this id.",
  40403: "The task was erased: it is older than the retention period.",
  40500: "The path does not have this method; `Allow` lists those that it has.",
  40501: "A field breaks its rule. On a task: it was refused, and its neighbours were not.",
  40502: "The body is empty, or an array without tasks.",
  40503: "The body is not JSON in UTF-8, or not of objects where objects must stand.",
  40506: "On a task: it has a field that task_post does not know, and was refused.",
  40601: "On a task: it is running.",
  40602: "On a task: it is queued.",
  40800: "The awaited event has not happened in time. Only in development, below `/dev`.",
  40901: "On a task: it was cancelled.",
  40902: "The task has completed or failed.",
  40910: "The account has as many active keys as it may: revoke one first.",
  41300: "The body is larger than the limit.",
  41500: "The body is not `application/json` in UTF-8, or it has a `Content-Encoding`.",
  42200: "The same `Idempotency-Key` came with another body before.",
  42900: "Too many requests, or too many refused credentials, came within the last while.",
  50000: "A fault of the daemon; its log has the request's id.",
  50010: "On a task: its runner failed; `error` says how.",
  50300:
    "The daemon is stopping or overloaded, or its database cannot be read or written. Nothing was done, unless `errors` " +
    "states that the outcome is unknown: then repeat a task_post with its Idempotency-Key.",
  50401: "On a task: it ran past its timeout.",
  50402: "On a task: it waited in the queue for too long without being started.",
  50700:
    "The disk or the database is full, or takes no writes for now: a quota, a file-size limit, a read-only file " +
    "system. Nothing was done.",
} as const satisfies Record<StatusCode, string>;

// Three codes with an HTTP status are codes of tasks too, beside those without one.
type TaskStatusCode = 20000 | 20100 | 40501 | Exclude<StatusCode, RequestStatusCode>;

/** The codes of tasks, with the state that goes with each. */
const STATE_OF = {
  20000: "completed",
  20100: "queued",
  40501: "failed",
  40506: "failed",
  40601: "running",
  40602: "queued",
  40901: "cancelled",
  50010: "failed",
  50401: "failed",
  50402: "failed",
} as const satisfies Record<TaskStatusCode, TaskState>;

const REASONS: Readonly<Record<string, string>> = STATUS_REASONS;
const STATES: Readonly<Record<string, string>> = STATE_OF;

const DOCS = Object.entries(STATUS_TABLE).map(([code, row]) => ({
  ...row,
  code: Number(code),
  reason: REASONS[code] ?? "",
  state: STATES[code] ?? null,
}));

const TASK_DOCS = DOCS.filter(({ state }) => state !== null);

export const CODES: readonly number[] = DOCS.map(({ code }) => code);

export const ERROR_CODES: readonly number[] = DOCS.flatMap(({ code, http }) =>
  http !== null && http >= 400 ? [code] : [],
);

export const TASK_CODES: readonly number[] = TASK_DOCS.map(({ code }) => code);

/** Every code with its message, HTTP status and reason, as a Markdown table. */
export const CODE_TABLE: string = markdownTable([
  ["code", "message", "HTTP", "when"],
  ...DOCS.map(({ code, message, http, reason }) => [
    String(code),
    message,
    http === null ? "on tasks" : String(http),
    reason,
  ]),
]);

/** The codes of tasks with their states, as a Markdown table. */
export const TASK_CODE_TABLE: string = markdownTable([
  ["code", "message", "state"],
  ...TASK_DOCS.map(({ code, message, state }) => [String(code), message, state ?? ""]),
]);

function markdownTable([head = [], ...rows]: readonly (readonly string[])[]): string {
  const rule = head.map(() => "---");
  return [head, rule, ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** The answer to every refused request. */
export const Refusal = s.named(
  "Error",
  s.object(
    { status_code: s.integer({ enum: ERROR_CODES }), status_message: s.text() },
    {
      optional: {
        errors: s.list(
          s.object({
            pointer: s.text("A JSON pointer (RFC 6901) into the request."),
            detail: s.text(),
          }),
          "Details that the message does not have.",
        ),
      },
    },
  ),
);

const StatusCode = s.named(
  "StatusCode",
  s.object(
    {
      code: s.integer({ enum: CODES }),
      message: s.text("NAME and REASON stand for a field's name and a reason."),
      http: s.nullable(s.integer("Null for codes that only tasks have.")),
    },
    { description: `Every code there is.\n\n${CODE_TABLE}` },
  ),
);

const StatusWord = s.word(STATUS_WORDS);

const StatusComponents = s.named(
  "StatusComponents",
  s.object({ api: StatusWord, runners: StatusWord, webhooks: StatusWord }),
);

/** The state of the service, in words. */
export const SERVICE_STATUS = { status: StatusWord, components: StatusComponents };

// Everything else that the operator has configured of it is shown too.
const Marketplace = s.named(
  "Marketplace",
  s.object({ code: s.text(), name: s.text() }, { additionalProperties: true }),
);

export const REFERENCE_ANSWERS = {
  "GET /v1/appendix/marketplaces": envelope({ marketplaces: s.list(Marketplace) }),
  "GET /v1/appendix/types": envelope({
    types: s.list(s.text(), "Types whose result is their input come first."),
  }),
  "GET /v1/appendix/status": envelope(SERVICE_STATUS),
  "GET /v1/appendix/status_codes": envelope({ status_codes: s.list(StatusCode) }),
};
