import type { Clock } from "../../domain/clock/clock.ts";
import type { Observer } from "../../domain/observer.ts";
import type { FileTrouble } from "../store.ts";

/** The messages between group commit and a writer. */

/** A write as data, so that it can cross to the writer thread. */
export interface Operation {
  readonly name: string;
  readonly args: unknown;
}

/** An operation of a committed batch that was rolled back alone. */
export interface Rejection {
  /** Its place in the batch. */
  readonly index: number;
  readonly message: string;
  /** Why it was not written, if the cause lies elsewhere. */
  readonly kind?: Exclude<BatchReply["kind"], "committed">;
}

/** How a batch ended. `committed` left something behind, and `unknown` may have. */
export type BatchReply =
  | {
      readonly kind: "committed";
      /**
       * The values of all operations, in their order; undefined for those that were rejected. Without an object around
       * each, a reply crosses the threads for 0.1 µs an operation instead of 0.9 (measured).
       */
      readonly values: readonly unknown[];
      readonly rejected: readonly Rejection[];
      /** The accounts whose tasks or deliveries it changed, each once. */
      readonly changed: readonly number[];
      /** False for a batch that found nothing to change, and so needed no room. */
      readonly hasWritten: boolean;
    }
  /** Nothing was written; the same batch may succeed later. */
  | { readonly kind: "full" | "busy" | "unreachable"; readonly message: string }
  /** Nothing was written, and nothing may be written any more. */
  | BatchFailure
  /** The outcome is unknown, and nothing may be written any more. */
  | (Omit<BatchFailure, "kind"> & { readonly kind: "unknown" });

export interface BatchFailure {
  readonly kind: "failed";
  readonly message: string;
  /** Set when the file itself is at fault. */
  readonly trouble?: FileTrouble;
}

/**
 * Sends a batch to the thread that runs it, and returns how it ended. Batches are run in the order in which they were
 * sent.
 */
export interface BatchTransport {
  send(batch: readonly Operation[]): Promise<BatchReply>;
  close(): Promise<void>;
}

/** The same transport, which reports each commit and each refused batch to the observer. */
export function observedTransport(
  transport: BatchTransport,
  { observer, clock }: { readonly observer?: Observer | undefined; readonly clock: Clock },
): BatchTransport {
  const tell = observer?.commit;
  const tellRefusal = observer?.refusal;
  if (tell === undefined && tellRefusal === undefined) return transport;
  return {
    async send(batch) {
      const sentAt = clock.monotonic();
      const reply = await transport.send(batch);
      if (reply.kind === "committed") {
        const operations = reply.values.length - reply.rejected.length;
        tell?.({ operations, ms: clock.monotonic() - sentAt });
      } else tellRefusal?.({ reason: reply.kind });
      return reply;
    },
    close: () => transport.close(),
  };
}
