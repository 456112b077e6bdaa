import type { Answers, Bodies, Queries } from "./api.ts";
import { changesOf, type Change } from "./changes.ts";
import { ownFields, type OwnFields } from "./own-fields.ts";
import { itemsOf } from "./pages.ts";
import { isCursor, isNumber, isObject, isText, listOf } from "./shape.ts";
import type { CallOptions, Transport } from "./transport.ts";

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
