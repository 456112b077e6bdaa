import { useState } from "preact/hooks";

import type { UserData } from "../../api/account.ts";
import { Button, CopyButton } from "../part/control.tsx";
import { Facts, Quota } from "../part/figure.tsx";
import { Empty, Panel, Screen, ScreenHead } from "../part/panel.tsx";
import { bytesText, countText } from "../shell/format.ts";
import { useRead } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { isOperator, shownAccount } from "../shell/session.ts";
import { KeyPanel } from "./key-panel.tsx";

/** The account's API keys and its webhook secret. */
export function KeysScreen() {
  if (shownAccount.value !== null) return <AccountKeys />;
  return (
    <>
      <ScreenHead title={TITLE} />
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
    </>
  );
}

const TITLE = "Keys & secret";
// The time of a key's last use changes without a report.
const TIMING = { everyMs: 5000, pollMs: 15_000 };

function AccountKeys() {
  const account = useRead("GET /v1/appendix/user_data", {}, TIMING);
  return (
    <Screen title={TITLE} resource={account}>
      {(data) => (
        <>
          <KeyPanel account={data} reload={account.reload} />
          <WebhookSecret secret={data.webhook_secret} next={data.webhook_secret_next} />
          <LimitPanel account={data} />
        </>
      )}
    </Screen>
  );
}

/** The limits of the account, and how much of each is left. */
function LimitPanel({ account }: { readonly account: UserData }) {
  const { limits, usage, retention_days: days } = account;
  return (
    <Panel title="Limits">
      <Facts
        rows={[
          ["Data", <Quota used={usage.bytes} limit={limits.bytes} textOf={bytesText} />],
          [
            "Open tasks",
            <Quota used={usage.open_tasks} limit={limits.open_tasks} textOf={countText} />,
          ],
          ["Requests a minute", rateText(limits.requests_per_minute)],
          ["Tasks posted a minute", rateText(limits.tasks_per_minute)],
        ]}
      />
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

interface WebhookSecretProps {
  readonly secret: string;
  /** Null unless a rotation goes on. */
  readonly next: string | null;
}

/** The secret that signs webhooks, hidden until asked for; both secrets while one replaces the other. */
function WebhookSecret({ secret, next }: WebhookSecretProps) {
  return (
    <Panel title="Webhook secret">
      <div class="panel-body stack">
        {next !== null && <Rotation />}
        <Secret
          name={next === null ? "Secret" : "Current secret"}
          signs={next === null ? "X-Signature and webhook-signature" : "X-Signature"}
          secret={secret}
        />
        {next !== null && <Secret name="Next secret" signs="X-Signature-Next" secret={next} />}
        <p class="hint">
          Every webhook carries <code>X-Signature: sha256=…</code>, an HMAC over the body of a
          postback or the URL of a pingback. Compare it before you trust a webhook. To check one by
          hand:{" "}
          <code>postbackd verify --secret-file FILE --body-file FILE --signature sha256=…</code>
        </p>
        {next === null && (
          <p class="hint">
            {isOperator.value
              ? "To replace it, begin a rotation under Accounts."
              : "Only the operator can replace it. Request it if the secret may have leaked."}
          </p>
        )}
      </div>
    </Panel>
  );
}

function Rotation() {
  return (
    <div class="row pad wraps notice tone-warn">
      <div>
        <p>
          <b>The secret is being replaced.</b> Until then every webhook is signed with both:{" "}
          <code>webhook-signature</code> lists both signatures.
        </p>
        <p>
          Make your receivers accept either one now.{" "}
          {isOperator.value
            ? "When all of them know the next secret, finish the rotation under Accounts."
            : "When all of them have the next secret, the operator can finish the rotation."}{" "}
          From then on only the next one makes <code>X-Signature</code>.
        </p>
      </div>
    </div>
  );
}

interface SecretProps {
  readonly name: string;
  readonly signs: string;
  readonly secret: string;
}

const DOTS = "•".repeat(24);

function Secret({ name, signs, secret }: SecretProps) {
  const [isShown, setShown] = useState(false);
  return (
    <div class="stack stack-tight">
      <h3>
        {name} <span class="hint">signs {signs}</span>
      </h3>
      <div class="line secret">
        <code>
          {isShown ? (
            secret
          ) : (
            <>
              whsec_<span aria-hidden="true">{DOTS}</span>
              <span class="off-screen">(hidden)</span>
            </>
          )}
        </code>
        <Button
          label={`${isShown ? "Hide" : "Reveal"} the ${name.toLowerCase()}`}
          press={() => setShown(!isShown)}
        >
          {isShown ? "Hide" : "Reveal"}
        </Button>
        <CopyButton text={secret} what={name.toLowerCase()} />
      </div>
    </div>
  );
}
