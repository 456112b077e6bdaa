import type { Overview } from "../../api/stats.ts";
import { countText, durationText, percentText } from "../shell/format.ts";
import { liveCounts } from "../shell/live.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";

interface NumberShown {
  readonly name: string;
  readonly value: string;
  /** The parts of the number. */
  readonly note: string;
  /** The search for the counted tasks. */
  readonly search: string;
  readonly isOfDay?: boolean;
  readonly tone?: "bad" | "warn" | null;
}

/** The present numbers and those of the last 24 hours; each links to its tasks. */
export function OverviewNumbers({ overview }: { readonly overview: Overview }) {
  return (
    <ul class="numbers">
      {[...runNumbers(overview), ...deliveryNumbers(overview)].map((shown) => (
        <li key={shown.name}>
          <NumberLink {...shown} />
        </li>
      ))}
    </ul>
  );
}

function NumberLink({ name, value, note, search, isOfDay = false, tone = null }: NumberShown) {
  return (
    <a class="panel" href={hrefOf(tasksPath(search))}>
      <span class="numbers-name">
        {name} {isOfDay && <span class="hint">24 h</span>}
      </span>
      <b class={tone === null ? "number" : `number numbers-${tone}`}>{value}</b>
      <span class="hint number">{note}</span>
    </a>
  );
}

function runNumbers(overview: Overview): readonly NumberShown[] {
  const { waiting, delayed, running, ready } = liveCounts.value ?? overview.tasks;
  const { oldest_waiting_ms: oldestMs } = overview;
  const oldest =
    waiting === 0 || oldestMs === null ? "to run now" : `oldest ${durationText(oldestMs)}`;
  return [
    {
      name: "Waiting",
      value: countText(waiting),
      note: delayed === 0 ? oldest : `${oldest} · ${laterText(delayed)}`,
      search: "state:waiting",
    },
    { name: "Running", value: countText(running), note: "at this moment", search: "state:running" },
    { name: "Ready", value: countText(ready), note: "to be collected", search: "state:ready" },
  ];
}

function laterText(delayed: number): string {
  return delayed === 1 ? "1 starts later" : `${countText(delayed)} start later`;
}

function deliveryNumbers({ day, tasks }: Overview): readonly NumberShown[] {
  const { delivered, given_up: givenUp, refused, success } = day;
  const { retrying, undelivered } = liveCounts.value ?? tasks;
  const lost = givenUp + refused;
  return [
    {
      name: "Delivered",
      value: percentText(success),
      note:
        success === null ? "none yet" : `${countText(delivered)} of ${countText(delivered + lost)}`,
      search: "delivery:delivered",
      isOfDay: true,
    },
    {
      name: "Retrying",
      value: countText(retrying),
      note: "failed deliveries",
      search: "delivery:retrying",
      tone: retrying > 0 ? "warn" : null,
    },
    {
      name: "Undelivered",
      value: countText(undelivered),
      note: lost === 0 ? "given up or refused" : `${countText(lost)} in the last 24 h`,
      search: "delivery:given_up,refused",
      tone: undelivered > 0 ? "bad" : null,
    },
  ];
}
