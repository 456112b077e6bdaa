import type { Attention, Overview } from "../../api/stats.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { Loaded, PointList } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { countText, durationText, percentText } from "../shell/format.ts";
import { liveCounts } from "../shell/live.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { shownAccount } from "../shell/session.ts";
import { OverviewCharts } from "./chart.tsx";
import { NoTask } from "./no-task.tsx";

// The last 24 hours move on even where nothing happens.
const POLL_MS = MINUTE_MS;

/** The present figures, the points that need attention, and the charts. */
export function OverviewScreen() {
  const overview = useResource("overview", (load) => call("GET /v1/stats/overview", load), {
    everyMs: 5000,
    pollMs: POLL_MS,
  });
  const account = shownAccount.value;
  return (
    <div class="stack">
      <div class="row">
        <h1>Overview</h1>
        <p class="hint">{account === null ? "All accounts" : <bdi>{account}</bdi>}</p>
      </div>
      <Loaded resource={overview}>
        {(data) => (
          <>
            <OverviewNumbers overview={data} />
            <AttentionList attention={data.attention} />
            {isQuiet(data) && <NoTask />}
          </>
        )}
      </Loaded>
      <OverviewCharts isShown={overview.data !== null || overview.problem !== null} />
    </div>
  );
}

/** True if the counts show no accepted task; a refused task counts as posted and failed. */
function isQuiet({ tasks, day }: Overview): boolean {
  return day.posted <= day.failed && Object.values(tasks).every((count) => count === 0);
}

/** The points that need attention; a quiet line if none exist. */
function AttentionList({ attention }: { readonly attention: readonly Attention[] }) {
  if (attention.length === 0) {
    return <p class="hint">All is well: nothing needs your attention.</p>;
  }
  return (
    <PointList
      title="Needs attention"
      points={attention.map(({ level, text, link }) => ({
        word: level,
        tone: level === "problem" ? "bad" : "warn",
        text,
        after: link !== null && (
          <a href={hrefOf(link)} aria-label={`Open: ${text}`}>
            Open
          </a>
        ),
      }))}
    />
  );
}

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

/** The numbers of now and of the last 24 hours; each links to its tasks. */
function OverviewNumbers({ overview }: { readonly overview: Overview }) {
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
        {name} {isOfDay && <span class="small">24 h</span>}
      </span>
      <b class={tone === null ? "number" : `number tone-${tone}`}>{value}</b>
      <span class="small number">{note}</span>
    </a>
  );
}

function runNumbers(overview: Overview): readonly NumberShown[] {
  const { waiting, delayed, running, ready } = liveCounts.value ?? overview.tasks;
  const { oldest_waiting_ms: oldestMs } = overview;
  const oldest =
    waiting === 0 || oldestMs === null ? "ready to run" : `oldest ${durationText(oldestMs)}`;
  return [
    {
      name: "Waiting",
      value: countText(waiting),
      note: delayed === 0 ? oldest : `${oldest} · ${laterText(delayed)}`,
      search: "state:waiting",
    },
    { name: "Running", value: countText(running), note: "at this moment", search: "state:running" },
    { name: "Ready", value: countText(ready), note: "not fetched yet", search: "state:ready" },
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
