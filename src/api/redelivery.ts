import { DeliveryKind, DeliveryState } from "./delivery.ts";
import { envelope, NextCursor } from "./envelope.ts";
import * as s from "./schema.ts";
import { ExaminedUntil } from "./search.ts";
import { Id, Time } from "./value.ts";

/** So many hosts a preview names. */
export const PREVIEW_HOSTS_MAX = 20;

const Filter = s.object({
  login: s.nullable(s.text({ description: "Null is all accounts." })),
  host: s.nullable(s.text()),
  kind: s.nullable(DeliveryKind),
  states: s.nullable(s.list(DeliveryState)),
  since: s.nullable(Time),
  until: s.nullable(Time),
});
export type RedeliveryFilter = s.Static<typeof Filter>;

/** What a body asks for by: what it leaves out is any. */
export type AskedFilter = Pick<RedeliveryFilter, "since"> & Partial<RedeliveryFilter>;

const HostCount = s.named("HostCount", s.object({ host: s.text(), deliveries: s.count() }));

const RedeliveryOrder = s.named(
  "RedeliveryOrder",
  s.object({
    id: Id,
    filter: Filter,
    per_second: s.integer({ minimum: 1 }),
    created_at: Time,
    redelivered: s.count({ description: "Deliveries that were given a fresh series so far." }),
    ended_at: s.nullable(Time),
    is_cancelled: s.flag(),
  }),
);
export type RedeliveryOrder = s.Static<typeof RedeliveryOrder>;

const OneOrder = envelope({ redelivery: RedeliveryOrder });

export const REDELIVERY_ANSWERS = {
  "POST /v1/redeliveries/preview": envelope({
    deliveries: s.count(),
    hosts: s.list(HostCount, {
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
  "GET /v1/redeliveries": envelope({ redeliveries: s.list(RedeliveryOrder) }),
  "DELETE /v1/redeliveries/:order_id": OneOrder,
};
