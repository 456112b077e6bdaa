import {
  type Transport,
  isCursor,
  isNumber,
  isObject,
  isText,
  itemsOf,
  listOf,
  otherShape,
  ownFields,
  pause,
} from "./transport.ts";
import type { AccountCalls, CallOptions, Change, Keys, Redeliveries, Reference } from "./types.ts";

const KEY = { key: isObject };
const KEYS = { keys: listOf(isObject) };
const TYPES = { types: listOf(isText) };
const COUNT = { deliveries: isNumber, next_cursor: isCursor };
const ORDER = { redelivery: isObject };
const ORDERS = { redeliveries: listOf(isObject) };

export function keysOf(transport: Transport): Keys {
  return {
    create: async ({ signal, ...body } = {}) =>
      (await transport.call("POST /v1/appendix/keys", { body, shape: KEY, signal })).key,
    list: async ({ signal } = {}) =>
      (await transport.call("GET /v1/appendix/user_data", { shape: KEYS, signal })).keys,
    revoke: async (keyId, { signal } = {}) => {
      const request = { params: { key_id: keyId }, shape: KEY, signal };
      return (await transport.call("DELETE /v1/appendix/keys/:key_id", request)).key;
    },
  };
}

export function accountOf(transport: Transport): AccountCalls {
  return {
    get: async ({ signal } = {}) =>
      ownFields(await transport.call("GET /v1/appendix/user_data", { signal })),
    types: async ({ signal } = {}) =>
      (await transport.call("GET /v1/appendix/types", { shape: TYPES, signal })).types,
    overview: async ({ signal } = {}) =>
      ownFields(await transport.call("GET /v1/stats/overview", { signal })),
    series: async ({ signal, ...query } = {}) =>
      ownFields(await transport.call("GET /v1/stats/series", { query, signal })),
    hosts: async ({ signal, ...query } = {}) =>
      ownFields(await transport.call("GET /v1/stats/hosts", { query, signal })),
    changes: (options = {}) => changesOf(transport, options),
  };
}

export function redeliveriesOf(transport: Transport): Redeliveries {
  return {
    count: async ({ signal, ...filter }) => {
      let count = 0;
      const steps = itemsOf(
        (cursor) =>
          transport.call("POST /v1/redeliveries/preview", {
            body: { ...filter, cursor },
            isRepeatable: true,
            shape: COUNT,
            signal,
          }),
        ({ deliveries }) => [deliveries],
      );
      for await (const counted of steps) count += counted;
      return count;
    },
    create: async ({ signal, ...body }) =>
      (await transport.call("POST /v1/redeliveries", { body, shape: ORDER, signal })).redelivery,
    list: async ({ signal } = {}) =>
      (await transport.call("GET /v1/redeliveries", { shape: ORDERS, signal })).redeliveries,
    cancel: async (orderId, { signal } = {}) => {
      const request = { params: { order_id: orderId }, shape: ORDER, signal };
      return (await transport.call("DELETE /v1/redeliveries/:order_id", request)).redelivery;
    },
  };
}

const MARKETPLACES = { marketplaces: listOf(isObject) };
const STATUS_CODES = { status_codes: listOf(isObject) };
const DOCUMENT = { openapi: isText };
const HEALTH = { status: isText };
const REQUEST_ID = { request_id: isText };

export function referenceOf(transport: Transport): Reference {
  return {
    marketplaces: async ({ signal } = {}) =>
      (await transport.call("GET /v1/appendix/marketplaces", { shape: MARKETPLACES, signal }))
        .marketplaces,
    status: async ({ signal } = {}) =>
      ownFields(await transport.call("GET /v1/appendix/status", { signal })),
    statusCodes: async ({ signal } = {}) =>
      (await transport.call("GET /v1/appendix/status_codes", { shape: STATUS_CODES, signal }))
        .status_codes,
    openApi: ({ signal } = {}) => transport.call("GET /openapi.json", { shape: DOCUMENT, signal }),
    live: ({ signal } = {}) => transport.call("GET /livez", { shape: HEALTH, signal }),
    ready: ({ signal } = {}) => transport.call("GET /readyz", { shape: HEALTH, signal }),
    requestAccess: async ({ signal, ...body }) =>
      (await transport.call("POST /v1/access_requests", { body, shape: REQUEST_ID, signal }))
        .request_id,
  };
}

/** As the daemon asks browsers to wait. */
const RECONNECT_MS = 2000;

/**
 * How much work there is now, and again whenever that may have changed, at most four times a second; without an end:
 * when the daemon stops, it is asked again.
 */
export async function* changesOf(
  transport: Transport,
  { signal }: CallOptions,
): AsyncGenerator<Change, void, undefined> {
  for (let lastId: string | undefined; ; await pause(RECONNECT_MS, signal)) {
    const headers = lastId === undefined ? {} : { "Last-Event-ID": lastId };
    const response = await transport.open("GET /v1/events", { headers, signal });
    if (response.headers.get("content-type")?.startsWith("text/event-stream") !== true) {
      await response.body?.cancel();
      throw otherShape(response);
    }
    for await (const event of eventsOf(response.body)) {
      lastId = event.id ?? lastId;
      if (event.event === "change") yield changeIn(event, response);
    }
    signal?.throwIfAborted();
  }
}

function changeIn({ data = "" }: Event, response: Response): Change {
  try {
    const change: Change = JSON.parse(data);
    if (isObject(change) && isObject(change.tasks)) return change;
  } catch {
    // The caller throws the same error for JSON of another shape.
  }
  throw otherShape(response);
}

interface Event {
  readonly event?: string;
  readonly id?: string;
  readonly data?: string;
}

/** The events of a stream, up to its end; one that breaks off has ended. */
async function* eventsOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Event, void> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const part = await reader?.read().catch(() => undefined);
      if (part === undefined || part.done) return;
      const blocks = (text + decoder.decode(part.value, { stream: true })).split("\n\n");
      text = blocks.pop() ?? "";
      yield* blocks.map(readEvent);
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
}

/** The fields of an event; each of the daemon's is one line. */
function readEvent(block: string): Event {
  return Object.fromEntries(
    block.split("\n").flatMap((line) => {
      const at = line.indexOf(": ");
      // Without a name it is a comment.
      return at < 1 ? [] : [[line.slice(0, at), line.slice(at + 2)]];
    }),
  );
}
