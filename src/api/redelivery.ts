import { DeliveryKind, DeliveryState } from "./delivery.ts";
import { envelope, NextCursor } from "./envelope.ts";
import {
  count,
  flag,
  integer,
  list,
  named,
  nullable,
  object,
  text,
  type Static,
} from "./schema.ts";
import { ExaminedUntil } from "./search.ts";
import { Id, Time } from "./value.ts";

/** So many hosts a preview names. */
export const PREVIEW_HOSTS_MAX = 20;

const Filter = object({
  login: nullable(text({ description: "Null is all accounts." })),
  host: nullable(text()),
  kind: nullable(DeliveryKind),
  states: nullable(list(DeliveryState)),
  since: nullable(Time),
  until: nullable(Time),
});
export type RedeliveryFilter = Static<typeof Filter>;

/** What a body asks for by: what it leaves out is any. */
export type AskedFilter = Pick<RedeliveryFilter, "since"> & Partial<RedeliveryFilter>;

const HostCount = named("HostCount", object({ host: text(), deliveries: count() }));

const RedeliveryOrder = named(
  "RedeliveryOrder",
  object({
    id: Id,
    filter: Filter,
    per_second: integer({ minimum: 1 }),
    created_at: Time,
    redelivered: count({ description: "Deliveries that were given a fresh series so far." }),
    ended_at: nullable(Time),
    is_cancelled: flag(),
  }),
);
export type RedeliveryOrder = Static<typeof RedeliveryOrder>;

const OneOrder = envelope({ redelivery: RedeliveryOrder });

export const REDELIVERY_ANSWERS = {
  "POST /v1/redeliveries/preview": envelope({
    deliveries: count(),
    hosts: list(HostCount, {
      maxItems: PREVIEW_HOSTS_MAX,
      description: "The most numerous first.",
    }),
    next_cursor: NextCursor,
    examined_until: {
      ...ExaminedUntil,
      description:
        "How far back it has looked; null where nothing was looked at, and for an account.",
    },
  }),
  "POST /v1/redeliveries": OneOrder,
  "GET /v1/redeliveries": envelope({ redeliveries: list(RedeliveryOrder) }),
  "DELETE /v1/redeliveries/:order_id": OneOrder,
};
