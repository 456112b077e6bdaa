import assert from "node:assert/strict";

import { verifyPostback } from "../../src/verify.ts";
import type { ReceivedRequest } from "../helpers/receiver.ts";

/** An event in the request to the operator's receiver. */
export interface ShownEvent {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly time: string;
  readonly since: string | null;
  readonly node: string;
  readonly subject: string | null;
  readonly what: string;
  readonly remedy: string | null;
  readonly hosts?: readonly { readonly host: string; readonly count: number }[];
}

/** Reads an event, and checks its signature and its id. */
export async function readEvent(request: ReceivedRequest, secret: string): Promise<ShownEvent> {
  const { headers, rawBody, method } = request;
  assert.equal(method, "POST");
  assert.equal(headers["content-type"], "application/json");
  assert(await verifyPostback(rawBody, headers["x-signature"], secret), "a signature that is none");
  const event = JSON.parse(rawBody.toString()) as ShownEvent;
  assert.equal(headers["webhook-id"], event.id);
  return event;
}
