import { useEffect, useState } from "preact/hooks";

import { Loaded } from "../part/notice.tsx";
import { call } from "../shell/api.ts";
import { useResource } from "../shell/resource.ts";
import { shownAccount } from "../shell/session.ts";
import { AttentionList } from "./attention-list.tsx";
import { OverviewCharts } from "./overview-charts.tsx";
import { OverviewNumbers } from "./overview-numbers.tsx";
import { SetupChecklist, useSetup } from "./setup-checklist.tsx";

// The last 24 hours move on even where nothing happens.
const POLL_MS = 60_000;
const USUAL = { everyMs: 5000, pollMs: POLL_MS };
// A reader who sets things up waits for each step. No report comes of an account that a command makes.
const SETTING_UP = { everyMs: 1000, pollMs: 3000 };

/** The present figures, the points that need attention, and the charts. */
export function OverviewScreen() {
  const [isSettingUp, setSettingUp] = useState(false);
  const overview = useResource(
    "overview",
    (load) => call("GET /v1/stats/overview", load),
    isSettingUp ? SETTING_UP : USUAL,
  );
  const setup = useSetup(overview.data?.setup ?? null);
  useEffect(() => setSettingUp(setup.isShown), [setup.isShown]);
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
            {setup.isShown && <SetupChecklist setup={data.setup} dismiss={setup.dismiss} />}
          </>
        )}
      </Loaded>
      <OverviewCharts isShown={overview.data !== null || overview.problem !== null} />
    </div>
  );
}
