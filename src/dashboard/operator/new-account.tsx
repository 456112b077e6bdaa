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
      title={`The account ${login} is there`}
      close={close}
      secrets={[
        { what: "login", text: login, hint: "With the key it signs in here." },
        {
          what: "API key",
          text: key,
          hint: "It is shown this once: nobody can read it again. Nothing was sent: hand it over yourself.",
        },
        {
          what: "webhook secret",
          text: secret,
          hint: "Receivers check signatures with it. The account finds it under Keys & secret too.",
        },
      ]}
    />
  );
}
