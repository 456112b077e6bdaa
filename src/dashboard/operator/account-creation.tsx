import { useState } from "preact/hooks";

import type { NewAccount } from "../../api/operator.ts";
import { FormDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";
import { LoginField } from "./login-field.tsx";

interface AccountCreationProps {
  readonly close: () => void;
  readonly done: (account: NewAccount) => void;
}

/** Asks for a login, and makes the account. */
export function AccountCreation({ close, done }: AccountCreationProps) {
  const [login, setLogin] = useState("");
  async function create(): Promise<void> {
    done(await call("POST /v1/operator/accounts", { body: { login } }));
  }
  return (
    <FormDialog
      title="Make an account"
      verb="Make the account"
      otherwise="Close"
      work={create}
      close={close}
    >
      <LoginField login={login} change={setLogin} />
      <p class="hint">You get its first key and its webhook secret, to hand over.</p>
    </FormDialog>
  );
}
