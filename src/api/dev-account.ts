import { NEW_LOGIN } from "../domain/account/login.ts";
import { WholeKey, WebhookSecret } from "./account.ts";
import { envelope } from "./envelope.ts";
import { optional, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Login } from "./value.ts";

/** Accounts for tests (contract §9). */

export const DEV_ACCOUNT_ANSWERS = {
  "POST /dev/accounts": envelope({
    login: Login,
    key: WholeKey,
    webhook_secret: WebhookSecret,
    inbox_url: s.text("A receiver of this daemon, with the login as its box."),
  }),
};

export const DEV_ACCOUNT_INPUTS = {
  "POST /dev/accounts": {
    body: { login: optional(NEW_LOGIN, "One of its own unless given.") },
    isBodyOptional: true,
  },
} satisfies InputsFor<typeof DEV_ACCOUNT_ANSWERS>;
