import { useState } from "preact/hooks";

import { Button, CopyButton } from "../part/control.tsx";
import { Panel } from "../part/panel.tsx";
import { isOperator } from "../shell/session.ts";

interface WebhookSecretProps {
  readonly secret: string;
  /** Null unless a rotation goes on. */
  readonly next: string | null;
}

/** The secret that signs webhooks, hidden until asked for; both secrets while one replaces the other. */
export function WebhookSecret({ secret, next }: WebhookSecretProps) {
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
              : "Only the operator can replace it: ask for that when somebody may have seen it."}
          </p>
        )}
      </div>
    </Panel>
  );
}

function Rotation() {
  return (
    <div class="notice notice-warning">
      <div>
        <p>
          <b>The secret is being replaced.</b> Until then every webhook is signed with both:{" "}
          <code>webhook-signature</code> lists both signatures.
        </p>
        <p>
          Make your receivers accept either one now.{" "}
          {isOperator.value
            ? "When all of them know the next secret, finish the rotation under Accounts."
            : "When all of them know the next secret, tell the operator, who then finishes the rotation."}{" "}
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
      <div class="secret">
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
