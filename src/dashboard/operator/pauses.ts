import { signal } from "@preact/signals";

import type { DeliveryPause } from "../../api/delivery.ts";
import { call } from "../shell/api.ts";
import type { Load } from "../shell/resource.ts";

/** The pauses as they were last read, for the screen and the banner alike. */
export const pauses = signal<readonly DeliveryPause[]>([]);

/** Reads the pauses. */
export async function readPauses(load: Load): Promise<readonly DeliveryPause[]> {
  const answer = await call("GET /v1/operator/delivery_pauses", load);
  pauses.value = answer.pauses;
  return answer.pauses;
}
