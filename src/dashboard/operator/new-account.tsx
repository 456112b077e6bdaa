import type { NewAccount } from "../../api/operator.ts";
import { ShownOnce, ask, openDialog } from "../part/dialog.tsx";
import type { Field } from "../part/form.tsx";
import { call } from "../shell/api.ts";

export const LOGIN_FIELD: Field<"login"> = {
  name: "login",
  label: "Login",
  hint: "1 to 64 letters, digits, or any of . _ @ + -",
  input: { required: true, maxLength: 64, pattern: String.raw`[A-Za-z0-9._@+\-]{1,64}` },
};

export function askNewAccount(reload: () => void): void {
  ask<"login">({
    title: "Make an account",
    verb: "Make the account",
    fields: [LOGIN_FIELD],
    note: <p class="hint">You get its first key and its webhook secret, to hand over.</p>,
    async work({ login }) {
      showNewAccount(await call("POST /v1/operator/accounts", { body: { login } }));
      reload();
      return false;
    },
  });
}

/** Shows the key and the secret of a new account, to hand over. */
export function showNewAccount({ login, key, webhook_secret: secret }: NewAccount): void {
  openDialog(
    <ShownOnce
      title={`The account ${login} has been made`}
      secrets={[
        { what: "login", text: login, hint: "The account signs in here with its key." },
        {
          what: "API key",
          text: key,
          hint: "It is shown only once and cannot be read again. Nothing was sent, so hand it over yourself.",
        },
        {
          what: "webhook secret",
          text: secret,
          hint: "Receivers check signatures with it. The account also finds it under Keys & secret.",
        },
      ]}
    />,
  );
}
