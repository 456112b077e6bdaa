/**
 * A client of postbackd's API. It needs fetch, Web Crypto and nothing else: it runs as it stands in Node 20 or newer,
 * Deno, Bun, browsers and workers.
 */
import { accountOf, keysOf, redeliveriesOf, referenceOf } from "./account.ts";
import { readSettings, type ClientSettings } from "./settings.ts";
import { tasksOf } from "./tasks.ts";
import { createTransport } from "./transport.ts";
import type {
  AccountCalls,
  AnyTypes,
  Keys,
  Redeliveries,
  Reference,
  TaskTypes,
  Tasks,
} from "./types.ts";

export type { Code as StatusCode } from "./api.ts";
export { PostbackdError } from "./settings.ts";
export type { ErrorCode, ErrorFacts, FailedTask, FieldError } from "./settings.ts";
export type { ClientSettings } from "./settings.ts";
export type * from "./types.ts";

/** A client of one daemon, for one account. Every method takes a `signal` that breaks it off. */
export interface Client<Types extends TaskTypes<Types> = AnyTypes> {
  readonly tasks: Tasks<Types>;
  readonly keys: Keys;
  readonly account: AccountCalls;
  readonly redeliveries: Redeliveries;
  readonly reference: Reference;
}

/**
 * Makes a client; nothing is sent yet. With types by name, `createClient<{ resize: { input: I; result: R } }>(…)`, a
 * task's input and result are of them. Throws a TypeError for settings that cannot be right.
 */
export function createClient<Types extends TaskTypes<Types> = AnyTypes>(
  settings: ClientSettings,
): Client<Types> {
  const transport = createTransport(readSettings(settings));
  return {
    tasks: tasksOf(transport),
    keys: keysOf(transport),
    account: accountOf(transport),
    redeliveries: redeliveriesOf(transport),
    reference: referenceOf(transport),
  };
}
