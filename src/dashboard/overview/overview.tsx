import type { Overview } from "../../api/stats.ts";
import { Loaded } from "../part/notice.tsx";
import { call } from "../shell/api.ts";
import { useResource } from "../shell/resource.ts";
import { shownAccount } from "../shell/session.ts";
import { AttentionList } from "./attention-list.tsx";
import { NoTask } from "./no-task.tsx";
import { OverviewCharts } from "./overview-charts.tsx";
import { OverviewNumbers } from "./overview-numbers.tsx";

// The last 24 hours move on even where nothing happens.
const POLL_MS = 60_000;

/** The present figures, the points that need attention, and the charts. */
export function OverviewScreen() {
  const overview = useResource("overview", (load) => call("GET /v1/stats/overview", load), {
    everyMs: 5000,
    pollMs: POLL_MS,
  });
  const account = shownAccount.value;
  return (
    <div class="stack">
      <div class="screen-head overview-head">
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
