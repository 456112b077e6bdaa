/** The state of a part of the service, in the words of status pages. */
export type StatusWord = (typeof STATUS_WORDS)[number];

export const STATUS_WORDS = ["operational", "degraded", "down"] as const;

/** The answer of GET /v1/appendix/status: words only, so that nobody can count an operator's customers. */
export interface ServiceStatus {
  /** The worst of the components. */
  readonly status: StatusWord;
  readonly components: {
    readonly api: StatusWord;
    readonly runners: StatusWord;
    readonly webhooks: StatusWord;
  };
}

/** The facts that the status is decided from. Counts cover the last {@link STATUS_WINDOW_MS}. */
export interface ServiceFacts {
  /** The store can be written and the daemon is not stopping. */
  readonly isServing: boolean;
  /** There is room for new tasks. */
  readonly hasRoom: boolean;
  /** The engine works. */
  readonly isWorking: boolean;
  /** How long the longest-waiting task that could be run has waited; 0 when none waits. */
  readonly queueAgeMs: number;
  readonly runs: FailureCount;
  /** Receivers that were tried, and those of them to which no attempt succeeded: one broken receiver is no outage. */
  readonly receivers: FailureCount;
}

export interface FailureCount {
  readonly all: number;
  readonly failed: number;
}

export const STATUS_WINDOW_MS = 5 * 60_000;

// Work takes seconds to minutes, so a queue of minutes is normal.
const QUEUE_AGE_MS_MAX = 15 * 60_000;
// With fewer runs, a failure or two would count as an outage.
const RUNS_MIN = 20;
const RECEIVERS_MIN = 5;

/** Decides the status of the service. */
export function decideServiceStatus(facts: ServiceFacts): ServiceStatus {
  const components = {
    api: apiStatus(facts),
    runners: worst(
      facts.isWorking ? rateStatus(facts.runs, RUNS_MIN) : "down",
      facts.queueAgeMs > QUEUE_AGE_MS_MAX ? "degraded" : "operational",
    ),
    webhooks: facts.isWorking ? rateStatus(facts.receivers, RECEIVERS_MIN) : "down",
  };
  return { status: worst(...Object.values(components)), components };
}

function apiStatus({ isServing, hasRoom }: ServiceFacts): StatusWord {
  if (!isServing) return "down";
  return hasRoom ? "operational" : "degraded";
}

function rateStatus({ all, failed }: FailureCount, min: number): StatusWord {
  if (all < min || failed * 2 < all) return "operational";
  return failed === all ? "down" : "degraded";
}

function worst(...words: readonly StatusWord[]): StatusWord {
  if (words.includes("down")) return "down";
  return words.includes("degraded") ? "degraded" : "operational";
}
