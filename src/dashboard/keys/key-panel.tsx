import type { Key, NewKey, UserData } from "../../api/account.ts";
import { Button } from "../part/control.tsx";
import { ShownOnce, ask, openDialog } from "../part/dialog.tsx";
import { Badge, Time } from "../part/figure.tsx";
import { Clipped, Empty, Fold, None, Panel } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { countText } from "../shell/format.ts";
import { isOperator } from "../shell/session.ts";

interface KeyPanelProps {
  readonly account: UserData;
  readonly reload: () => void;
}

/** The account's keys: how many may sign in, when each was last used, and how to make and revoke them. */
export function KeyPanel({ account, reload }: KeyPanelProps) {
  const active = account.keys.filter(({ revoked_at: at }) => at === null);
  const revoked = account.keys.filter(({ revoked_at: at }) => at !== null);
  const isFull = active.length >= account.key_limit;
  const columns = [
    ...COLUMNS,
    revocation((key) => askRevocation(key, { isLast: active.length === 1, done: reload })),
  ];
  return (
    <Panel
      title="API keys"
      note={`${countText(active.length)} of ${countText(account.key_limit)} active`}
      tools={
        <>
          {isFull && <p class="hint">Key limit reached. Revoke an unused key first.</p>}
          <Button look="primary" isDisabled={isFull} press={() => askNewKey(reload)}>
            Make a key…
          </Button>
        </>
      }
    >
      {active.length === 0 ? (
        <NoKey />
      ) : (
        <Table label="Active keys" columns={columns} rows={active} keyOf={keyId} />
      )}
      {revoked.length > 0 && (
        <Fold title={`${countText(revoked.length)} revoked`}>
          <Table label="Revoked keys" columns={COLUMNS} rows={revoked} keyOf={keyId} />
        </Fold>
      )}
    </Panel>
  );
}

function keyId({ key_id: id }: Key): string {
  return id;
}

function NoKey() {
  return (
    <Empty title="No key is active.">
      <p>Make one: without a key nobody can post tasks for this account.</p>
    </Empty>
  );
}

const COLUMNS: readonly Column<Key>[] = [
  { name: "Key", cell: (key) => <code>{keyText(key)}</code> },
  { name: "Label", cell: ({ label }) => (label === null ? <None /> : <Clipped text={label} />) },
  { name: "Made", cell: (key) => <Time at={key.created_at} /> },
  {
    name: "Last used",
    cell: ({ last_used_at: at }) => (at === null ? <None text="never" /> : <Time at={at} />),
  },
  {
    name: "State",
    cell: ({ revoked_at: at }) =>
      at === null ? (
        <Badge state="active" />
      ) : (
        <>
          <Badge state="revoked" /> <Time at={at} />
        </>
      ),
  },
];

function revocation(revoke: (key: Key) => void): Column<Key> {
  return {
    name: "",
    cell: (key) => (
      <Button label={`Revoke ${keyText(key)}`} press={() => revoke(key)}>
        Revoke…
      </Button>
    ),
  };
}

/** Asks for the purpose of a new key, makes it, and shows it. */
function askNewKey(reload: () => void): void {
  ask<"label">({
    title: "Make a key",
    verb: "Make the key",
    fields: [
      {
        name: "label",
        label: "Label",
        hint: "Optional: what it is for, such as “ci” or “billing server”.",
      },
    ],
    async work(values) {
      const body = { label: values.label.trim() || undefined };
      const { key } = await call("POST /v1/appendix/keys", { body });
      showNewKey(key);
      reload();
      return false;
    },
  });
}

function showNewKey({ key, label }: NewKey): void {
  const hint =
    "It is shown only once and cannot be read again. Send it as Authorization: Bearer, or as the password of Basic.";
  openDialog(
    <ShownOnce
      title={label === null ? "Your new key" : `Your new key “${label}”`}
      secrets={[{ what: "API key", text: key, hint }]}
    />,
  );
}

interface RevocationOptions {
  /** No other key is active. */
  readonly isLast: boolean;
  readonly done: () => void;
}

function askRevocation(key: Key, { isLast, done }: RevocationOptions): void {
  const name = keyText(key);
  ask({
    title: `Revoke ${name}?`,
    verb: "Revoke the key",
    otherwise: "Keep it",
    isDanger: true,
    text: (
      <>
        {key.label !== null && (
          <p class="wraps">
            Its label is <bdi>{key.label}</bdi>.
          </p>
        )}
        <p>From the next request on it is refused permanently. Tasks that it posted go on.</p>
        {isLast && (
          <p>It is the last key: nobody can post for this account until another is made.</p>
        )}
        {!isOperator.value && (
          <p>
            If you signed in with this key, your session ends with it; sign in again with another
            one.
          </p>
        )}
      </>
    ),
    work: () => call("DELETE /v1/appendix/keys/:key_id", { params: { key_id: key.key_id } }),
    announcement: `${name} is revoked.`,
    done,
  });
}

/** The short form of a key, to recognize it by: `pbd_live_…ab12`. */
function keyText({ prefix, last_four: lastFour }: Key): string {
  return `${prefix}…${lastFour}`;
}
