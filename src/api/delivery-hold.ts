import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { HOLD_REASON } from "../domain/webhook/delivery-hold.ts";
import { envelope } from "./envelope.ts";
import { optional, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Time } from "./value.ts";

/** Which webhooks the operator holds. */

/** How many holds are listed with what waits: each is counted by itself. */
export const COUNTED_HOLDS_MAX = 100;

const SCOPE = {
  login: s.nullable(s.text("Null is all accounts.")),
  host: s.nullable(s.text("Null is all hosts.")),
};

const DeliveryHold = s.named(
  "DeliveryHold",
  s.object({
    ...SCOPE,
    since: Time,
    reason: s.nullable(s.text("The operator's words.")),
    held_by: s.text("`operator` where it was held by a request, else the user of the machine."),
    waiting: s.nullable(
      s.count(),
      `Webhooks that it covers and that wait to be sent, due or not. Null beyond the first ${COUNTED_HOLDS_MAX} holds.`,
    ),
  }),
);
export type DeliveryHold = s.Static<typeof DeliveryHold>;

export const DELIVERY_HOLD_ANSWERS = {
  "GET /v1/operator/delivery_holds": envelope({ holds: s.list(DeliveryHold) }),
  "POST /v1/operator/delivery_holds": envelope({ hold: DeliveryHold }),
  "POST /v1/operator/delivery_holds/release": envelope({
    ...SCOPE,
    waiting: s.count("Webhooks of these that wait to be sent; what another hold covers waits on."),
    holds_left: s.count("Holds that are left."),
  }),
};

const SCOPE_FIELDS = {
  login: optional(LOGIN, "Only webhooks of this account; else of all.", { examples: ["alice"] }),
  host: optional(
    HOST,
    "Only webhooks to this host, a name or an address without port; else to all.",
  ),
};

export const DELIVERY_HOLD_INPUTS = {
  "POST /v1/operator/delivery_holds": {
    body: { ...SCOPE_FIELDS, reason: optional(HOLD_REASON, "Why, for whoever finds it.") },
  },
  "POST /v1/operator/delivery_holds/release": { body: SCOPE_FIELDS },
} satisfies InputsFor<typeof DELIVERY_HOLD_ANSWERS>;
