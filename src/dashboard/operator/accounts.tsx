import { useState } from "preact/hooks";

import type { AnswerOf } from "../../api/operations.ts";
import type { AccountOverview, NewAccount } from "../../api/operator.ts";
import { heldText } from "../../domain/account/account.ts";
import { Badge } from "../part/badge.tsx";
import { Button } from "../part/button.tsx";
import { Count } from "../part/count.tsx";
import { FilterField } from "../part/filter-field.tsx";
import { Empty, Loaded } from "../part/notice.tsx";
import { ScreenHead } from "../part/panel.tsx";
import { Quota } from "../part/quota.tsx";
import { type Column, Table } from "../part/table.tsx";
import { Time } from "../part/time.tsx";
import { call } from "../shell/api.ts";
import { bytesText, countText, percentText } from "../shell/format.ts";
import { useIdCursor } from "../shell/id-cursor.ts";
import { useKeys } from "../shell/keyboard.ts";
import { useResource } from "../shell/resource.ts";
import { go, hrefOf, route } from "../shell/route.ts";
import { AccountChange, type ChangeName } from "./account-change.tsx";
import { AccountCreation } from "./account-creation.tsx";
import { NewAccountShown } from "./new-account.tsx";
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
