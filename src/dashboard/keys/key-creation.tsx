import { useState } from "preact/hooks";

import type { NewKey } from "../../api/account.ts";
import { FormDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";

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
