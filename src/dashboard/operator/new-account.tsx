import type { NewAccount } from "../../api/operator.ts";
import { ShownOnce } from "../part/shown-once.tsx";

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
