import { isArrayBuffer } from "node:util/types";
import { parentPort, workerData } from "node:worker_threads";

import { messageOf } from "../../domain/error.ts";
import type { WebhookRequest } from "../../domain/webhook/webhook-request.ts";
import {
  FileFault,
  StoreError,
  type FileTrouble,
  type FoundTask,
  type StoreErrorKind,
} from "../store.ts";
import { openReader, toReadError } from "./machine/connection.ts";
import { longReads, type LongReads } from "./reads.ts";

/**
 * The entry of the reader thread: reads that may take long happen here, on a connection of its own, and never hold up a
 * request on the main thread.
 */

/** Orders to the thread: reads, answered in their order, then `close`. */
export type ReaderOrder =
  | {
      readonly kind: "read";
      readonly id: number;
      readonly name: keyof LongReads;
      readonly args: unknown;
    }
  | { readonly kind: "close" };

/** The thread's message: one answer for each read. */
export interface ReaderAnswer {
  readonly id: number;
  readonly outcome: ReadOutcome;
}

/** `storeError` is null when the error is a bug. */
export type ReadOutcome =
  | { readonly kind: "done"; readonly value: unknown }
  | {
      readonly kind: "error";
      readonly storeError: StoreErrorKind | null;
      /** Set when the file itself is at fault. */
      readonly trouble: FileTrouble | null;
      readonly message: string;
    };

const port = parentPort;
if (port === null) throw new Error("reader-thread.ts runs as a worker thread only");

// reader.ts sets this; nothing else starts this thread. An error here ends the thread, with its reason.
const { file } = workerData as { readonly file: string };
const connection = openReader(file);
const reads = longReads(connection);

port.on("message", (order: ReaderOrder) => {
  if (order.kind === "read") {
    const outcome = run(order);
    port.postMessage({ id: order.id, outcome } satisfies ReaderAnswer, givenAway(order, outcome));
    return;
  }
  connection.close();
  port.close();
});

// An envelope was made for this answer alone, so it is transferred instead of copied. A small buffer would share its
// memory.
function givenAway({ name }: { readonly name: string }, outcome: ReadOutcome): ArrayBuffer[] {
  if (outcome.kind !== "done") return [];
  const { buffer, byteLength } = bytesOf(name, outcome.value) ?? NO_BYTES;
  return isArrayBuffer(buffer) && byteLength === buffer.byteLength ? [buffer] : [];
}

// Each read returns the type of its name.
function bytesOf(name: string, value: unknown): Uint8Array | null {
  if (name === LARGE_TASK) return (value as FoundTask | null)?.envelope?.bytes ?? null;
  if (name !== LARGE_POSTBACK) return null;
  return (value as WebhookRequest<Uint8Array> | null)?.body ?? null;
}

const LARGE_TASK: keyof LongReads = "findLargeTask";
const LARGE_POSTBACK: keyof LongReads = "makeLargePostback";
const NO_BYTES = { buffer: null, byteLength: 0 };

function run({ name, args }: Extract<ReaderOrder, { kind: "read" }>): ReadOutcome {
  // LongReader.read ties each name to its own arguments, so they were checked where the read was asked for.
  const read = reads[name] as (args: unknown) => unknown;
  try {
    return { kind: "done", value: read(args) };
  } catch (thrown) {
    const error = toReadError(thrown);
    const message = messageOf(error);
    const storeError = error instanceof StoreError ? error.kind : null;
    const trouble = error instanceof FileFault ? error.trouble : null;
    return { kind: "error", storeError, trouble, message };
  }
}
