import { LOGIN } from "../domain/account/account.ts";
import { HOST } from "../domain/address/host-name.ts";
import { oneOf } from "../domain/rule.ts";
import { PAUSE_REASON } from "../domain/webhook/delivery-pause.ts";
import {
  ATTEMPT_OUTCOMES,
  DELIVERY_KINDS,
  DELIVERY_STATES,
  ENDED_STATES,
} from "../domain/webhook/delivery.ts";
import { Id, Time, envelope } from "./envelope.ts";
import { CURSOR_RULE, type InputsFor, optional, wholeNumber } from "./input.ts";
import * as s from "./schema.ts";

const Phase = s.nullable(
  s.number({ minimum: 0, description: "Milliseconds; null for a phase that did not happen." }),
);

/** The fields of an attempt that are shown everywhere. */
export const ATTEMPT = {
  number: s.integer({ minimum: 1, description: "Within its series, from 1." }),
  due_at: Time,
  started_at: s.nullable(Time),
  ended_at: s.nullable(Time),
  outcome: s.nullable(s.word(ATTEMPT_OUTCOMES, "Null while it is scheduled or in flight.")),
  http_status: s.nullable(s.integer()),
  error: s.nullable(s.text()),
  address: s.nullable(s.text("The address that was dialled.")),
  phases: s.object({ dns_ms: Phase, connect_ms: Phase, tls_ms: Phase, first_byte_ms: Phase }),
  response_excerpt: s.nullable(s.text("The first 4 KiB of the response's body.")),
  refusal: s.nullable(s.object({ host: s.text(), addresses: s.list(s.text()), rule: s.text() })),
};

export const Attempt = s.named("Attempt", s.object(ATTEMPT));
export type Attempt = s.Static<typeof Attempt>;

export const DeliveryId = s.text("The webhook-id that the receiver gets.");
export const DeliveryKind = s.word(DELIVERY_KINDS);
export const DeliveryState = s.word(DELIVERY_STATES);
export const IsPaused = s.flag(
  "The operator has paused it: its scheduled attempt starts after the pause ends.",
);

const Delivery = s.named(
  "Delivery",
  s.object({
    delivery_id: DeliveryId,
    kind: DeliveryKind,
    url: s.text(),
    state: DeliveryState,
    next_attempt_at: s.nullable(Time),
    attempts: s.list(Attempt),
  }),
);
export type Delivery = s.Static<typeof Delivery>;

const Deliveries = envelope({ deliveries: s.list(Delivery) });

const ListedAttempt = s.named(
  "ListedAttempt",
  s.object({
    task_id: Id,
    type: s.nullable(s.text()),
    tag: s.nullable(s.text()),
    kind: DeliveryKind,
    number: ATTEMPT.number,
    due_at: Time,
    started_at: ATTEMPT.started_at,
    cursor: s.nullable(
      s.text(
        "From here this attempt is the first one, to look at it again; null once it has started.",
      ),
    ),
  }),
);
export type ListedAttempt = s.Static<typeof ListedAttempt>;

const Attempts = envelope({
  attempts: s.list(ListedAttempt),
  next_cursor: s.text("The cursor of the next attempts, also if none exist yet."),
  more: s.flag("True if the next page can be requested immediately."),
});

const LIMIT = { min: 1, max: 1000, standard: 100 };

/** How many pauses are listed with what waits: each is counted by itself. */
export const COUNTED_PAUSES_MAX = 100;

const SCOPE = {
  login: s.nullable(s.text("Null is all accounts.")),
  host: s.nullable(s.text("Null is all hosts.")),
};

const DeliveryPause = s.named(
  "DeliveryPause",
  s.object({
    ...SCOPE,
    since: Time,
    reason: s.nullable(s.text("The operator's words.")),
    paused_by: s.text("`operator` if a request paused it, else the user of the machine."),
    waiting: s.nullable(
      s.count(),
      `Webhooks that it covers and that wait to be sent, due or not. Null beyond the first ${COUNTED_PAUSES_MAX} pauses.`,
    ),
  }),
);
export type DeliveryPause = s.Static<typeof DeliveryPause>;

const SCOPE_FIELDS = {
  login: optional(LOGIN, "Only webhooks of this account; else of all.", { examples: ["alice"] }),
  host: optional(
    HOST,
    "Only webhooks to this host, a name or an address without port; else to all.",
  ),
};

export const DELIVERY_ANSWERS = {
  "GET /v1/tasks/attempts": Attempts,
  "GET /v1/tasks/deliveries/:id": Deliveries,
  "POST /v1/tasks/redeliver/:id": Deliveries,
  "GET /v1/operator/delivery_pauses": envelope({ pauses: s.list(DeliveryPause) }),
  "POST /v1/operator/delivery_pauses": envelope({ pause: DeliveryPause }),
  "POST /v1/operator/delivery_pauses/resume": envelope({
    ...SCOPE,
    waiting: s.count(
      "Webhooks of this scope that wait to be sent. Webhooks that another pause covers wait on.",
    ),
    pauses_left: s.count("Pauses that are left."),
  }),
};

export const DELIVERY_INPUTS = {
  "GET /v1/tasks/attempts": {
    query: {
      cursor: optional(
        CURSOR_RULE,
        "The position to start at; without it, attempts that are scheduled now.",
      ),
      limit: wholeNumber(LIMIT, "Most attempts on a page."),
    },
  },
  "POST /v1/tasks/redeliver/:id": {
    body: {
      kind: optional(oneOf(DELIVERY_KINDS), "Only this one; else every webhook of the task."),
      states: optional(
        ENDED_STATES,
        "Only deliveries that ended so; scheduled ones stay as they are. Else all ended deliveries, also delivered ones.",
      ),
    },
    isBodyOptional: true,
  },
  "POST /v1/operator/delivery_pauses": {
    body: { ...SCOPE_FIELDS, reason: optional(PAUSE_REASON, "Reason, for other operators.") },
  },
  "POST /v1/operator/delivery_pauses/resume": { body: SCOPE_FIELDS },
} satisfies InputsFor<typeof DELIVERY_ANSWERS>;
