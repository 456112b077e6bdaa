import { parentPort } from "node:worker_threads";

import { messageOf } from "../domain/error.ts";
import { StatusError } from "../domain/status.ts";
import { BODY_PARSES } from "../http/long-bodies.ts";
import { RESULT_PARSES } from "../run/service-result.ts";

/** The entry of the parser's thread: what may take long to parse is parsed here, and never holds up a request. */

const PARSES = { ...BODY_PARSES, ...RESULT_PARSES };

/** Orders to the thread: one after the other, each once the one before is answered. */
export interface ParseOrder {
  readonly name: keyof typeof PARSES;
  readonly args: unknown;
}

/** The thread's answers. `refused` holds the parts of a StatusError. */
export type ParseOutcome =
  | { readonly kind: "done"; readonly value: unknown }
  | ({ readonly kind: "refused" } & Pick<StatusError, "code" | "message" | "details" | "headers">)
  | { readonly kind: "error"; readonly message: string };

const port = parentPort;
if (port === null) throw new Error("parser-thread.ts runs as a worker thread only");

port.on("message", (order: ParseOrder) => {
  port.postMessage(run(order) satisfies ParseOutcome);
});

function run({ name, args }: ParseOrder): ParseOutcome {
  // Offload.run ties each name to its own arguments, so they were checked where this was asked for.
  const parse = PARSES[name] as (args: unknown) => unknown;
  try {
    return { kind: "done", value: parse(args) };
  } catch (error) {
    if (error instanceof StatusError) {
      const { code, message, details, headers } = error;
      return { kind: "refused", code, message, details, headers };
    }
    return { kind: "error", message: messageOf(error) };
  }
}
