import type { IncomingMessage } from "node:http";

import { StatusError } from "../domain/status.ts";
import { BOX_PATTERN, type ScriptedAnswer } from "../domain/webhook/inbox.ts";
import { connectionOf } from "./admission/connections.ts";
import type { RequestRoom } from "./admission/room.ts";
import { ClientGoneError, readBytes } from "./body.ts";
import { arrivalOf, headerValues } from "./guard/client.ts";
import type { GateDeps } from "./guard/gate.ts";
import type { WholeAnswer } from "./operation.ts";

/** Receives what is sent to `/inbox/{box}` of a daemon for development. */
export interface InboxReceiver {
  /**
   * Records a request. Resolves to its answer when that is due, or to null if the client has disconnected. Throws 42900
   * if there are too many boxes.
   */
  receive(request: InboxRequest, gone: AbortSignal): Promise<ScriptedAnswer | null>;
}

/** A request as it was received. */
export interface InboxRequest {
  readonly box: string;
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** With scheme and host. */
  readonly url: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

const MESSAGE_BYTES_MAX = 4 * 1024 ** 2;

const BOX = new RegExp(BOX_PATTERN);

/** The name of a box as it was given. Throws 40000 for what cannot be one. */
export function boxName(given: string): string {
  if (BOX.test(given)) return given;
  const detail = "The name of an inbox is 1 to 64 of the characters A-Z a-z 0-9 . _ @ + -";
  throw new StatusError(40000, { detail });
}

export interface InboxCall {
  /** The name of the box, as it stands in the path. */
  readonly box: string;
  readonly request: IncomingMessage;
  readonly gate: Pick<GateDeps, "proxies">;
  readonly room: RequestRoom;
  /** Aborted when the client disconnects. */
  readonly gone: AbortSignal;
}

/** Records a message and returns the response that was set for the inbox. Throws a ClientGoneError without a response. */
export async function answerMessage(call: InboxCall, inbox: InboxReceiver): Promise<WholeAnswer> {
  const { request, room, gone } = call;
  const message = await toMessage(call);
  const answer = await room.whileWaiting(() => inbox.receive(message, gone));
  if (answer?.kind === "answer") {
    const { status, body: text } = answer;
    const { "content-type": contentType = "text/plain; charset=utf-8", ...headers } =
      answer.headers;
    return { status, text, headers, contentType };
  }
  if (answer?.kind === "reset") connectionOf(request)?.cutOff();
  throw new ClientGoneError("the message was not to be answered");
}

async function toMessage({ box, request, gate, room }: InboxCall): Promise<InboxRequest> {
  const { method = "", url: target = "" } = request;
  const name = boxName(box);
  const bytes = await readBytes(request, { bytesMax: MESSAGE_BYTES_MAX, room });
  const [host = ""] = headerValues(request, "host");
  const scheme = arrivalOf(request, gate.proxies).isHttps ? "https" : "http";
  return {
    box: name,
    method,
    target,
    url: `${scheme}://${host}${target}`,
    headers: headersOf(request),
    // A copy: what was read may be a small part of a large piece of memory.
    body: Uint8Array.from(bytes),
  };
}

function headersOf({ rawHeaders }: IncomingMessage): InboxRequest["headers"] {
  const headers: [string, string][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    headers.push([rawHeaders[i] ?? "", rawHeaders[i + 1] ?? ""]);
  }
  return headers;
}
