import { useEffect, useState } from "preact/hooks";

import type { DevEvent } from "../../api/dev.ts";
import type { AnswerOf } from "../../api/operations.ts";
import { Button, Segments } from "../part/control.tsx";
import { Time } from "../part/figure.tsx";
import { Problem } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { holdTime, now, setTime } from "../shell/clock.ts";
import { absoluteText, countOf } from "../shell/format.ts";
import { changes } from "../shell/live.ts";
import { useRead, useSubmission } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { keepSession } from "../shell/session.ts";

const MODES = [
  { value: "real", text: "Real" },
  { value: "manual", text: "Manual" },
] as const;

const STEPS = ["1m", "5m", "15m"] as const;

// More would push the screen out of sight.
const EVENTS_SHOWN_MAX = 50;

/** The clock of a daemon for development, which can be advanced. */
export function ClockBar() {
  const clock = useRead("GET /dev/clock", {}, { pollMs: 5000 });
  const [journey, setJourney] = useState<AnswerOf<"POST /dev/clock/advance"> | null>(null);
  const submission = useSubmission();
  const shown = clock.data;
  useEffect(() => {
    if (shown === null) return;
    holdTime(shown.mode === "manual");
    setTime(shown.now);
  }, [shown]);
  if (shown === null) return null;
  function change(work: () => Promise<unknown>): void {
    submission.run(async () => {
      await work();
      // Before anything else is read: a read of the page's own keeps no session, and is refused when that is over.
      await keepSession();
      clock.reload();
      changes.value++;
    });
  }
  async function advance(body: { readonly by: string } | { readonly until: "idle" }) {
    setJourney(await call("POST /dev/clock/advance", { body }));
  }
  return (
    <section class="stack pad wraps notice tone-warn dev-clock" aria-label="Clock">
      <div class="row">
        <b>Development</b>
        <time dateTime={shown.now}>{absoluteText(now.value)}</time>
        <Segments
          label="Clock"
          options={MODES}
          value={shown.mode}
          choose={(mode) => change(() => call("PUT /dev/clock", { body: { mode } }))}
        />
        {STEPS.map((by) => (
          <Button
            key={by}
            isDisabled={submission.isBusy}
            press={() => change(() => advance({ by }))}
          >
            +{by.replace("m", " m")}
          </Button>
        ))}
        <Button
          isDisabled={submission.isBusy}
          press={() => change(() => advance({ until: "idle" }))}
        >
          Until idle
        </Button>
        {submission.isBusy && <span role="status">Advancing…</span>}
      </div>
      {submission.problem !== null && <Problem text={submission.problem} />}
      {journey !== null && <Journey events={journey.events} close={() => setJourney(null)} />}
    </section>
  );
}

interface JourneyProps {
  readonly events: readonly DevEvent[];
  readonly close: () => void;
}

function Journey({ events, close }: JourneyProps) {
  const more = events.length - EVENTS_SHOWN_MAX;
  return (
    <div role="status">
      <p class="row">
        {events.length === 0 ? "Nothing happened." : `${countOf(events.length, "event")}:`}
        <Button press={close}>Close</Button>
      </p>
      <ol class="scroll">
        {events.slice(0, EVENTS_SHOWN_MAX).map((event, index) => (
          <li key={index}>
            <Time at={event.at} />:{" "}
            <a href={hrefOf(`/tasks/${event.task_id}`)}>{event.task_id.slice(-8)}</a>{" "}
            {eventText(event)}
          </li>
        ))}
      </ol>
      {more > 0 && <p class="hint">and {more} more</p>}
    </div>
  );
}

function eventText({
  event,
  kind,
  attempt,
  outcome,
  http_status: status,
  delivery,
  state,
}: DevEvent): string {
  if (event === "attempt_ended") {
    return `attempt ${attempt} of the ${kind}: ${status ?? outcome?.replaceAll("_", " ")}, ${delivery?.replaceAll("_", " ")}`;
  }
  return [event.replaceAll("_", " "), state, outcome]
    .filter((each) => each !== undefined)
    .join(", ");
}
