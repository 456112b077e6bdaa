import type { ComponentChildren } from "preact";

import type { AccountOverview } from "../../api/operator.ts";
import { ActionDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";
import { countOf } from "../shell/format.ts";

/** The operator's actions on an account. */
export type ChangeName = "disable" | "enable" | "rotate" | "finish";

interface Wording {
  readonly title: (login: string) => string;
  readonly verb: string;
  readonly otherwise: string;
  readonly isDanger: boolean;
  readonly announcement: (login: string) => string;
  readonly text: ComponentChildren;
  /** The effect on the account's present work. */
  readonly effect?: (account: AccountOverview) => string;
}

const WORDINGS: Readonly<Record<ChangeName, Wording>> = {
  disable: {
    title: (login) => `Disable ${login}?`,
    verb: "Disable the account",
    otherwise: "Keep it active",
    isDanger: true,
    announcement: (login) => `${login} is disabled.`,
    text: (
      <>
        <p>Its keys stop working at once: every request is refused, and its sessions here end.</p>
        <p>
          Its queued tasks and its webhooks are held, and its running tasks are told to stop. When
          you enable it again, everything goes on from there.
        </p>
      </>
    ),
    effect: ({ tasks: { waiting, delayed, running, retrying } }) =>
      `At this moment: ${countOf(waiting + delayed, "queued task")}, ` +
      `${countOf(running, "running task")}, ` +
      `${countOf(retrying, "delivery to be retried", "deliveries to be retried")}.`,
  },
  enable: {
    title: (login) => `Enable ${login}?`,
    verb: "Enable the account",
    otherwise: "Keep it disabled",
    isDanger: false,
    announcement: (login) => `${login} is enabled.`,
    text: (
      <p>
        Its keys work again at once. Everything that was held goes on: its queued tasks run, and its
        webhooks are sent.
      </p>
    ),
  },
  rotate: {
    title: (login) => `Rotate the webhook secret of ${login}?`,
    verb: "Begin the rotation",
    otherwise: "Keep the secret",
    isDanger: false,
    announcement: (login) =>
      `The rotation has begun: ${login} sees both secrets under Keys & secret.`,
    text: (
      <>
        <p>A rotation has three steps and loses no webhook:</p>
        <ol class="steps">
          <li>
            Now a next secret is made. Webhooks carry two signatures, <code>X-Signature</code> with
            the current and <code>X-Signature-Next</code> with the next one.
          </li>
          <li>
            The account reads the next secret under Keys &amp; secret and makes its receivers accept
            either one.
          </li>
          <li>You finish the rotation here. The current secret is deleted.</li>
        </ol>
      </>
    ),
  },
  finish: {
    title: (login) => `Finish the rotation of ${login}?`,
    verb: "Finish the rotation",
    otherwise: "Keep both",
    isDanger: true,
    announcement: (login) => `Only the next secret of ${login} signs now.`,
    text: (
      <>
        <p>
          From now on only the next secret signs, and the current one is deleted. This cannot be
          undone.
        </p>
        <p>
          <b>Every receiver must know the next secret.</b> A receiver that does not will refuse all
          webhooks of this account.
        </p>
      </>
    ),
  },
};

interface AccountChangeProps {
  readonly change: ChangeName;
  readonly account: AccountOverview;
  readonly close: () => void;
  readonly done: () => void;
}

/** Explains a change of an account, and makes it. */
export function AccountChange({ change, account, close, done }: AccountChangeProps) {
  const { title, verb, otherwise, isDanger, announcement, text, effect } = WORDINGS[change];
  const { login } = account;
  return (
    <ActionDialog
      verb={verb}
      otherwise={otherwise}
      isDanger={isDanger}
      close={close}
      done={done}
      title={title(login)}
      announcement={announcement(login)}
      work={() => call(`POST /v1/operator/accounts/${change}/:login`, { params: { login } })}
    >
      {text}
      {effect !== undefined && <p>{effect(account)}</p>}
    </ActionDialog>
  );
}
