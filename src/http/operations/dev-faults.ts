import type { DevDesk, Faults } from "../dev-desk.ts";
import { defineOperation, type Operation } from "../operation.ts";

/** Faults of deliveries: for proving that a receiver copes. */
export function devFaults({ faults }: DevDesk): readonly Operation[] {
  return [
    defineOperation("GET /dev/faults", {
      access: "developer",
      doc: {
        id: "showFaults",
        group: "Development",
        summary: "Show the faults of deliveries",
        description: "Those that were ordered.",
      },
      handle: () => ({ fields: shown(faults.faults) }),
    }),
    defineOperation("PUT /dev/faults", {
      access: "developer",
      doc: {
        id: "orderFaults",
        group: "Development",
        summary: "Order faults of deliveries",
        description:
          "From now on webhooks go wrong as they do in the field, for proving that a receiver copes. What is left out is 0. " +
          "Which attempts it meets follows from their names and from `--seed`, so that it is the same in each run.",
        examples: {
          all: { duplicate: 0.2, reorder: 0.2, drop_answer: 0.1, crash_during_attempt: 0.05 },
          none: {},
        },
      },
      handle({ body }) {
        const { drop_answer, delay_ms, crash_during_attempt, ...rest } = body;
        faults.order({
          ...rest,
          dropAnswer: drop_answer,
          delayMs: delay_ms,
          crashDuringAttempt: crash_during_attempt,
        });
        return { fields: shown(faults.faults) };
      },
    }),
  ];
}

function shown({ dropAnswer, delayMs, crashDuringAttempt, ...rest }: Faults) {
  return {
    ...rest,
    drop_answer: dropAnswer,
    delay_ms: delayMs,
    crash_during_attempt: crashDuringAttempt,
  };
}
