import { useState } from "preact/hooks";

import type { Key, NewKey, UserData } from "../../api/account.ts";
import { Button } from "../part/control.tsx";
import { ActionDialog, FormDialog, ShownOnce } from "../part/dialog.tsx";
import { Badge, Time } from "../part/figure.tsx";
import { Clipped, Empty, None, Panel } from "../part/panel.tsx";
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
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState<NewKey | null>(null);
  const [revokes, setRevokes] = useState<Key | null>(null);
  const active = account.keys.filter(({ revoked_at: at }) => at === null);
  const revoked = account.keys.filter(({ revoked_at: at }) => at !== null);
  const isFull = active.length >= account.key_limit;
  return (
    <Panel
      title="API keys"
      note={`${countText(active.length)} of ${countText(account.key_limit)} active`}
      tools={
        <>
          {isFull && (
            <p class="hint">There is no room for another key: revoke one that is not used.</p>
          )}
          <Button look="primary" isDisabled={isFull} press={() => setCreating(true)}>
            Make a key…
          </Button>
        </>
      }
    >
      {active.length === 0 ? <NoKey /> : <KeyTable keys={active} revoke={setRevokes} />}
      {revoked.length > 0 && (
        <details class="fold">
          <summary>{countText(revoked.length)} revoked</summary>
          <KeyTable keys={revoked} />
        </details>
      )}
      {isCreating && (
        <KeyCreation
          close={() => setCreating(false)}
          done={(key) => {
            setCreating(false);
            setCreated(key);
            reload();
          }}
        />
      )}
      {created !== null && <CreatedKey created={created} close={() => setCreated(null)} />}
      {revokes !== null && (
        <KeyRevocation
          keyRow={revokes}
          isLast={active.length === 1}
          close={() => setRevokes(null)}
          done={reload}
        />
      )}
    </Panel>
  );
}

function NoKey() {
  return (
    <Empty title="No key is active.">
      <p>Make one: without a key nobody can post tasks for this account.</p>
    </Empty>
  );
}

function CreatedKey({ created, close }: { readonly created: NewKey; readonly close: () => void }) {
  const { key, label } = created;
  const hint =
    "It is shown only once: nobody can read it again. Send it as Authorization: Bearer, or as the password of Basic.";
  return (
    <ShownOnce
      title={label === null ? "Your new key" : `Your new key “${label}”`}
      secrets={[{ what: "API key", text: key, hint }]}
      close={close}
    />
  );
}

interface KeyTableProps {
  readonly keys: readonly Key[];
  /** Left out for revoked keys. */
  readonly revoke?: (key: Key) => void;
}

function KeyTable({ keys, revoke }: KeyTableProps) {
  const isActive = revoke !== undefined;
  return (
    <Table
      label={isActive ? "Active keys" : "Revoked keys"}
      columns={isActive ? [...COLUMNS, revocation(revoke)] : COLUMNS}
      rows={keys}
      keyOf={(key) => key.key_id}
    />
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

interface KeyCreationProps {
  readonly close: () => void;
  readonly done: (key: NewKey) => void;
}

/** Asks for the purpose of a new key, and makes it. */
export function KeyCreation({ close, done }: KeyCreationProps) {
  const [label, setLabel] = useState("");
  async function create(): Promise<void> {
    const body = label.trim() === "" ? {} : { label: label.trim() };
    const { key } = await call("POST /v1/appendix/keys", { body });
    done(key);
  }
  return (
    <FormDialog
      title="Make a key"
      verb="Make the key"
      otherwise="Close"
      work={create}
      close={close}
    >
      <label class="field">
        Label
        <input
          value={label}
          autocomplete="off"
          autofocus
          onInput={({ currentTarget }) => setLabel(currentTarget.value)}
        />
        <span class="hint">Optional: what it is for, such as “ci” or “billing server”.</span>
      </label>
    </FormDialog>
  );
}

interface KeyRevocationProps {
  readonly keyRow: Key;
  /** No other key is active. */
  readonly isLast: boolean;
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks before a key is revoked. */
export function KeyRevocation({ keyRow, isLast, close, done }: KeyRevocationProps) {
  const name = keyText(keyRow);
  return (
    <ActionDialog
      title={`Revoke ${name}?`}
      verb="Revoke the key"
      otherwise="Keep it"
      isDanger
      announcement={`${name} is revoked.`}
      work={() => call("DELETE /v1/appendix/keys/:key_id", { params: { key_id: keyRow.key_id } })}
      close={close}
      done={done}
    >
      {keyRow.label !== null && (
        <p class="wraps">
          Its label is <bdi>{keyRow.label}</bdi>.
        </p>
      )}
      <p>From the next request on it is refused for good. Tasks that it posted go on.</p>
      {isLast && <p>It is the last key: nobody can post for this account until another is made.</p>}
      {!isOperator.value && (
        <p>
          If you signed in with this key, your session ends with it; sign in again with another one.
        </p>
      )}
    </ActionDialog>
  );
}

/** The short form of a key, to recognize it by: `pbd_live_…ab12`. */
export function keyText({ prefix, last_four: lastFour }: Key): string {
  return `${prefix}…${lastFour}`;
}
