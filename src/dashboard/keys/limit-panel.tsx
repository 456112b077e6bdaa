import type { UserData } from "../../api/account.ts";
import { Fact } from "../part/fact.tsx";
import { Panel } from "../part/panel.tsx";
import { Quota } from "../part/quota.tsx";
import { bytesText, countText } from "../shell/format.ts";
import { isOperator } from "../shell/session.ts";

/** The limits of the account, and how much of each is left. */
export function LimitPanel({ account }: { readonly account: UserData }) {
  const { limits, usage, retention_days: days } = account;
  return (
    <Panel title="Limits">
      <dl class="facts panel-body">
        <Fact name="Data">
          <Quota used={usage.bytes} limit={limits.bytes} textOf={bytesText} />
        </Fact>
        <Fact name="Open tasks">
          <Quota used={usage.open_tasks} limit={limits.open_tasks} textOf={countText} />
        </Fact>
        <Fact name="Requests a minute">{rateText(limits.requests_per_minute)}</Fact>
        <Fact name="Tasks posted a minute">{rateText(limits.tasks_per_minute)}</Fact>
      </dl>
      <p class="panel-body hint">
        Posts beyond a limit are refused with 50700 (data) or 42900. Collecting tasks frees nothing:
        they are kept for {days} days after they have finished.{" "}
        {isOperator.value ? (
          <>
            <code>postbackd admin account limit {account.login}</code> changes the limits.
          </>
        ) : (
          "The operator can raise a limit."
        )}
      </p>
    </Panel>
  );
}

function rateText(limit: number): string {
  return limit === 0 ? "no limit" : countText(limit);
}
