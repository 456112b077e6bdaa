import { envelope } from "./envelope.ts";
import type { InputsFor } from "./input.ts";
import * as s from "./schema.ts";

/** Beginning again (contract §9). */

export const DEV_RESET_ANSWERS = {
  "POST /dev/reset": envelope({ tasks_erased: s.count() }),
};

export const DEV_RESET_INPUTS = {
  "POST /dev/reset": { body: {}, isBodyOptional: true },
} satisfies InputsFor<typeof DEV_RESET_ANSWERS>;
