import type { UserData } from "../../api/account.ts";
import { Fact, Quota } from "../part/figure.tsx";
import { Empty, Loaded, Panel, ScreenHead } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { bytesText, countText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { isOperator, shownAccount } from "../shell/session.ts";
import { KeyPanel } from "./key-panel.tsx";
import { WebhookSecret } from "./webhook-secret.tsx";

// The time of a key's last use changes without a report.
const POLL_MS = 15_000;

/** The account's API keys and its webhook secret. */
export function KeysScreen() {
  return (
    <>
      <ScreenHead title="Keys &amp; secret" />
      {shownAccount.value === null ? <NoAccount /> : <AccountKeys />}
    </>
  );
}

function NoAccount() {
  return (
    <div class="panel">
      <Empty title="Keys and secret belong to an account.">
        <p>You see all accounts now. Choose one to see its keys and its secret.</p>
        <p>
          <a class="button" href={hrefOf("/accounts")}>
            Choose an account
          </a>
        </p>
      </Empty>
    </div>
  );
}

function AccountKeys() {
  const account = useResource("keys", (load) => call("GET /v1/appendix/user_data", load), {
    everyMs: 5000,
    pollMs: POLL_MS,
  });
  return (
    <Loaded resource={account}>
      {(data) => (
        <div class="stack">
          <KeyPanel account={data} reload={account.reload} />
          <WebhookSecret secret={data.webhook_secret} next={data.webhook_secret_next} />
          <LimitPanel account={data} />
        </div>
      )}
    </Loaded>
  );
}

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
