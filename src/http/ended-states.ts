import { ENDED_DELIVERY_STATES, type EndedDeliveryState } from "../domain/webhook/delivery.ts";
import type { FieldRule } from "./fields.ts";

/** A field of states in which a delivery has ended, at least one; null where it is absent or null. */
export function optionalEndedStates(
  description: string,
): FieldRule<readonly EndedDeliveryState[] | null> {
  const reason = `It must be an array of some of: ${ENDED_DELIVERY_STATES.join(", ")}.`;
  return {
    parse(value) {
      if (value === undefined || value === null) return { value: null };
      if (!Array.isArray(value) || value.length === 0) return { reason };
      const states = ENDED_DELIVERY_STATES.filter((state) => value.includes(state));
      const isKnown = value.every((each) => ENDED_DELIVERY_STATES.some((state) => state === each));
      return isKnown ? { value: states } : { reason };
    },
    schema: {
      type: ["array", "null"],
      items: { type: "string", enum: ENDED_DELIVERY_STATES },
      minItems: 1,
      description,
    },
    isRequired: false,
  };
}
