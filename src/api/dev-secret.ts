import { STANDARD_DEV_LOGIN, LOGIN } from "../domain/account/login.ts";
import { WebhookSecret } from "./account.ts";
import { envelope } from "./envelope.ts";
import { withDefault, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Login } from "./value.ts";

/** Replacing the webhook secret of an account for tests, as the operator does elsewhere. */

const Secrets = envelope({
  login: Login,
  webhook_secret: WebhookSecret,
  webhook_secret_next: s.nullable(WebhookSecret, "Signs as well, while the secret is replaced."),
});

export const DEV_SECRET_ANSWERS = {
  "POST /dev/secrets/rotate": Secrets,
  "POST /dev/secrets/finish": Secrets,
};

const ACCOUNT = { login: withDefault(LOGIN, STANDARD_DEV_LOGIN, "Of the account.") };

export const DEV_SECRET_INPUTS = {
  "POST /dev/secrets/rotate": { body: ACCOUNT, isBodyOptional: true },
  "POST /dev/secrets/finish": { body: ACCOUNT, isBodyOptional: true },
} satisfies InputsFor<typeof DEV_SECRET_ANSWERS>;
