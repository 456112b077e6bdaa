import { signal } from "@preact/signals";

import type { DeliveryHold } from "../../api/delivery-hold.ts";
import { call } from "../shell/api.ts";
import type { Load } from "../shell/resource.ts";

/** The holds as they were last read, for the screen and the banner alike. */
export const holds = signal<readonly DeliveryHold[]>([]);

/** Reads the holds. */
export async function readHolds(load: Load): Promise<readonly DeliveryHold[]> {
  const answer = await call("GET /v1/operator/delivery_holds", load);
  holds.value = answer.holds;
  return answer.holds;
}
