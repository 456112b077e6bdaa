import type { Answers, Bodies, Queries } from "./api.ts";
import {
  type CallOptions,
  type OwnFields,
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

export type Account = OwnFields<Answers["GET /v1/appendix/user_data"]>;
export type Key = Account["keys"][number];
export type NewKey = Answers["POST /v1/appendix/keys"]["key"];
export type NewKeyOptions = NonNullable<Bodies["POST /v1/appendix/keys"]> & CallOptions;
export type Overview = OwnFields<Answers["GET /v1/stats/overview"]>;
export type Series = OwnFields<Answers["GET /v1/stats/series"]>;
export type SeriesOptions = Queries["GET /v1/stats/series"] & CallOptions;
export type Hosts = OwnFields<Answers["GET /v1/stats/hosts"]>;
export type HostsOptions = Queries["GET /v1/stats/hosts"] & CallOptions;
export type RedeliveryOrder = Answers["POST /v1/redeliveries"]["redelivery"];
/** Which deliveries; `login` is the operator's. */
export type RedeliveryFilter = Omit<Bodies["POST /v1/redeliveries/preview"], "cursor" | "login"> &
  CallOptions;
export type RedeliveryOptions = Omit<Bodies["POST /v1/redeliveries"], "login"> & CallOptions;

/** Keys of the account. */
export interface Keys {
  /** Makes a key, which is shown this once; never repeated by itself. */
  create(options?: NewKeyOptions): Promise<NewKey>;
  list(options?: CallOptions): Promise<readonly Key[]>;
  /** From the next request on, the key is refused. */
  revoke(keyId: string, options?: CallOptions): Promise<Key>;
}

/** The account, and its numbers. */
export interface AccountCalls {
  /** Login, webhook secrets, keys, limits, and how many tasks there are. */
  get(options?: CallOptions): Promise<Account>;
  /** The names of the types that a task may have. */
  types(options?: CallOptions): Promise<readonly string[]>;
  overview(options?: CallOptions): Promise<Overview>;
  /** Traffic by minute or hour. */
  series(options?: SeriesOptions): Promise<Series>;
  /** The hosts that webhooks go to. */
  hosts(options?: HostsOptions): Promise<Hosts>;
  /** How much work there is, now and after each change, until the loop is left. */
  changes(options?: CallOptions): AsyncIterableIterator<Change>;
}

/** Orders to send many webhooks again. */
export interface Redeliveries {
  /** How many deliveries an order would be for. */
  count(filter: RedeliveryFilter): Promise<number>;
  /** Never repeated by itself. */
  create(order: RedeliveryOptions): Promise<RedeliveryOrder>;
  list(options?: CallOptions): Promise<readonly RedeliveryOrder[]>;
  cancel(orderId: string, options?: CallOptions): Promise<RedeliveryOrder>;
}

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

export type Marketplace = Answers["GET /v1/appendix/marketplaces"]["marketplaces"][number];
export type ServiceStatus = OwnFields<Answers["GET /v1/appendix/status"]>;
export type StatusCodeRow = Answers["GET /v1/appendix/status_codes"]["status_codes"][number];
export type AccessRequest = Bodies["POST /v1/access_requests"] & CallOptions;

/** The daemon's answers to everybody. */
export interface Reference {
  /** The codes that a task's `marketplace` may have. */
  marketplaces(options?: CallOptions): Promise<readonly Marketplace[]>;
  /** How well the service does, in words. */
  status(options?: CallOptions): Promise<ServiceStatus>;
  /** Every code there is, with its message and HTTP status. */
  statusCodes(options?: CallOptions): Promise<readonly StatusCodeRow[]>;
  /** The API's document, OpenAPI 3.1. */
  openApi(options?: CallOptions): Promise<Answers["GET /openapi.json"]>;
  /** Resolves where the daemon runs. */
  live(options?: CallOptions): Promise<Answers["GET /livez"]>;
  /** Resolves where it takes requests. */
  ready(options?: CallOptions): Promise<Answers["GET /readyz"]>;
  /** Asks the operator for an account, and answers the request's id; never repeated by itself. */
  requestAccess(request: AccessRequest): Promise<string>;
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

/** How much work there is, at that time. */
export type Change = Pick<Answers["GET /v1/stats/overview"], "tasks" | "time">;

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
