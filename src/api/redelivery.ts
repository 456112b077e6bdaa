import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { INSTANT } from "../domain/clock/time.ts";
import { integerBetween, oneOf } from "../domain/rule.ts";
import { DELIVERY_KINDS, ENDED_STATES } from "../domain/webhook/delivery.ts";
import { DeliveryKind, DeliveryState } from "./delivery.ts";
import { envelope, NextCursor } from "./envelope.ts";
import {
  CURSOR,
  optional,
  required,
  withDefault,
  type InputsFor,
  type InputValues,
  type WrittenInputs,
} from "./input.ts";
import * as s from "./schema.ts";
import { ExaminedUntil } from "./search.ts";
import { Id, Time } from "./value.ts";

export const PREVIEW_HOSTS_MAX = 20;

const Filter = s.object({
  login: s.nullable(s.text("Null is all accounts.")),
  host: s.nullable(s.text()),
  kind: s.nullable(DeliveryKind),
  states: s.nullable(s.list(DeliveryState)),
  since: s.nullable(Time),
  until: s.nullable(Time),
});
export type RedeliveryFilter = s.Static<typeof Filter>;

const HostCount = s.named("HostCount", s.object({ host: s.text(), deliveries: s.count() }));

const RedeliveryOrder = s.named(
  "RedeliveryOrder",
  s.object({
    id: Id,
    filter: Filter,
    per_second: s.integer({ minimum: 1 }),
    created_at: Time,
    redelivered: s.count("Deliveries that were given a fresh series so far."),
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

// Deliveries are chosen by these; one that is left out is any.
const FILTER_FIELDS = {
  since: required(INSTANT, "Only what ended at this time or later. RFC 3339."),
  until: optional(INSTANT, "Only what ended before this time. RFC 3339."),
  host: optional(HOST, "Only what goes to this host: a name or an address, without port."),
  kind: optional(oneOf(DELIVERY_KINDS), "Only this one; else both."),
  states: optional(ENDED_STATES, "How it ended; what was given up or refused unless given."),
  login: optional(
    LOGIN,
    "Only of this account. For the operator: an account's is its own, always.",
  ),
};

export type GivenFilter = InputValues<typeof FILTER_FIELDS>;

/** The filter as a client writes it. */
export type WrittenFilter = WrittenInputs<typeof FILTER_FIELDS, null>;

const RATE_MAX = 1000;
const RATE_STANDARD = 20;
/** So many deliveries a second an account may order at most. */
export const RATE_OF_ACCOUNT_MAX = 50;

export const REDELIVERY_INPUTS = {
  "POST /v1/redeliveries/preview": { body: { ...FILTER_FIELDS, cursor: CURSOR } },
  "POST /v1/redeliveries": {
    body: {
      ...FILTER_FIELDS,
      per_second: withDefault(
        integerBetween(1, RATE_MAX),
        RATE_STANDARD,
        `How many a second; an account at most ${RATE_OF_ACCOUNT_MAX}.`,
      ),
    },
  },
} satisfies InputsFor<typeof REDELIVERY_ANSWERS>;
