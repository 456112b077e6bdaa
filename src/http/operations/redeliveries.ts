import { Id } from "../../api/envelope.ts";
import {
  PREVIEW_HOSTS_MAX,
  RATE_OF_ACCOUNT_MAX,
  type GivenFilter,
  type RedeliveryOrder as OrderShown,
} from "../../api/search.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import { isId } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import { UNDELIVERED_STATES, type DeliveryFilter } from "../../domain/webhook/delivery.ts";
import type { RedeliveryOrder } from "../../store/store.ts";
import { invalidField } from "../fields.ts";
import type { RatePolicy } from "../guard/rate-limiter.ts";
import { openCursor } from "../list-cursor.ts";
import type { ApiStore, OperationDeps } from "../operation-deps.ts";
import { defineOperation, type AccountRef, type Operation } from "../operation.ts";
import { refuseBeyondBytes } from "../post-quota.ts";
import { notedRedelivery } from "./deliveries.ts";

const ORDERS_LISTED_MAX = 50;

const ORDER_ID_PARAM = {
  description: "Id of the order.",
  schema: Id,
  example: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
} as const;

const EXAMPLE = { since: "2026-01-31T09:00:00.000Z", host: "hooks.example.com" };

/** Preview, order, list and cancel: sending many deliveries again. */
export function redeliveries(deps: OperationDeps): readonly Operation[] {
  return [preview(deps), order(deps), list(deps), cancel(deps)];
}

function preview({ store, cursors }: OperationDeps): Operation {
  return defineOperation("POST /v1/redeliveries/preview", {
    access: "viewer",
    doc: {
      id: "previewRedelivery",
      group: "Dashboard",
      summary: "Count what would be sent again",
      description:
        "Counts the ended deliveries that pass a filter, by host. A request looks at a bounded number " +
        "of attempts: add up the answers, each with the `next_cursor` of the one before, until it is null.",
      examples: { host: EXAMPLE },
    },
    async handle({ scope, body }) {
      const filter = await toFilter(body, { scope, store });
      const view = { list: "attempts", scope: scope?.accountId ?? null } as const;
      const before = openCursor(body.cursor, { cursors, isField: true, ...view })?.seq ?? null;
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

function order(deps: OperationDeps): Operation {
  const { store, ids, redeliveries: limiter } = deps;
  return defineOperation("POST /v1/redeliveries", {
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
    async handle({ audit, scope, body, now }) {
      const filter = await toFilter(body, { scope, store });
      const { per_second: perSecond } = body;
      if (scope !== null && perSecond > RATE_OF_ACCOUNT_MAX) throw tooFast();
      const headers = scope === null ? {} : limiter.admit(`orders of ${scope.accountId}`, LIMIT);
      if (scope !== null) await refuseBeyondBytes(scope, deps);
      const openMax = scope === null ? null : 1;
      const request = { id: ids.next(now), filter, perSecond, createdAt: now, openMax };
      const entry = audit("order.placed", request.id, { account: filter.login, host: filter.host });
      const kept = await store.orderRedelivery({ ...request, ...notedRedelivery(entry, deps) });
      if (kept === "busy") throw new StatusError(40000, { detail: BUSY, headers });
      return { fields: { redelivery: orderDocument(kept) }, headers };
    },
  });
}

function list({ store }: OperationDeps): Operation {
  return defineOperation("GET /v1/redeliveries", {
    access: "viewer",
    doc: {
      id: "listRedeliveries",
      group: "Dashboard",
      summary: "List redelivery orders",
      description:
        `The last ${ORDERS_LISTED_MAX} orders, newest first, and how far they are. An account sees those for itself ` +
        "alone, the operator's among them.",
    },
    async handle({ scope }) {
      const query = { login: scope?.login ?? null, limit: ORDERS_LISTED_MAX };
      const orders = await store.listRedeliveryOrders(query);
      return { fields: { redeliveries: orders.map(orderDocument) } };
    },
  });
}

function cancel({ store }: OperationDeps): Operation {
  return defineOperation("DELETE /v1/redeliveries/:order_id", {
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

const LIMIT: RatePolicy = {
  name: "redeliveries",
  detail: () => "This account has ordered too many redeliveries within the last minute.",
};

function tooFast(): StatusError {
  return invalidField("per_second", `An account may have at most ${RATE_OF_ACCOUNT_MAX} a second.`);
}

async function toFilter(
  body: GivenFilter,
  { scope, store }: { readonly scope: AccountRef | null; readonly store: ApiStore },
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
