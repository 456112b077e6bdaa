import type { ComponentChildren } from "preact";

import type { AccountOverview } from "../../api/operator.ts";
import { heldText } from "../../domain/account/account.ts";
import { Button, FilterField } from "../part/control.tsx";
import { ask } from "../part/dialog.tsx";
import { Badge, Count, Quota, Time } from "../part/figure.tsx";
import { List } from "../part/list.tsx";
import { Empty, Screen } from "../part/panel.tsx";
import type { Column } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { bytesText, countOf, countText, percentText } from "../shell/format.ts";
import { useRead } from "../shell/resource.ts";
import { go, hrefOf, route } from "../shell/route.ts";
import { askNewAccount } from "./new-account.tsx";

/** All accounts, for the operator: their figures, and the actions on them. */
export function AccountsScreen() {
  const { query } = route.value;
  const part = query.get("q") ?? undefined;
  const page = { q: part, cursor: query.get("cursor") ?? undefined };
  const resource = useRead("GET /v1/operator/accounts", { query: page }, { everyMs: 5000 });
  const { reload } = resource;
  return (
    <Screen
      title="Accounts"
      resource={resource}
      tools={
        <>
          <FilterField label="Part of a login" resets={["cursor"]} />
          <Button look="primary" isLarge press={() => askNewAccount(reload)}>
            Make an account…
          </Button>
        </>
      }
    >
      {({ accounts, next_cursor: next }) => (
        <List
          label="Accounts"
          noun="account"
          keys={[{ key: "Enter", does: "Open the account", run: ({ login }) => go(lookAt(login)) }]}
          columns={[
            ...COLUMNS,
            { name: "", cell: (account) => <Actions account={account} reload={reload} /> },
          ]}
          rows={accounts}
          keyOf={({ login }) => login}
          next={next}
          empty={
            part === undefined ? <NoAccount /> : <Empty title={`No login contains “${part}”.`} />
          }
        >
          <p class="hint">
            Posted, delivered and success cover the last 24 hours.{" "}
            <code>postbackd admin account limit LOGIN</code> changes the limits of an account.
          </p>
        </List>
      )}
    </Screen>
  );
}

function NoAccount() {
  return (
    <Empty title="No account exists yet.">
      <p>
        Make one: it gets a login, a first key and a webhook secret. On the daemon’s machine{" "}
        <code>postbackd admin account create LOGIN</code> does the same.
      </p>
    </Empty>
  );
}

const COLUMNS: readonly Column<AccountOverview>[] = [
  {
    name: "Login",
    cell: ({ login }) => (
      <a class="clipped" href={hrefOf(lookAt(login))} title={`Open ${login}`}>
        {login}
      </a>
    ),
  },
  { name: "State", cell: (row) => <State account={row} /> },
  { ...counted("Keys", (row) => row.keys_active), isMinor: true },
  {
    name: "Data",
    title: "The data of its tasks in the database",
    cell: ({ usage, limits }) => (
      <Quota used={usage.bytes} limit={limits.bytes} textOf={bytesText} />
    ),
  },
  {
    name: "Open",
    isMinor: true,
    title: "Tasks that wait or run",
    cell: ({ usage, limits }) => (
      <Quota used={usage.open_tasks} limit={limits.open_tasks} textOf={countText} />
    ),
  },
  counted("Waiting", ({ tasks }) => tasks.waiting),
  { ...counted("Running", ({ tasks }) => tasks.running), isMinor: true },
  { ...counted("Ready", ({ tasks }) => tasks.ready), isMinor: true },
  counted("Undelivered", ({ tasks }) => tasks.undelivered),
  { ...counted("Posted", ({ day }) => day.posted), isMinor: true },
  { ...counted("Delivered", ({ day }) => day.delivered), isMinor: true },
  { name: "Success", isNumber: true, cell: ({ day }) => percentText(day.success) },
];

function counted(name: string, countOf: (row: AccountOverview) => number): Column<AccountOverview> {
  return { name, isNumber: true, cell: (row) => <Count count={countOf(row)} /> };
}

function State({ account }: { readonly account: AccountOverview }) {
  const { disabled_at: disabledAt, is_rotating: isRotating, held } = account;
  return (
    <>
      {disabledAt !== null && (
        <>
          <Badge state="disabled" /> <Time at={disabledAt} />{" "}
        </>
      )}
      {held !== null && <span class="hint">held: {heldText(held)} </span>}
      {isRotating && (
        <Badge state="rotating" title="Two secrets sign its webhooks during the rotation" />
      )}
      {disabledAt === null && !isRotating && <Badge state="active" />}
    </>
  );
}

interface ActionsProps {
  readonly account: AccountOverview;
  readonly reload: () => void;
}

function Actions({ account, reload }: ActionsProps) {
  const { login, disabled_at: disabledAt, is_rotating: isRotating } = account;
  const changes = [
    isRotating ? "finish" : "rotate",
    disabledAt === null ? "disable" : "enable",
  ] as const;
  return changes.map((change) => (
    <Button
      key={change}
      label={`${CHANGES[change].label} ${login}`}
      press={() => askChange(change, account, reload)}
    >
      {CHANGES[change].button}
    </Button>
  ));
}

function lookAt(login: string): string {
  return `/?${new URLSearchParams({ account: login }).toString()}`;
}

function askChange(change: ChangeName, account: AccountOverview, done: () => void): void {
  const { login } = account;
  const { title, announcement, text, effect, ...form } = CHANGES[change];
  ask({
    ...form,
    title: title(login),
    text: (
      <>
        {text}
        {effect !== undefined && <p>{effect(account)}</p>}
      </>
    ),
    work: () => call(`POST /v1/operator/accounts/${change}/:login`, { params: { login } }),
    announcement: announcement(login),
    done,
  });
}

type ChangeName = "disable" | "enable" | "rotate" | "finish";

interface Change {
  readonly button: string;
  /** The name of the button for screen readers, before the login. */
  readonly label: string;
  readonly title: (login: string) => string;
  readonly verb: string;
  readonly otherwise: string;
  readonly isDanger: boolean;
  readonly announcement: (login: string) => string;
  readonly text: ComponentChildren;
  /** The effect on the account's present work. */
  readonly effect?: (account: AccountOverview) => string;
}

const CHANGES: Readonly<Record<ChangeName, Change>> = {
  disable: {
    button: "Disable…",
    label: "Disable",
    title: (login) => `Disable ${login}?`,
    verb: "Disable the account",
    otherwise: "Keep it active",
    isDanger: true,
    announcement: (login) => `${login} is disabled.`,
    text: (
      <>
        <p>
          Its keys stop working immediately: every request is refused, and its sessions here end.
        </p>
        <p>
          Its queued tasks and its webhooks are suspended, and its running tasks are stopped. When
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
    button: "Enable…",
    label: "Enable",
    title: (login) => `Enable ${login}?`,
    verb: "Enable the account",
    otherwise: "Keep it disabled",
    isDanger: false,
    announcement: (login) => `${login} is enabled.`,
    text: (
      <p>
        Its keys work again immediately. Everything that was held goes on: its queued tasks run, and
        its webhooks are sent.
      </p>
    ),
  },
  rotate: {
    button: "Rotate…",
    label: "Rotate the webhook secret of",
    title: (login) => `Rotate the webhook secret of ${login}?`,
    verb: "Begin the rotation",
    otherwise: "Keep the secret",
    isDanger: false,
    announcement: (login) =>
      `The rotation has begun: ${login} sees both secrets under Keys & secret.`,
    text: (
      <>
        <p>A rotation has three steps and loses no webhook:</p>
        <ol class="stack stack-small steps">
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
    button: "Finish…",
    label: "Finish the rotation of",
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
