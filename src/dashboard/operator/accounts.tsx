import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { AnswerOf } from "../../api/operations.ts";
import type { AccountOverview, NewAccount } from "../../api/operator.ts";
import { heldText } from "../../domain/account/account.ts";
import { Button, FilterField } from "../part/control.tsx";
import { ActionDialog } from "../part/dialog.tsx";
import { Badge, Count, Quota, Time } from "../part/figure.tsx";
import { Empty, Loaded, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { bytesText, countOf, countText, percentText } from "../shell/format.ts";
import { useIdCursor, useKeys } from "../shell/keyboard.ts";
import { useResource } from "../shell/resource.ts";
import { go, hrefOf, route } from "../shell/route.ts";
import { AccountCreation, NewAccountShown } from "./new-account.tsx";
import { Pages } from "./pages.tsx";

type Accounts = AnswerOf<"GET /v1/operator/accounts">;

interface Asked {
  readonly change: ChangeName;
  readonly account: AccountOverview;
}

const REFRESH_MS = 5000;

/** All accounts, for the operator: their figures, and the actions on them. */
export function AccountsScreen() {
  const { query } = route.value;
  const page = { q: query.get("q") ?? undefined, cursor: query.get("cursor") ?? undefined };
  const accounts = useResource(
    JSON.stringify(page),
    (load) => call("GET /v1/operator/accounts", { ...load, query: page }),
    { everyMs: REFRESH_MS },
  );
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState<NewAccount | null>(null);
  const [asked, setAsked] = useState<Asked | null>(null);
  return (
    <>
      <ScreenHead title="Accounts">
        <FilterField label="Part of a login" resets={["cursor"]} />
        <Button look="primary" isLarge press={() => setCreating(true)}>
          Make an account…
        </Button>
      </ScreenHead>
      <Loaded resource={accounts}>{(page) => <Accounts page={page} ask={setAsked} />}</Loaded>
      {isCreating && (
        <AccountCreation
          close={() => setCreating(false)}
          done={(account) => {
            setCreating(false);
            setCreated(account);
            accounts.reload();
          }}
        />
      )}
      {created !== null && <NewAccountShown account={created} close={() => setCreated(null)} />}
      {asked !== null && (
        <AccountChange {...asked} close={() => setAsked(null)} done={accounts.reload} />
      )}
    </>
  );
}

interface AccountsProps {
  readonly page: Accounts;
  readonly ask: (asked: Asked) => void;
}

function Accounts({ page, ask }: AccountsProps) {
  const { accounts, next_cursor: next } = page;
  const { current, keys } = useIdCursor(accounts.map(loginOf), "account");
  useKeys([
    ...keys,
    {
      key: "Enter",
      does: "Open the account",
      run: () => current !== null && go(lookAt(current)),
    },
  ]);
  if (accounts.length === 0) return <NoAccounts />;
  return (
    <section class="panel" aria-label="Accounts">
      <Table
        label="Accounts"
        columns={[...COLUMNS, { name: "", cell: (row) => <Actions account={row} ask={ask} /> }]}
        rows={accounts}
        keyOf={loginOf}
        current={current}
      />
      <Pages next={next}>
        <p class="hint">
          Posted, delivered and success cover the last 24 hours.{" "}
          <code>postbackd admin account limit LOGIN</code> changes the limits of an account.
        </p>
      </Pages>
    </section>
  );
}

function loginOf({ login }: AccountOverview): string {
  return login;
}

function NoAccounts() {
  const part = route.value.query.get("q");
  return (
    <div class="panel">
      {part === null ? (
        <Empty title="There is no account yet.">
          <p>
            Make one: it gets a login, a first key and a webhook secret. On the daemon’s machine{" "}
            <code>postbackd admin account create LOGIN</code> does the same.
          </p>
        </Empty>
      ) : (
        <Empty title={`No login contains “${part}”.`} />
      )}
    </div>
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

const LABELS: Readonly<Record<ChangeName, string>> = {
  disable: "Disable",
  enable: "Enable",
  rotate: "Rotate the webhook secret of",
  finish: "Finish the rotation of",
};

interface ActionsProps {
  readonly account: AccountOverview;
  readonly ask: (asked: Asked) => void;
}

function Actions({ account, ask }: ActionsProps) {
  const { login, disabled_at: disabledAt, is_rotating: isRotating } = account;
  const changes: readonly (readonly [ChangeName, string])[] = [
    isRotating ? ["finish", "Finish…"] : ["rotate", "Rotate…"],
    disabledAt === null ? ["disable", "Disable…"] : ["enable", "Enable…"],
  ];
  return changes.map(([change, text]) => (
    <Button
      key={change}
      label={`${LABELS[change]} ${login}`}
      press={() => ask({ change, account })}
    >
      {text}
    </Button>
  ));
}

function lookAt(login: string): string {
  return `/?${new URLSearchParams({ account: login }).toString()}`;
}

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
