import { integerBetween, numberBetween } from "../domain/rule.ts";
import { envelope } from "./envelope.ts";
import { withDefault, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Share } from "./value.ts";

/** Faults of deliveries that are ordered (contract §9). */

const DAY_MS = 24 * 3600 * 1000;

const Faults = envelope({
  duplicate: Share,
  reorder: Share,
  drop_answer: Share,
  delay_ms: s.count(),
  crash_during_attempt: Share,
});

export const DEV_FAULT_ANSWERS = { "GET /dev/faults": Faults, "PUT /dev/faults": Faults };

const share = (description: string) => withDefault(numberBetween(0, 1), 0, description);

export const DEV_FAULT_INPUTS = {
  "PUT /dev/faults": {
    body: {
      duplicate: share("Of attempts that are sent twice, with the same X-Attempt."),
      reorder: share(
        "Of attempts that let the next one to the same host go first, if there is one.",
      ),
      drop_answer: share("Of attempts that arrive, and are recorded as timed out and so retried."),
      delay_ms: withDefault(
        integerBetween(0, DAY_MS),
        0,
        "How late every attempt goes out, by the daemon's clock.",
      ),
      crash_during_attempt: share(
        "Of attempts that arrive, and are recorded as interrupted and so sent again at once; never two in a row.",
      ),
    },
  },
} satisfies InputsFor<typeof DEV_FAULT_ANSWERS>;
