import type {
  Delivery as DeliveryShown,
  ListedAttempt as ListedAttemptShown,
} from "../../api/delivery.ts";
import { Id } from "../../api/envelope.ts";
import {
  type GivenFilter,
  PREVIEW_HOSTS_MAX,
  RATE_OF_ACCOUNT_MAX,
  type RedeliveryOrder as OrderShown,
} from "../../api/search.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import { isId } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import type { TaskKey } from "../../domain/task/task.ts";
import {
  type DeliveryFilter,
  type DeliveryKind,
  UNDELIVERED_STATES,
  deliveryDocument,
} from "../../domain/webhook/delivery.ts";
import type { AuditEntry, Audited, Delivery, RedeliveryOrder } from "../../store/store.ts";
import { type RatePolicy, refuseBeyondBytes } from "../admission/quota.ts";
import { invalidField } from "../inputs.ts";
import { openCursor } from "../list-cursor.ts";
import type { ApiStore, OperationDeps } from "../operation-deps.ts";
import { type AccountRef, type Operation, defineOperation } from "../operation.ts";
import { TASK_ID_PARAM, taskNotFound } from "./tasks.ts";

export function deliveryList(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/deliveries/:id", {
    access: "account",
    id: "listDeliveries",
    summary: "List a task's deliveries",
    description:
      "The task's webhooks: each attempt with its outcome, and when the next attempt is due. Returns the last " +
      "100 attempts of each delivery, and no deliveries before the task has ended.",
    params: { id: TASK_ID_PARAM },
    codes: [40401, 40403],
    async handle({ holder, params, now }) {
      const key = { accountId: holder.accountId, id: params["id"] ?? "" };
      return { fields: shown(key.id, await findDeliveries(key, { deps, now })) };
    },
  });
}

export function redeliver(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/tasks/redeliver/:id", {
    access: "account",
    id: "redeliver",
    summary: "Send a task's webhooks again",
    description:
      "Starts ended deliveries again with their first attempt. A scheduled attempt becomes due " +
      "now; an attempt in flight continues. With `states`, only deliveries with these end states are sent. A task can be " +
      "sent again thirty times a minute.",
    params: { id: TASK_ID_PARAM },
    codes: [40401, 40403, 40501, 50700],
    examples: {
      all: {},
      one: { kind: "postback" },
      undelivered: { states: UNDELIVERED_STATES },
    },
    async handle({ holder, params, body: { kind, states }, audit, now }) {
      const key = { accountId: holder.accountId, id: params["id"] ?? "" };
      const before = await findDeliveries(key, { deps, now });
      if (kind !== null && !before.some((each) => each.kind === kind)) throw noDelivery(kind);
      const headers = deps.redeliveries.admit(`${key.accountId} ${key.id}`, TASK_LIMIT);
      await refuseBeyondBytes(holder, deps);
      const entry = audit("delivery.redelivered", key.id, { account: holder.login, kind });
      const order = { ...key, kind, states, now, ...notedRedelivery(entry, deps) };
      const lanes = await deps.store.redeliver(order);
      if (lanes.length > 0) deps.wakeDeliveries(lanes);
      return { fields: shown(key.id, await findDeliveries(key, { deps, now })), headers };
    },
  });
}

/**
 * The audit entry of a redelivery or an order, for its write; none if the account has had enough of them in this hour.
 * The audit keeps the newest entries of all accounts: one account must not push out the others.
 */
export function notedRedelivery(audit: AuditEntry, { uncounted }: OperationDeps): Audited {
  const { kind, name } = audit.actor;
  const login = name?.split(" ", 1)[0] ?? "";
  const isNoted = kind !== "account" || uncounted.count(`noted redeliveries of ${login}`).isAllowed;
  return isNoted ? { audit } : {};
}

const TASK_LIMIT: RatePolicy = {
  name: "redeliveries",
  detail: () => "This task was sent again too often within the last minute.",
};

async function findDeliveries(
  key: TaskKey,
  { deps, now }: { readonly deps: OperationDeps; readonly now: number },
): Promise<readonly Delivery[]> {
  const found = isId(key.id) ? await deps.store.listDeliveries(key) : null;
  if (found === null) throw taskNotFound(key.id, { ...deps, now });
  return found;
}

function noDelivery(kind: DeliveryKind): StatusError {
  const reason = `This task has no ${kind} to send: the task was posted without its URL, or has not ended.`;
  return invalidField("kind", reason);
}

function shown(id: string, deliveries: readonly Delivery[]) {
  return { deliveries: deliveries.map((each): DeliveryShown => deliveryDocument(id, each)) };
}

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
    id: "previewRedelivery",
    summary: "Count what would be sent again",
    description:
      "Counts the ended deliveries that pass a filter, by host. A request examines a bounded number " +
      "of attempts: repeat it with `next_cursor` until that is null, and add up the counts.",
    examples: { host: EXAMPLE },
    async handle({ scope, body }) {
      const filter = await toFilter(body, { scope, store });
      const view = { list: "attempts", scope: scope?.accountId ?? null } as const;
      const before = openCursor(body.cursor, { cursors, isField: true, ...view })?.seq ?? null;
      const page = await store.countEndedDeliveriesStep({ filter, before });
      const { deliveries, hosts, next, examinedUntil: until } = page;
      // The log has the attempts of all accounts: how far back a fixed number of them reaches would reveal their rate.
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
    id: "orderRedelivery",
    summary: "Send many webhooks again",
    description:
      "Creates a bulk redelivery: each ended delivery that matches the filter starts again with its first attempt. The daemon " +
      "processes orders concurrently, each at its own rate, and continues them after a restart. An account has one " +
      "open order at a time.",
    codes: [50700],
    examples: { host: { ...EXAMPLE, per_second: 20 } },
    async handle({ audit, scope, body, now }) {
      const filter = await toFilter(body, { scope, store });
      const { per_second: perSecond } = body;
      if (scope !== null && perSecond > RATE_OF_ACCOUNT_MAX) throw tooFast();
      const headers =
        scope === null ? {} : limiter.admit(`orders of ${scope.accountId}`, ORDERS_LIMIT);
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
    id: "listRedeliveries",
    summary: "List redelivery orders",
    description:
      `The last ${ORDERS_LISTED_MAX} orders, newest first, with their progress. An account sees the orders for its own webhooks, ` +
      "also the operator's.",
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
    id: "cancelRedelivery",
    summary: "Cancel a redelivery order",
    description: "Deliveries that it has started continue. An order that has ended stays as it is.",
    params: { order_id: ORDER_ID_PARAM },
    codes: [50700],
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
  "This account already has an open order: wait for its end or cancel it, then order again.";

const ORDERS_LIMIT: RatePolicy = {
  name: "redeliveries",
  detail: () => "This account has ordered too many redeliveries within the last minute.",
};

function tooFast(): StatusError {
  return invalidField(
    "per_second",
    `An account may send at most ${RATE_OF_ACCOUNT_MAX} per second.`,
  );
}

async function toFilter(
  body: GivenFilter,
  { scope, store }: { readonly scope: AccountRef | null; readonly store: ApiStore },
): Promise<DeliveryFilter> {
  const { since, until, host, kind, states, login } = body;
  if (scope !== null && login !== null && login !== scope.login) {
    throw invalidField("login", "Only the operator can name another login: omit it.");
  }
  if (scope === null && login !== null && (await store.findAccount(login)) === null) {
    throw invalidField("login", "No account has this login.");
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

export function attemptList({ store, cursors }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/attempts", {
    access: "account",
    id: "listAttempts",
    summary: "Follow the attempts of all webhooks",
    description:
      "Lists every attempt of the account's webhooks once, in the order of scheduling. Without a cursor, it returns the " +
      "attempts that are scheduled now, soonest due first (of 5,000 at most, those to one host first), and the cursor " +
      "after the newest attempt. With a cursor, it returns the attempts that " +
      "were scheduled since, started or not. A page can be empty and have `more`. With several " +
      "daemons on one database, an attempt is listed ten seconds after its scheduling.",
    async handle({ holder, query, now }) {
      const { accountId } = holder;
      const view = { list: "webhooks", scope: accountId } as const;
      const seal = (seq: number): string => cursors.seal({ timeMs: 0, seq }, view);
      const after = openCursor(query.cursor, { cursors, ...view })?.seq ?? null;
      const page = await store.listAttempts({ accountId, after, limit: query.limit, now });
      const attempts = page.attempts.map(
        ({ seq, taskId, type, tag, kind, number, dueAt, startedAt }): ListedAttemptShown => ({
          task_id: taskId,
          type,
          tag,
          kind,
          number,
          due_at: timeText(dueAt),
          started_at: timeOrNull(startedAt),
          cursor: startedAt === null ? seal(seq - 1) : null,
        }),
      );
      return { fields: { attempts, next_cursor: seal(page.next), more: page.hasMore } };
    },
  });
}
