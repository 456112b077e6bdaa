import {
  PREVIEW_HOSTS_MAX,
  RATE_OF_ACCOUNT_MAX,
  type GivenFilter,
  type RedeliveryOrder as OrderShown,
} from "../../api/redelivery.ts";
import { Id } from "../../api/value.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import { isId, type IdGenerator } from "../../domain/id.ts";
import { StatusError, type ResponseHeaders } from "../../domain/status.ts";
import { UNDELIVERED_STATES, type DeliveryFilter } from "../../domain/webhook/delivery.ts";
import type { RedeliveryOrder, Store } from "../../store/store.ts";
import { invalidField } from "../fields.ts";
import { tooManyRequests } from "../guard/gate.ts";
import { rateLimitHeaders, type RateLimiter } from "../guard/rate-limiter.ts";
import { openCursorField, type ListCursors } from "../list-cursor.ts";
import { defineOperation, type AccountRef, type Operation } from "../operation.ts";
import { refuseBeyondBytes, type ByteQuotaDeps } from "../post-quota.ts";

export interface RedeliveriesDeps extends ByteQuotaDeps {
  readonly store: Pick<
    Store,
    | "countWork"
    | "countEndedDeliveriesStep"
    | "orderRedelivery"
    | "listRedeliveryOrders"
    | "cancelRedeliveryOrder"
    | "findAccount"
  >;
  readonly cursors: ListCursors;
  readonly ids: IdGenerator;
  /** The limit of orders by account, among other things: each order stays in the file for a while. */
  readonly redeliveries: RateLimiter;
}

const ORDERS_LISTED_MAX = 50;

const ORDER_ID_PARAM = {
  description: "Id of the order.",
  schema: Id,
  example: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
} as const;

const EXAMPLE = { since: "2026-01-31T09:00:00.000Z", host: "hooks.example.com" };

/** Preview, order, list and cancel: sending many deliveries again. */
export function redeliveries(deps: RedeliveriesDeps): readonly Operation[] {
  return [preview(deps), order(deps), list(deps), cancel(deps)];
}

/** POST /v1/redeliveries/preview: counts the deliveries that a filter selects, some at a time. */
function preview({ store, cursors }: RedeliveriesDeps): Operation {
  return defineOperation({
    method: "POST",
    path: "/v1/redeliveries/preview",
    access: "viewer",
    doc: {
      id: "previewRedelivery",
      group: "Dashboard",
      summary: "Count what would be sent again",
      description:
        "Counts the ended deliveries that pass a filter, by host. A request looks at a bounded number " +
        "of attempts: add up the answers, each with the `next_cursor` of the one before, until it is null.",
      codes: [],
      examples: { host: EXAMPLE },
    },
    async handle({ scope, body }) {
      const filter = await toFilter(body, { scope, store });
      const view = { list: "attempts", scope: scope?.accountId ?? null } as const;
      const before = openCursorField(body.cursor, { cursors, ...view })?.seq ?? null;
      const page = await store.countEndedDeliveriesStep({ filter, before });
      const { deliveries, hosts, next, examinedUntil: until } = page;
      // The log holds the attempts of all accounts: how far back so many of them reach would tell how many there are.
      const shown = scope === null ? until : null;
      const fields = {
        deliveries,
        hosts: hosts.slice(0, PREVIEW_HOSTS_MAX),
        next_cursor: next === null ? null : cursors.seal({ timeMs: 0, seq: next }, view),
        examined_until: timeOrNull(shown),
      };
      return { fields };
    },
  });
}

/** POST /v1/redeliveries: sends again what passes a filter by now, at a rate per second. */
function order(deps: RedeliveriesDeps): Operation {
  const { store, ids, redeliveries: limiter } = deps;
  return defineOperation({
    method: "POST",
    path: "/v1/redeliveries",
    access: "viewer",
    doc: {
      id: "orderRedelivery",
      group: "Dashboard",
      summary: "Send many webhooks again",
      description:
        "Orders a fresh series of attempts for each delivery that has ended and passes the filter by now. The daemon " +
        "works orders off side by side, each at its own rate, and goes on with them after a restart. An account has one " +
        "open order at a time.",
      codes: [50700],
      examples: { host: { ...EXAMPLE, per_second: 20 } },
    },
    async handle({ scope, body, now }) {
      const filter = await toFilter(body, { scope, store });
      const { per_second: perSecond } = body;
      if (scope !== null && perSecond > RATE_OF_ACCOUNT_MAX) throw tooFast();
      const headers = scope === null ? {} : countOrder(scope, limiter);
      if (scope !== null) await refuseBeyondBytes(scope, deps);
      const openMax = scope === null ? null : 1;
      const request = { id: ids.next(now), filter, perSecond, createdAt: now, openMax };
      const kept = await store.orderRedelivery(request);
      if (kept === "busy") throw new StatusError(40000, { detail: BUSY, headers });
      return { fields: { redelivery: orderDocument(kept) }, headers };
    },
  });
}

/** GET /v1/redeliveries: orders, newest first. */
function list({ store }: RedeliveriesDeps): Operation {
  return defineOperation({
    method: "GET",
    path: "/v1/redeliveries",
    access: "viewer",
    doc: {
      id: "listRedeliveries",
      group: "Dashboard",
      summary: "List redelivery orders",
      description:
        `The last ${ORDERS_LISTED_MAX} orders, newest first, and how far they are. An account sees those for itself ` +
        "alone, the operator's among them.",
      codes: [],
    },
    async handle({ scope }) {
      const query = { login: scope?.login ?? null, limit: ORDERS_LISTED_MAX };
      const orders = await store.listRedeliveryOrders(query);
      return { fields: { redeliveries: orders.map(orderDocument) } };
    },
  });
}

/** DELETE /v1/redeliveries/{id}: ends an order before its time. */
function cancel({ store }: RedeliveriesDeps): Operation {
  return defineOperation({
    method: "DELETE",
    path: "/v1/redeliveries/:order_id",
    access: "viewer",
    doc: {
      id: "cancelRedelivery",
      group: "Dashboard",
      summary: "Cancel a redelivery order",
      description: "Deliveries that it has begun go on. An order that has ended stays as it is.",
      params: { order_id: ORDER_ID_PARAM },
      codes: [50700],
    },
    async handle({ scope, params, now }) {
      const id = params["order_id"] ?? "";
      const login = scope?.login ?? null;
      const found = isId(id) ? await store.cancelRedeliveryOrder({ id, login, now }) : null;
      if (found === null) throw new StatusError(40400);
      return { fields: { redelivery: orderDocument(found) } };
    },
  });
}

const BUSY =
  "This account has an order that is not worked off yet: wait for its end, or cancel it, and order again.";

const TOO_OFTEN = "This account has ordered too many redeliveries within the last minute.";

function tooFast(): StatusError {
  return invalidField("per_second", `An account may have at most ${RATE_OF_ACCOUNT_MAX} a second.`);
}

function countOrder({ accountId }: AccountRef, limiter: RateLimiter): ResponseHeaders {
  const verdict = limiter.count(`orders of ${accountId}`);
  const headers = rateLimitHeaders("redeliveries", verdict);
  if (verdict.isAllowed) return headers;
  throw tooManyRequests(verdict.resetSeconds, { detail: TOO_OFTEN, headers });
}

async function toFilter(
  body: GivenFilter,
  {
    scope,
    store,
  }: { readonly scope: AccountRef | null; readonly store: RedeliveriesDeps["store"] },
): Promise<DeliveryFilter> {
  const { since, until, host, kind, states, login } = body;
  if (scope !== null && login !== null && login !== scope.login) {
    throw invalidField("login", "It must be your own login: leave it out.");
  }
  if (scope === null && login !== null && (await store.findAccount(login)) === null) {
    throw invalidField("login", "There is no account with this login.");
  }
  return {
    login: scope?.login ?? login,
    taskId: null,
    kind,
    host,
    states: states ?? UNDELIVERED_STATES,
    outcome: null,
    since,
    until,
  };
}

function orderDocument(kept: RedeliveryOrder): OrderShown {
  const { login, host, kind, states, since, until } = kept.filter;
  return {
    id: kept.id,
    filter: { login, host, kind, states, since: timeOrNull(since), until: timeOrNull(until) },
    per_second: kept.perSecond,
    created_at: timeText(kept.createdAt),
    redelivered: kept.redelivered,
    ended_at: timeOrNull(kept.endedAt),
    is_cancelled: kept.isCancelled,
  };
}
