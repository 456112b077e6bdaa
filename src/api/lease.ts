import { CLAIM_WAIT_SECONDS_MAX, LEASE_BATCH_MAX, LEASE_OUTCOMES } from "../domain/lease/lease.ts";
import { integerBetween, numberBetween, rule, type Rule } from "../domain/rule.ts";
import { PROGRESS } from "../domain/task/run.ts";
import { Id, Share, Time, tasksEnvelope } from "./envelope.ts";
import { optional, required, withDefault, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { ProgressNote } from "./task.ts";

/** The requests and answers of the worker protocol (worker-protocol.md). */

const LeaseId = s.text(
  "Opaque; new at every claim. Only the newest lease of a task can end its run.",
);

const LeasedTask = s.named(
  "LeasedTask",
  s.object({
    id: Id,
    type: s.text(),
    tag: s.nullable(s.text()),
    marketplace: s.nullable(s.text()),
    input: s.anything("Any JSON, as it was posted; null without an input."),
    lease_id: LeaseId,
    lease_expires_at: {
      ...Time,
      description: "When the task goes back to the queue, unless a heartbeat comes before.",
    },
    run: s.integer({
      minimum: 1,
      description: "How often the task was started, this time included.",
    }),
    traceparent: s.nullable(s.text("Of the request that posted it (W3C Trace Context).")),
    tracestate: s.nullable(s.text("Goes with it.")),
  }),
);

export type LeasedTask = s.Static<typeof LeasedTask>;

const LeaseOutcome = s.named(
  "LeaseOutcome",
  s.object(
    {
      id: s.nullable(s.text("As it was given; null if it was not a text.")),
      outcome: s.word(
        LEASE_OUTCOMES,
        "`ok`: it counted, now or before. `lost`: this lease no longer holds the task, or never existed. " +
          "`cancelled`: the client has cancelled the task.",
      ),
    },
    {
      optional: {
        detail: s.text("The fault of this item, if it has one."),
      },
      description: "In the order of the request.",
    },
  ),
);
export type LeaseOutcome = s.Static<typeof LeaseOutcome>;

const Outcomes = tasksEnvelope(LeaseOutcome, {});

export const LEASE_ANSWERS = {
  "POST /v1/worker/claim": tasksEnvelope(LeasedTask, {}),
  "POST /v1/worker/heartbeat": tasksEnvelope(LeaseOutcome, {
    drain: s.flag("The daemon stops: finish the held tasks, and claim no more."),
  }),
  "POST /v1/worker/complete": Outcomes,
  "POST /v1/worker/fail": Outcomes,
  "POST /v1/worker/release": Outcomes,
};

/** The progress of a run, as its worker reports it. */
export const ReportedProgress = s.named(
  "ReportedProgress",
  s.closed(s.object({ progress: Share }, { optional: { note: ProgressNote } })),
);

/** The most characters of a failed run's message that are kept. */
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
      optional: { result: s.anything("Any JSON; null without a result.") },
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
          description: "The error, for the client.",
        }),
      },
      {
        optional: {
          detail: s.anything("Any JSON, for the client."),
          retry: s.nullable(
            s.flag("True queues the task again, false is final; without it the type decides."),
          ),
        },
      },
    ),
  ),
);
export type LeaseFailureItem = s.Static<typeof LeaseFailureItem>;

const TYPES_MAX = 100;

/** Only the operation has the list of them. */
const TYPES: Rule<readonly string[], readonly string[]> = rule({
  takes: `a list of 1 to ${TYPES_MAX} names of types, each once`,
  hint: "TYPE",
  form: "list",
  schema: {
    type: "array",
    items: { type: "string" },
    minItems: 1,
    maxItems: TYPES_MAX,
    uniqueItems: true,
  },
  read(raw) {
    const given: readonly unknown[] = Array.isArray(raw) ? raw : [];
    const names = given.filter((each) => typeof each === "string");
    const isFine = names.length >= 1 && names.length <= TYPES_MAX && names.length === given.length;
    return isFine && new Set(names).size === names.length ? names : null;
  },
});

/** A list of leases, `lengthMin` to `lengthMax` of them; what stands in it is judged one by one. */
function leaseList<Item>(
  item: s.Schema<Item>,
  { lengthMin, lengthMax }: { readonly lengthMin: number; readonly lengthMax: number },
): Rule<readonly unknown[], readonly Item[]> {
  return rule({
    takes: `a list of ${lengthMin} to ${lengthMax} leases`,
    hint: "LEASE",
    form: "list",
    schema: { type: "array", minItems: lengthMin, maxItems: lengthMax, items: item },
    read(raw) {
      const given: readonly unknown[] | null = Array.isArray(raw) ? raw : null;
      const isFine = given !== null && given.length >= lengthMin && given.length <= lengthMax;
      return isFine ? given : null;
    },
  });
}

const RESULTS_BOUNDS = { lengthMin: 1, lengthMax: LEASE_BATCH_MAX };
const LEASES_MAX = 1000;

export const LEASE_INPUTS = {
  "POST /v1/worker/claim": {
    body: {
      types: required(TYPES, "Types that the token is for and whose `runner` is `worker`."),
      max: withDefault(
        integerBetween(1, LEASE_BATCH_MAX),
        1,
        "Most tasks that the worker takes on.",
      ),
      wait_seconds: withDefault(
        numberBetween(0, CLAIM_WAIT_SECONDS_MAX),
        0,
        "How long to wait for a task; fractions count to the millisecond.",
      ),
    },
  },
  "POST /v1/worker/heartbeat": {
    body: {
      leases: required(
        leaseList(LeaseBeatItem, { lengthMin: 0, lengthMax: LEASES_MAX }),
        "The leases that the worker holds; none only asks `drain`.",
      ),
      progress: optional({ ...PROGRESS, schema: ReportedProgress }),
    },
    holds: "leases",
  },
  "POST /v1/worker/complete": {
    body: {
      tasks: required(
        leaseList(LeaseCompletionItem, RESULTS_BOUNDS),
        "The runs that have come to their result.",
      ),
    },
    holds: "results",
  },
  "POST /v1/worker/fail": {
    body: {
      tasks: required(
        leaseList(LeaseFailureItem, RESULTS_BOUNDS),
        "The runs that came to nothing.",
      ),
    },
    holds: "results",
  },
  "POST /v1/worker/release": {
    body: {
      tasks: required(
        leaseList(LeaseRefItem, { lengthMin: 1, lengthMax: LEASES_MAX }),
        "The leases to give back.",
      ),
    },
    holds: "leases",
  },
} satisfies InputsFor<typeof LEASE_ANSWERS>;
