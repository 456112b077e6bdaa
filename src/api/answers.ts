import { ACCOUNT_ANSWERS } from "./account.ts";
import { AUDIT_ANSWERS } from "./audit.ts";
import { DELIVERY_PAUSE_ANSWERS } from "./delivery-pause.ts";
import { DELIVERY_ANSWERS } from "./delivery.ts";
import { DEV_ACCOUNT_ANSWERS } from "./dev-account.ts";
import { DEV_CLOCK_ANSWERS } from "./dev-clock.ts";
import { DEV_FAULT_ANSWERS } from "./dev-fault.ts";
import { DEV_INBOX_ANSWERS } from "./dev-inbox.ts";
import { DEV_RESET_ANSWERS } from "./dev-reset.ts";
import { DEV_RESULT_ANSWERS } from "./dev-result.ts";
import { DEV_SECRET_ANSWERS } from "./dev-secret.ts";
import { DEV_SESSION_ANSWERS } from "./dev-session.ts";
import { DEV_WAIT_ANSWERS } from "./dev-wait.ts";
import { DEV_WEBHOOK_ANSWERS } from "./dev-webhook.ts";
import type { OwnFields } from "./envelope.ts";
import { LEASE_ANSWERS } from "./lease.ts";
import { NODE_ANSWERS } from "./node.ts";
import { OPERATOR_ANSWERS } from "./operator.ts";
import { REDELIVERY_ANSWERS } from "./redelivery.ts";
import { RUNNER_ANSWERS } from "./runner.ts";
import { constant, list, object, text, type Static } from "./schema.ts";
import { SEARCH_ANSWERS } from "./search.ts";
import { SESSION_ANSWERS } from "./session.ts";
import { STATS_ANSWERS } from "./stats.ts";
import { REFERENCE_ANSWERS } from "./status.ts";
import { TASK_ANSWERS } from "./task.ts";
import { TIMELINE_ANSWERS } from "./timeline.ts";

const Ok = object({ status: constant("ok") });
const Ready = object(
  { status: constant("ok") },
  { optional: { warnings: list(text(), "Only where there are any.") } },
);

/** The body of each operation's 200, by its method and path. */
export const ANSWERS = {
  ...TASK_ANSWERS,
  ...DELIVERY_ANSWERS,
  ...ACCOUNT_ANSWERS,
  ...REFERENCE_ANSWERS,
  ...LEASE_ANSWERS,
  ...STATS_ANSWERS,
  ...SEARCH_ANSWERS,
  ...TIMELINE_ANSWERS,
  ...REDELIVERY_ANSWERS,
  "GET /v1/events": text(),
  ...OPERATOR_ANSWERS,
  ...RUNNER_ANSWERS,
  ...NODE_ANSWERS,
  ...DELIVERY_PAUSE_ANSWERS,
  ...AUDIT_ANSWERS,
  ...SESSION_ANSWERS,
  ...DEV_CLOCK_ANSWERS,
  ...DEV_INBOX_ANSWERS,
  ...DEV_SESSION_ANSWERS,
  ...DEV_SECRET_ANSWERS,
  ...DEV_ACCOUNT_ANSWERS,
  ...DEV_WEBHOOK_ANSWERS,
  ...DEV_WAIT_ANSWERS,
  ...DEV_RESULT_ANSWERS,
  ...DEV_RESET_ANSWERS,
  ...DEV_FAULT_ANSWERS,
  "GET /metrics": text(),
  "GET /livez": Ok,
  "GET /readyz": Ready,
  "GET /openapi.json": object(
    { openapi: text({ pattern: "^3\\.1\\." }), info: object({}), paths: object({}) },
    { additionalProperties: true },
  ),
};

export type OperationKey = keyof typeof ANSWERS;

export type AnswerOf<Key extends OperationKey> = Static<(typeof ANSWERS)[Key]>;

/** The answer's own fields beside the head of the envelope; never for an answer without an envelope. */
export type FieldsOf<Key extends OperationKey> = OwnFields<(typeof ANSWERS)[Key]>;
