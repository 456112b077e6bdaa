import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { PAUSE_REASON } from "../domain/webhook/delivery-pause.ts";
import { envelope } from "./envelope.ts";
import { optional, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Time } from "./value.ts";

/** Which webhooks the operator pauses. */

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
    paused_by: s.text("`operator` where it was paused by a request, else the user of the machine."),
    waiting: s.nullable(
      s.count(),
      `Webhooks that it covers and that wait to be sent, due or not. Null beyond the first ${COUNTED_PAUSES_MAX} pauses.`,
    ),
  }),
);
export type DeliveryPause = s.Static<typeof DeliveryPause>;

export const DELIVERY_PAUSE_ANSWERS = {
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

const SCOPE_FIELDS = {
  login: optional(LOGIN, "Only webhooks of this account; else of all.", { examples: ["alice"] }),
  host: optional(
    HOST,
    "Only webhooks to this host, a name or an address without port; else to all.",
  ),
};

export const DELIVERY_PAUSE_INPUTS = {
  "POST /v1/operator/delivery_pauses": {
    body: { ...SCOPE_FIELDS, reason: optional(PAUSE_REASON, "Reason, for other operators.") },
  },
  "POST /v1/operator/delivery_pauses/resume": { body: SCOPE_FIELDS },
} satisfies InputsFor<typeof DELIVERY_PAUSE_ANSWERS>;
