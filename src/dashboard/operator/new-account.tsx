import { useState } from "preact/hooks";

import type { NewAccount } from "../../api/operator.ts";
import { FormDialog, ShownOnce } from "../part/dialog.tsx";
import { call } from "../shell/api.ts";

interface NewAccountShownProps {
  readonly account: NewAccount;
  readonly close: () => void;
}

/** The key and the secret of a new account, to hand over. */
export function NewAccountShown({ account, close }: NewAccountShownProps) {
  const { login, key, webhook_secret: secret } = account;
  return (
    <ShownOnce
      title={`The account ${login} has been made`}
      close={close}
      secrets={[
        { what: "login", text: login, hint: "The account signs in here with its key." },
        {
          what: "API key",
          text: key,
          hint: "It is shown only once: nobody can read it again. Nothing was sent, so hand it over yourself.",
        },
        {
          what: "webhook secret",
          text: secret,
          hint: "Receivers check signatures with it. The account also finds it under Keys & secret.",
        },
      ]}
    />
  );
}

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

interface LoginFieldProps {
  readonly login: string;
  readonly change: (login: string) => void;
}

/** The field for the login of a new account. */
export function LoginField({ login, change }: LoginFieldProps) {
  return (
    <label class="field">
      Login
      <input
        value={login}
        required
        autofocus
        autocomplete="off"
        spellcheck={false}
        maxLength={64}
        pattern="[A-Za-z0-9._@+\-]{1,64}"
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
      <span class="hint">1 to 64 letters, digits, or any of . _ @ + -</span>
    </label>
  );
}
