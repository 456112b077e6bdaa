import { LOGIN } from "../domain/account/account.ts";
import { STATUS_TABLE } from "../domain/status.ts";
import {
  type Fields,
  type Schema,
  type ValuesOf,
  constant,
  count,
  list,
  nullable,
  number,
  object,
  text,
} from "./schema.ts";

/** Values in answers about different things. */

export const Time = text({
  format: "date-time",
  description: "RFC 3339 in UTC, with milliseconds.",
});

/** The id of a task, an order or a request for access. */
export const Id = text({ format: "uuid", description: "A lower-case UUIDv7." });

export const Login = text(LOGIN.schema);

export const Share = number({ minimum: 0, maximum: 1 });

declare const OWN: unique symbol;

const OK = STATUS_TABLE[20000].message;

/** The head of every answer, before its own fields. */
export interface Head {
  readonly status_code: 20000;
  readonly status_message: typeof OK;
}

/** An answer: the envelope's head, and the operation's own fields. */
export interface Enveloped<Own> extends Schema<Head & Own> {
  readonly [OWN]?: Own;
}

/** The own fields of an answer; never for an answer without an envelope. */
export type OwnFields<Of> = Of extends Enveloped<infer Own> ? Own : never;

const HEAD = { status_code: constant(20000), status_message: constant(OK) };

export function envelope<Own extends Fields>(fields: Own): Enveloped<ValuesOf<Own>> {
  return object({ ...HEAD, ...fields });
}

/** The envelope around tasks, with the fields that an operation adds. */
export function tasksEnvelope<Item, Added extends Fields>(item: Schema<Item>, added: Added) {
  return envelope({ tasks_count: count(), tasks_error: count(), ...added, tasks: list(item) });
}

/** The position at which a list continues; null on its last page. */
export const NextCursor = nullable(
  text("To be given as `cursor` for the next page; null on the last one."),
);
