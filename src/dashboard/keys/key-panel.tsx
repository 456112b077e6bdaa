import { useState } from "preact/hooks";

import type { Key, NewKey, UserData } from "../../api/account.ts";
import { Badge } from "../part/badge.tsx";
import { Button } from "../part/button.tsx";
import { Empty } from "../part/notice.tsx";
import { Clipped, None, Panel } from "../part/panel.tsx";
import { ShownOnce } from "../part/shown-once.tsx";
import { type Column, Table } from "../part/table.tsx";
import { Time } from "../part/time.tsx";
import { countText } from "../shell/format.ts";
import { KeyCreation } from "./key-creation.tsx";
import { KeyRevocation, keyText } from "./key-revocation.tsx";

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
