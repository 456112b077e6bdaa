import type { Delivery as DeliveryShown } from "../../api/delivery.ts";
import { isId } from "../../domain/id.ts";
import type { StatusError } from "../../domain/status.ts";
import type { TaskKey } from "../../domain/task/task.ts";
import {
  type DeliveryKind,
  UNDELIVERED_STATES,
  deliveryDocument,
} from "../../domain/webhook/delivery.ts";
import type { Audited, AuditEntry, Delivery } from "../../store/store.ts";
import { invalidField } from "../fields.ts";
import type { RatePolicy } from "../guard/rate-limiter.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { refuseBeyondBytes } from "../post-quota.ts";
import { TASK_ID_PARAM, taskNotFound } from "./task-get.ts";

export function deliveryList(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/deliveries/:id", {
    access: "account",
    doc: {
      id: "listDeliveries",
      group: "Tasks",
      summary: "List a task's deliveries",
      description:
        "What happened to the task's webhooks: each attempt with its outcome, and when the next one is due. Shows the last " +
        "100 attempts of each delivery; none before the task has ended.",
      params: { id: TASK_ID_PARAM },
      codes: [40401, 40403],
    },
    async handle({ holder, params, now }) {
      const key = { accountId: holder.accountId, id: params["id"] ?? "" };
      return { fields: shown(key.id, await findDeliveries(key, { deps, now })) };
    },
  });
}

export function redeliver(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/tasks/redeliver/:id", {
    access: "account",
    doc: {
      id: "redeliver",
      group: "Tasks",
      summary: "Send a task's webhooks again",
      description:
        "Starts a fresh series of attempts for deliveries that have ended. A scheduled delivery is made due " +
        "now; one in flight stays. With `states`, only deliveries that ended in these states are sent. A task may be " +
        "sent again thirty times a minute.",
      params: { id: TASK_ID_PARAM },
      codes: [40401, 40403, 40501, 50700],
      examples: {
        all: {},
        one: { kind: "postback" },
        undelivered: { states: UNDELIVERED_STATES },
      },
    },
    async handle({ holder, params, body: { kind, states }, audit, now }) {
      const key = { accountId: holder.accountId, id: params["id"] ?? "" };
      const before = await findDeliveries(key, { deps, now });
      if (kind !== null && !before.some((each) => each.kind === kind)) throw noDelivery(kind);
      const headers = deps.redeliveries.admit(`${key.accountId} ${key.id}`, LIMIT);
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

const LIMIT: RatePolicy = {
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
  const reason = `This task has no ${kind} to send: it has no such URL, or it has not ended.`;
  return invalidField("kind", reason);
}

function shown(id: string, deliveries: readonly Delivery[]) {
  return { deliveries: deliveries.map((each): DeliveryShown => deliveryDocument(id, each)) };
}
