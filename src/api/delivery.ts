import { ATTEMPT_OUTCOMES, DELIVERY_KINDS, DELIVERY_STATES } from "../domain/delivery.ts";
import { envelope } from "./envelope.ts";
import {
  integer,
  list,
  named,
  nullable,
  number,
  object,
  text,
  word,
  type Static,
} from "./schema.ts";
import { Time } from "./value.ts";

const Phase = nullable(
  number({ minimum: 0, description: "Milliseconds; null for a phase that did not happen." }),
);

/** What is shown of an attempt everywhere. */
export const ATTEMPT = {
  number: integer({ minimum: 1, description: "Within its series, from 1." }),
  due_at: Time,
  started_at: nullable(Time),
  ended_at: nullable(Time),
  outcome: nullable(
    word(ATTEMPT_OUTCOMES, { description: "Null while it is scheduled or in flight." }),
  ),
  http_status: nullable(integer()),
  error: nullable(text()),
  address: nullable(text({ description: "The address that was dialled." })),
  phases: object({ dns_ms: Phase, connect_ms: Phase, tls_ms: Phase, first_byte_ms: Phase }),
  response_excerpt: nullable(text({ description: "The first 4 KiB of the response's body." })),
  refusal: nullable(object({ host: text(), addresses: list(text()), rule: text() })),
};

const Attempt = named("Attempt", object(ATTEMPT));
export type Attempt = Static<typeof Attempt>;

export const DeliveryId = text({ description: "What the receiver gets as webhook-id." });
export const DeliveryKind = word(DELIVERY_KINDS);
export const DeliveryState = word(DELIVERY_STATES);

const Delivery = named(
  "Delivery",
  object({
    delivery_id: DeliveryId,
    kind: DeliveryKind,
    url: text(),
    state: DeliveryState,
    next_attempt_at: nullable(Time),
    attempts: list(Attempt),
  }),
);
export type Delivery = Static<typeof Delivery>;

const Deliveries = envelope({ deliveries: list(Delivery) });

export const DELIVERY_ANSWERS = {
  "GET /v1/tasks/deliveries/:id": Deliveries,
  "POST /v1/tasks/redeliver/:id": Deliveries,
};
