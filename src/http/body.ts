import type { IncomingMessage } from "node:http";

import type { OperationInputs } from "../api/input.ts";
import {
  FINE_CHUNKS_MAX,
  GrowingBytes,
  TURN_CHUNKS_MAX,
  boundChunks,
} from "../domain/json/chunks.ts";
import { JSON_DEPTH_MAX, type JsonReading, parseJsonBytes } from "../domain/json/json.ts";
import { StatusError } from "../domain/status.ts";
import { dropRest } from "../node-internals.ts";
import { connectionOf } from "./admission/connections.ts";
import {
  UNASKED_BYTES,
  SMALL_BODY_BYTES,
  MESSAGE_BODY_BYTES,
  BYTES_PER_RESULT_BYTE,
  RESULT_BODY_DEPTH_MAX,
} from "./admission/limits.ts";
import { addressKey, headerValues } from "./guard/client.ts";

/** Limits that the operator sets; config/setting.ts has the defaults. */
export interface BodyLimits {
  readonly bodyBytes: number;
  readonly resultBytes: number;
}

/** Counts the bytes of a body; see admission/room.ts. */
export interface BodyRoom {
  /** Takes so many more bytes if there is room now; else false. */
  takeNow(bytes: number): boolean;
  /**
   * Takes so many more bytes when there is room. Throws if no place becomes free in time, or if the client disconnects.
   */
  take(bytes: number): Promise<void>;
  /** Holds exactly so many bytes from now on. */
  set(bytes: number): void;
}

interface BodyReading {
  readonly bytesMax: number;
  readonly isOptional: boolean;
  readonly room: BodyRoom;
}

// An input is inside its task and the array of tasks.
const BODY_DEPTH_MAX = JSON_DEPTH_MAX + 2;

/** How bodies with tasks are parsed; the content of their fields is only given back. */
export const TASKS_READING = { depthMax: BODY_DEPTH_MAX, opens: 1 } as const;
/** How bodies are parsed of which no number is given back. */
export const PLAIN_READING = { depthMax: BODY_DEPTH_MAX, keepsDigits: false } as const;
/** How bodies with results are parsed, each in an item of a list. */
export const RESULTS_READING = { depthMax: RESULT_BODY_DEPTH_MAX, opens: 2 } as const;

/**
 * How much is read of the body of an operation: of one with results, the size of the largest possible result in any
 * spelling; of any other, no more than the operator's limit.
 */
export function bodyBytesMax({ json, holds }: OperationInputs, limits: BodyLimits): number {
  const { bodyBytes } = limits;
  if (json !== undefined || holds === "leases") return bodyBytes;
  if (holds === "results") return largestBody(limits);
  return Math.min(bodyBytes, holds === "message" ? MESSAGE_BODY_BYTES : SMALL_BODY_BYTES);
}

/** The most bytes that any body may have. */
export function largestBody({ bodyBytes, resultBytes }: BodyLimits): number {
  return Math.max(bodyBytes, BYTES_PER_RESULT_BYTE * resultBytes);
}

/** The client disconnected while its body was read or during a wait for its task: no response is possible. */
export class ClientGoneError extends Error {
  override readonly name = "ClientGoneError" as const;
}

const UTF_8 = /^charset=("utf-?8"|utf-?8)$/;
// A quoted value may hold semicolons. No part of the expression backtracks.
const PARAMETERS = /(?:[^;"]|"(?:[^"\\]|\\.)*"?)+/g;

/**
 * Reads the bytes of a JSON body: media type first, then size while reading (it never holds more than the limit).
 * Throws a StatusError with a code of status-codes.md. Null when the body is optional and absent: then no media type is
 * needed.
 */
export async function readBodyBytes(
  request: IncomingMessage,
  { isOptional, ...reading }: BodyReading,
): Promise<Uint8Array | null> {
  if (isOptional && hasNoBody(request)) return null;
  checkMediaType(request);
  const bytes = await readBytes(request, reading);
  if (bytes.length > 0) return bytes;
  // Only now is it known that a body in chunks was empty.
  if (isOptional) return null;
  throw new StatusError(40502);
}

/** The value of a body that has arrived. Throws 40503 for bytes that are not UTF-8, not JSON, or too deep. */
export function parseBody(bytes: Uint8Array, reading: JsonReading): unknown {
  const parsed = parseJsonBytes(bytes, reading);
  if (parsed.kind === "json") return parsed.value;
  throw new StatusError(40503, { detail: `The body is ${parsed.reason}.` });
}

function hasNoBody({ headers }: IncomingMessage): boolean {
  if (headers["transfer-encoding"] !== undefined) return false;
  return Number(headers["content-length"] ?? 0) === 0;
}

function checkMediaType(request: IncomingMessage): void {
  const { headers } = request;
  const [mediaType = "", ...others] = headerValues(request, "content-type");
  if (!isUtf8Json(mediaType) || others.length > 0) {
    throw unsupported("Send JSON in UTF-8, with Content-Type: application/json.");
  }
  const encoding = headers["content-encoding"]?.toLowerCase() ?? "identity";
  // Node hands on the bytes of `Transfer-Encoding: gzip, chunked` without decoding them.
  const transfer = headers["transfer-encoding"]?.toLowerCase() ?? "chunked";
  if (encoding !== "identity" || transfer !== "chunked") {
    throw unsupported("Send the body uncompressed, without Content-Encoding.");
  }
}

// In several steps, because one expression for all of it backtracks: 170 ms for 15,000 spaces (2026-11).
function isUtf8Json(mediaType: string): boolean {
  if (mediaType === "application/json") return true;
  const [type = ""] = mediaType.split(";", 1);
  if (type.trim().toLowerCase() !== "application/json") return false;
  // The media type of JSON has no parameters (RFC 8259 §11), but clients send profiles and versions.
  const parameters = mediaType.slice(type.length).match(PARAMETERS) ?? [];
  return parameters
    .map((each) => each.trim().toLowerCase())
    .every((each) => each.split("=", 1)[0]?.trim() !== "charset" || UTF_8.test(each));
}

function unsupported(detail: string): StatusError {
  return new StatusError(41500, { detail });
}

// Reading on only to throw the rest away would let a client keep the connection busy for nothing.
const CLOSE = { connection: "close" };

function tooLarge(bytesMax: number): StatusError {
  const detail = `The body may have at most ${bytesMax} bytes.`;
  return new StatusError(41300, { detail, headers: CLOSE });
}

function tooFine(): StatusError {
  const most = `at most ${FINE_CHUNKS_MAX}, plus one per 64 bytes, and ${TURN_CHUNKS_MAX} in one read`;
  const detail = `The body has too many small chunks: ${most}. Send Content-Length, or larger chunks.`;
  return new StatusError(40000, { detail, headers: CLOSE });
}

/**
 * Reads the bytes of a body of any media type; empty without a body. Throws 41300 as soon as it is too large, and a
 * ClientGoneError.
 */
export async function readBytes(
  request: IncomingMessage,
  { bytesMax, room }: Omit<BodyReading, "isOptional">,
): Promise<Uint8Array> {
  // A body in chunks does not declare its length.
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > bytesMax) throw tooLarge(bytesMax);
  // Before anything is read: a client with room for a part might wait for the rest for ever, and others for its part.
  if (declared <= UNASKED_BYTES) room.set(declared === 0 ? UNASKED_BYTES : declared);
  else if (!room.takeNow(declared)) await orClosing(room.take(declared));
  const reserved = Math.max(declared, UNASKED_BYTES);
  const bytes = await collect(request, { bytesMax, room, reserved });
  room.set(bytes.length);
  return bytes;
}

function collect(
  request: IncomingMessage,
  { bytesMax, room, reserved }: Omit<BodyReading, "isOptional"> & { readonly reserved: number },
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const bytes = new GrowingBytes(bytesMax);
    let size = 0;
    let roomBytes = reserved;
    const settle = (error: Error | null): void => {
      request.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone);
      if (error !== null) reject(error);
      else resolve(bytes.bytes());
    };
    const takeAll = (): void => {
      const more = bytesMax - roomBytes;
      roomBytes = bytesMax;
      if (room.takeNow(more)) return;
      request.pause();
      orClosing(room.take(more)).then(() => request.resume(), settle);
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > bytesMax) {
        request.pause();
        settle(tooLarge(bytesMax));
        return;
      }
      bytes.add(chunk);
      if (bytes.isTooFine || isTooFine(request)) {
        settle(tooFine());
        // The bytes that have already come are dropped: keeping them would be too much as well.
        request.resume();
      } else if (size > roomBytes) takeAll();
    };
    const onEnd = (): void => settle(isTooFine(request) ? tooFine() : null);
    const onGone = (): void => settle(new ClientGoneError("the client closed the connection"));
    request.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone);
    // A request that ended before a listener was added emits no more events.
    if (request.destroyed) onGone();
  });
}

/** A body that is refused for lack of room is not read any further. */
async function orClosing(taking: Promise<void>): Promise<void> {
  try {
    await taking;
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    const { code, details, headers } = error;
    throw new StatusError(code, { details, headers: { ...headers, ...CLOSE } });
  }
}

const cutShort = new WeakSet<IncomingMessage>();

/** True if a body arrived in too many small chunks and its rest is missing. */
export function isTooFine(request: IncomingMessage): boolean {
  return cutShort.has(request);
}

/**
 * Takes as much of a body in small chunks as a turn of the event loop has room for. The rest of a longer body is not
 * passed on, and its reader has to check {@link isTooFine}. Disconnects a client whose body comes in many chunks before
 * it is read: Node keeps 64 KiB of a body, which are 65,536 buffers if each chunk is one byte.
 */
export function boundFineChunks(request: IncomingMessage): void {
  if (request.headers["transfer-encoding"] === undefined) return;
  const { socket } = request;
  const sender = connectionOf(request)?.address ?? addressKey(socket.remoteAddress ?? "");
  const push = request.push.bind(request);
  let unread = 0;
  request.push = (chunk: Buffer | null) => {
    unread = request.readableLength === 0 ? 0 : unread + 1;
    // The end is not a chunk; with it the reader has everything that was kept, and can respond.
    if (chunk === null || unread <= FINE_CHUNKS_MAX) return push(chunk);
    socket.destroy();
    return false;
  };
  const onTooMany = (): void => {
    dropRest(socket);
    cutShort.add(request);
  };
  boundChunks(request, { sender, onTooMany });
}
