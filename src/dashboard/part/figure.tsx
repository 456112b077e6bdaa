import type { ComponentChildren } from "preact";

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

const TONES: Readonly<Record<string, Tone>> = {
  completed: "good",
  delivered: "good",
  operational: "good",
  active: "good",
  valid: "good",
  failed: "bad",
  given_up: "bad",
  refused: "bad",
  timed_out: "bad",
  down: "bad",
  lost: "bad",
  disabled: "bad",
  invalid: "bad",
  error: "bad",
  retrying: "warn",
  paused: "warn",
  next: "warn",
  degraded: "warn",
  rotating: "warn",
  warn: "warn",
  interrupted: "warn",
  scheduled: "warn",
  running: "busy",
  in_flight: "busy",
  queued: "idle",
  waiting: "idle",
  cancelled: "idle",
};

/** A state's word: `given_up` is "given up". */
export function stateText(state: string): string {
  return state.replaceAll("_", " ");
}

interface Scheduled {
  readonly state: string;
  readonly is_paused: boolean;
}

/** The state of a delivery: a scheduled one is `paused`, or `retrying` after a failure. */
export function shownState({ state, is_paused: isPaused }: Scheduled, hasFailed: boolean): string {
  if (isPaused) return "paused";
  return state === "scheduled" && hasFailed ? "retrying" : state;
}

/** The mark of a finished task that nobody has collected. */
export function Ready() {
  return (
    <span class="ready" title="Finished and not collected yet">
      ready
    </span>
  );
}

/** A state as a badge. */
export function Badge({ state, title }: { readonly state: string; readonly title?: string }) {
  return (
    <span class={`badge badge-${TONES[state] ?? "idle"}`} title={title}>
      {stateText(state)}
    </span>
  );
}

interface BarProps {
  /** 0 to 1. */
  readonly share: number;
  /** The meaning of the bar, for screen readers. */
  readonly label: string;
  readonly isBad?: boolean;
}

/** A share as a bar. */
export function Bar({ share, label, isBad = false }: BarProps) {
  const percent = Math.min(1, Math.max(0, share)) * 100;
  return (
    <svg
      class={isBad ? "bar bar-bad" : "bar"}
      viewBox="0 0 100 1"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <rect class="bar-back" width="100" height="1" />
      <rect width={percent} height="1" />
    </svg>
  );
}

interface CountProps {
  readonly count: number;
  /** A link to the counted things. */
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

interface FactProps {
  readonly name: string;
  readonly children: ComponentChildren;
}

/** A name and its value in a list of facts. */
export function Fact({ name, children }: FactProps) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
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

/** How much of a limit is used: `1.2 MiB of 10.0 GiB`, and quieter where there is no limit. */
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
  const time = Date.parse(at);
  return (
    <time dateTime={at} title={`${absoluteText(time)} (${at})`}>
      {relativeText(time, now.value)}
    </time>
  );
}

/** The time until then, counted down to the second. */
export function Countdown({ at }: { readonly at: string }) {
  const time = Date.parse(at);
  const left = time - now.value;
  return (
    <time dateTime={at} title={`${absoluteText(time)} (${at})`} class="number">
      {left > 0 ? `in ${countdownText(left)}` : "due now"}
    </time>
  );
}
