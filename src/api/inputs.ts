import { ACCOUNT_INPUTS } from "./account.ts";
import type { OperationKey } from "./answers.ts";
import { AUDIT_INPUTS } from "./audit.ts";
import { DELIVERY_PAUSE_INPUTS } from "./delivery-pause.ts";
import { DELIVERY_INPUTS } from "./delivery.ts";
import { DEV_ACCOUNT_INPUTS } from "./dev-account.ts";
import { DEV_CLOCK_INPUTS } from "./dev-clock.ts";
import { DEV_FAULT_INPUTS } from "./dev-fault.ts";
import { DEV_INBOX_INPUTS } from "./dev-inbox.ts";
import { DEV_RESET_INPUTS } from "./dev-reset.ts";
import { DEV_RESULT_INPUTS } from "./dev-result.ts";
import { DEV_SECRET_INPUTS } from "./dev-secret.ts";
import { DEV_WAIT_INPUTS } from "./dev-wait.ts";
import { DEV_WEBHOOK_INPUTS } from "./dev-webhook.ts";
import type { Inputs, Nothing, WrittenInputs } from "./input.ts";
import { LEASE_INPUTS } from "./lease.ts";
import { OPERATOR_INPUTS } from "./operator.ts";
import { REDELIVERY_INPUTS } from "./redelivery.ts";
import type { Schema } from "./schema.ts";
import { SEARCH_INPUTS } from "./search.ts";
import { SESSION_INPUTS } from "./session.ts";
import { STATS_INPUTS } from "./stats.ts";
import { TASK_INPUTS } from "./task.ts";
import { TIMELINE_INPUTS } from "./timeline.ts";

/**
 * The inputs of each operation beside the parts of its path, by its method and path; one that is not here takes
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
  ...REDELIVERY_INPUTS,
  ...OPERATOR_INPUTS,
  ...DELIVERY_PAUSE_INPUTS,
  ...AUDIT_INPUTS,
  ...SESSION_INPUTS,
  ...DEV_CLOCK_INPUTS,
  ...DEV_INBOX_INPUTS,
  ...DEV_ACCOUNT_INPUTS,
  ...DEV_WEBHOOK_INPUTS,
  ...DEV_WAIT_INPUTS,
  ...DEV_RESULT_INPUTS,
  ...DEV_SECRET_INPUTS,
  ...DEV_RESET_INPUTS,
  ...DEV_FAULT_INPUTS,
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
