import { LEASE_OUTCOMES } from "../domain/lease/lease.ts";
import { tasksEnvelope } from "./envelope.ts";
import * as s from "./schema.ts";
import { ProgressNote } from "./task.ts";
import { Id, Share, Time } from "./value.ts";

/** What the worker protocol takes and answers (contract §7). */

const LeaseId = s.text({
  description: "Opaque; new at every claim. Only the newest lease of a task can end its run.",
});

const LeasedTask = s.named(
  "LeasedTask",
  s.object({
    id: Id,
    type: s.text(),
    tag: s.nullable(s.text()),
    marketplace: s.nullable(s.text()),
    input: s.anything({ description: "Any JSON, as it was posted; null where there was none." }),
    lease_id: LeaseId,
    lease_expires_at: {
      ...Time,
      description: "When the task goes back to the queue, unless a heartbeat comes before.",
    },
    run: s.integer({
      minimum: 1,
      description: "How often the task was started, this time included.",
    }),
  }),
);

export type LeasedTask = s.Static<typeof LeasedTask>;

const LeaseOutcome = s.named(
  "LeaseOutcome",
  s.object(
    {
      id: s.nullable(s.text({ description: "As it was given; null where it was no text." })),
      outcome: s.word(LEASE_OUTCOMES, {
        description:
          "`ok`: it counted, now or before. `lost`: the task is not this lease's any more, or there is no such lease. " +
          "`cancelled`: the client has cancelled the task.",
      }),
    },
    {
      optional: {
        detail: s.text({ description: "What was wrong with this item, where something was." }),
      },
      description: "Answers stand in the order asked.",
    },
  ),
);
export type LeaseOutcome = s.Static<typeof LeaseOutcome>;

const Outcomes = tasksEnvelope(LeaseOutcome);

export const LEASE_ANSWERS = {
  "POST /v1/worker/claim": tasksEnvelope(LeasedTask),
  "POST /v1/worker/heartbeat": tasksEnvelope(LeaseOutcome, {
    drain: s.flag({ description: "The daemon stops: finish what is held, and claim no more." }),
  }),
  "POST /v1/worker/complete": Outcomes,
  "POST /v1/worker/fail": Outcomes,
  "POST /v1/worker/release": Outcomes,
};

/** How far a run has come, as its worker tells it. */
export const ReportedProgress = s.named(
  "ReportedProgress",
  s.closed(s.object({ progress: Share }, { optional: { note: ProgressNote } })),
);

/** How many characters of the message of a failed run are kept. */
export const WORKER_MESSAGE_LENGTH_MAX = 1000;

const REF = { id: Id, lease_id: LeaseId };

export const LeaseRefItem = s.named("LeaseRef", s.closed(s.object(REF)));
export type LeaseRefItem = s.Static<typeof LeaseRefItem>;

export const LeaseBeatItem = s.named(
  "LeaseBeat",
  s.closed(s.object(REF, { optional: { progress: ReportedProgress } })),
);
export type LeaseBeatItem = s.Static<typeof LeaseBeatItem>;

export const LeaseCompletionItem = s.named(
  "LeaseCompletion",
  s.closed(
    s.object(REF, {
      optional: { result: s.anything({ description: "Any JSON; null where there is none." }) },
    }),
  ),
);

export const LeaseFailureItem = s.named(
  "LeaseFailure",
  s.closed(
    s.object(
      {
        ...REF,
        message: s.text({
          maxLength: WORKER_MESSAGE_LENGTH_MAX,
          description: "What went wrong, for the client.",
        }),
      },
      {
        optional: {
          detail: s.anything({ description: "Any JSON, for the client." }),
          retry: s.nullable(
            s.flag({
              description:
                "True queues the task again, false is final; without it the type decides.",
            }),
          ),
        },
      },
    ),
  ),
);
export type LeaseFailureItem = s.Static<typeof LeaseFailureItem>;
