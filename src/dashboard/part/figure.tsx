import type { ComponentChildren } from "preact";

import type { FoundDelivery } from "../../api/search.ts";
import { now } from "../shell/clock.ts";
import {
  absoluteText,
  countText,
  countdownText,
  percentText,
  relativeText,
} from "../shell/format.ts";
import { None } from "./panel.tsx";

/** Shows a state in one colour and one word: the word says everything, the colour only helps. */

type Tone = "good" | "bad" | "warn" | "busy" | "idle";

const STATES: Readonly<Record<Tone, string>> = {
  good: "completed delivered operational active valid",
  bad: "failed given_up refused timed_out down lost disabled invalid error",
  warn: "retrying paused next degraded rotating warn interrupted scheduled",
  busy: "running in_flight",
  idle: "",
};

const TONES = new Map(
  (Object.keys(STATES) as Tone[]).flatMap((tone) =>
    STATES[tone].split(" ").map((state) => [state, tone] as const),
  ),
);

export function toneOf(state: string): Tone {
  return TONES.get(state) ?? "idle";
}

/** A state's word: `given_up` is "given up". */
export function stateText(state: string): string {
  return state.replaceAll("_", " ");
}

type Scheduled = Pick<FoundDelivery, "state" | "is_paused">;

/** The state of a delivery: a scheduled one is `paused`, or `retrying` after a failure. */
export function shownState({ state, is_paused: isPaused }: Scheduled, hasFailed: boolean): string {
  if (isPaused) return "paused";
  return state === "scheduled" && hasFailed ? "retrying" : state;
}

/** The mark of a finished task that is not collected. */
export function Ready() {
  return (
    <span class="ready" title="Finished and not collected yet">
      ready
    </span>
  );
}

export function Badge({ state, title }: { readonly state: string; readonly title?: string }) {
  return (
    <span class={`badge tone-${toneOf(state)}`} title={title}>
      {stateText(state)}
    </span>
  );
}

interface BarProps {
  /** 0 to 1. */
  readonly share: number;
  readonly label: string;
  readonly isBad?: boolean;
}

export function Bar({ share, label, isBad = false }: BarProps) {
  return <progress class={isBad ? "bar-bad" : undefined} value={share} aria-label={label} />;
}

interface CountProps {
  readonly count: number;
  readonly href?: string;
  /** The counted things, for screen readers and on hover: `12 given up`. */
  readonly what?: string;
  readonly isMore?: boolean;
}

/** A number in a table: zero is quiet, others may link to the counted things. */
export function Count({ count, href, what, isMore = false }: CountProps) {
  if (count === 0) return <span class="none">0</span>;
  const text = `${countText(count)}${isMore ? "+" : ""}`;
  const title = what === undefined ? undefined : `${text} ${what}`;
  if (href === undefined) return <span title={title}>{text}</span>;
  return (
    <a href={href} title={title}>
      {text}
    </a>
  );
}

interface FactsProps {
  /** Names and their values; falsy rows are left out. */
  readonly rows: readonly (
    | readonly [name: ComponentChildren, value: ComponentChildren]
    | false
    | null
  )[];
  readonly look?: string;
}

export function Facts({ rows, look = "facts panel-body" }: FactsProps) {
  return (
    <dl class={look}>
      {rows.map(
        (row, place) =>
          row && (
            <div key={place}>
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

interface QuotaProps {
  readonly used: number;
  /** 0 means no limit. */
  readonly limit: number;
  readonly textOf: (count: number) => string;
}

// From here on an account should learn of it, before its posts are refused.
const FULL_SHARE = 0.9;

/** How much of a limit is used: `1.2 MiB of 10.0 GiB`, and less prominent without a limit. */
export function Quota({ used, limit, textOf }: QuotaProps) {
  if (limit === 0) {
    return (
      <>
        {textOf(used)} <span class="hint">no limit</span>
      </>
    );
  }
  const share = used / limit;
  const text = `of ${textOf(limit)}`;
  return (
    <span title={`${percentText(share)} used`}>
      {share >= FULL_SHARE ? <b>{textOf(used)}</b> : textOf(used)} <span class="hint">{text}</span>
    </span>
  );
}

/** A time relative to now, and the exact time on hover. Null is a dash. */
export function Time({ at }: { readonly at: string | null }) {
  if (at === null) return <None />;
  return <Moment at={at} text={relativeText(Date.parse(at), now.value)} />;
}

/** The time until then, counted down to the second. */
export function Countdown({ at }: { readonly at: string }) {
  const left = Date.parse(at) - now.value;
  return <Moment at={at} text={left > 0 ? `in ${countdownText(left)}` : "due now"} />;
}

function Moment({ at, text }: { readonly at: string; readonly text: string }) {
  return (
    <time class="number" dateTime={at} title={`${absoluteText(Date.parse(at))} (${at})`}>
      {text}
    </time>
  );
}
