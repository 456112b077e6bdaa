import { now } from "../shell/clock.ts";
import { absoluteText, countdownText, relativeText } from "../shell/format.ts";
import { None } from "./panel.tsx";

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
