import type { Key } from "../../api/account.ts";
import { ActionDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";
import { isOperator } from "../shell/session.ts";

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
