import { spreadOf, type Spread } from "../kit/durations.ts";
import type { AttackTally } from "./attack-job.ts";
import type { Question, Sample } from "./other.ts";
import type { Vitals } from "./vitals.ts";
import type { WebhookLatencies } from "./webhooks.ts";

/** Durations in milliseconds; a request that was never answered counts with the time that it was waited for. */
export interface Figures extends Spread {
  /** How often there was no good answer, by the outcome instead. */
  readonly bad: AttackTally;
}

/** The other's answers in a stretch of time. */
export interface OthersFigures {
  /** Over kept connections and over new ones together. */
  readonly get: Figures;
  readonly post: Figures;
  readonly livez: Figures;
}

/** What everybody saw before an attack, and while it lasted. */
export interface AttackResult {
  /** How long it lasted. */
  readonly seconds: number;
  readonly alone: OthersFigures;
  readonly during: OthersFigures;
  /** The other's webhooks alone and meanwhile, from completion to arrival; null where they were not measured. */
  readonly webhooks: { readonly alone: WebhookLatencies; readonly during: WebhookLatencies } | null;
  /** The attackers' answers, by the names of their rows. */
  readonly attackers: Readonly<Record<string, AttackTally>>;
  readonly vitals: Vitals;
  /** The resident memory before the attack. */
  readonly rssBytesBefore: number;
  readonly rssBytesAfter: number;
  /** From the end of the attack until all was as before; null: not within the waiting time. */
  readonly settledMs: number | null;
  /** The longest time that this measuring process's own event loop stood still. */
  readonly ownDelayMs: number;
  readonly notes: readonly string[];
}

/** The measured figures of a row. */
export interface RowResult extends AttackResult {
  readonly name: string;
  readonly who: string;
  readonly what: string;
  /** The attacker's answers. */
  readonly attacker: AttackTally;
}

export function othersFigures(samples: readonly Sample[], now: number): OthersFigures {
  const of = (...questions: readonly Question[]): Figures =>
    figures(
      samples.filter(({ question }) => questions.includes(question)),
      now,
    );
  return { get: of("get", "get anew"), post: of("post"), livez: of("livez") };
}

function figures(samples: readonly Sample[], now: number): Figures {
  const bad: Record<string, number> = {};
  for (const { outcome } of samples) {
    const what = outcome ?? "unanswered";
    if (what !== "ok") bad[what] = (bad[what] ?? 0) + 1;
  }
  // A refusal may be quick: it does not count as an answer.
  const answered = samples.filter(({ outcome }) => outcome === "ok" || outcome === null);
  return { ...spreadOf(answered.map(({ ms, at }) => ms ?? now - at)), bad };
}
