import { Empty, Loaded } from "../part/notice.tsx";
import { ScreenHead } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { shownAccount } from "../shell/session.ts";
import { KeyPanel } from "./key-panel.tsx";
import { LimitPanel } from "./limit-panel.tsx";
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
