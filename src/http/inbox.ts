import type { IncomingMessage } from "node:http";

import type { H3 } from "h3";

import { StatusError } from "../domain/status.ts";
import { BOX_PATTERN } from "../domain/webhook/inbox.ts";
import { ClientGoneError, readBytes } from "./body.ts";
import type { DevInboxDesk, InboxRequest } from "./dev-desk.ts";
import { arrivalOf } from "./guard/client-address.ts";
import type { GateDeps } from "./guard/gate.ts";
import type { WholeAnswer } from "./operation.ts";
import { connectionOf } from "./server/client-connection.ts";
import { headerValues } from "./server/raw-headers.ts";
import type { RequestRoom } from "./server/request-room.ts";

/** The most bytes of a message's body. */
export const MESSAGE_BYTES_MAX = 4 * 1024 ** 2;

type Handler = Parameters<H3["all"]>[1];

/** Routes what is sent to inboxes. */
export function addInbox(app: H3, handler: Handler): void {
  app.all("/inbox/:box", handler);
  app.all("/inbox/:box/**", handler);
}

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

/** Records a message, and answers it as the inbox was told to. Throws a ClientGoneError where there is no answer. */
export async function answerMessage(call: InboxCall, inbox: DevInboxDesk): Promise<WholeAnswer> {
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
