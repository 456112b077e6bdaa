import { ACCOUNT_ANSWERS, ACCOUNT_INPUTS } from "./account.ts";
import { AUDIT_ANSWERS, AUDIT_INPUTS } from "./audit.ts";
import { DELIVERY_ANSWERS, DELIVERY_INPUTS } from "./delivery.ts";
import { DEV_ANSWERS, DEV_INPUTS } from "./dev.ts";
import type { OwnFields } from "./envelope.ts";
import type { Inputs, Nothing, WrittenInputs } from "./input.ts";
import { LEASE_ANSWERS, LEASE_INPUTS } from "./lease.ts";
import { NODE_ANSWERS } from "./node.ts";
import { OPERATOR_ANSWERS, OPERATOR_INPUTS } from "./operator.ts";
import { type Schema, type Static, constant, list, object, text } from "./schema.ts";
import { SEARCH_ANSWERS, SEARCH_INPUTS } from "./search.ts";
import { STATS_ANSWERS, STATS_INPUTS } from "./stats.ts";
import { REFERENCE_ANSWERS } from "./status.ts";
import { TASK_ANSWERS, TASK_INPUTS } from "./task.ts";
import { TIMELINE_ANSWERS, TIMELINE_INPUTS } from "./timeline.ts";

const Ok = object({ status: constant("ok") });
const Ready = object(
  { status: constant("ok") },
  { optional: { warnings: list(text(), "Only present with warnings.") } },
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
  "GET /v1/events": text(),
  ...OPERATOR_ANSWERS,
  ...NODE_ANSWERS,
  ...AUDIT_ANSWERS,
  ...DEV_ANSWERS,
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

/**
 * The inputs of each operation next to the parts of its path, by method and path; an operation that is not listed takes
 * nothing.
 */
export const INPUTS = {
  ...TASK_INPUTS,
  ...DELIVERY_INPUTS,
  ...ACCOUNT_INPUTS,
  ...LEASE_INPUTS,
  ...STATS_INPUTS,
  ...SEARCH_INPUTS,
  ...TIMELINE_INPUTS,
  ...OPERATOR_INPUTS,
  ...AUDIT_INPUTS,
  ...DEV_INPUTS,
};

/** The inputs of an operation; `{}` where it takes nothing. */
export type InputsOf<Key extends OperationKey> = Key extends keyof typeof INPUTS
  ? (typeof INPUTS)[Key]
  : {};

/** The parameters of an operation's query, as a client gives them. */
export type QueryOf<Key extends OperationKey> = WrittenQuery<InputsOf<Key>>;

type WrittenQuery<Of> = Of extends { readonly query: infer Query extends Inputs }
  ? WrittenInputs<Query>
  : Nothing;

/** The body of a request, as a client writes it; undefined where it may, or must, have none. */
export type BodyOf<Key extends OperationKey> = WrittenBody<InputsOf<Key>>;

type WrittenBody<Of> = Of extends { readonly json: (tasksMax: number) => Schema<infer Value> }
  ? Value
  : Of extends { readonly body: infer Fields extends Inputs }
    ?
        | WrittenInputs<Fields, null>
        | (Of extends { readonly isBodyOptional: true } ? undefined : never)
    : undefined;
