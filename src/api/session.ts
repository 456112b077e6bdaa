import { SESSION_IDLE_MS } from "../domain/account/session.ts";
import { plainText } from "../domain/rule.ts";
import { envelope } from "./envelope.ts";
import { required, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Time } from "./value.ts";

const Session = s.named(
  "Session",
  s.object({
    role: s.word(["account", "operator"]),
    login: s.nullable(s.text("Null is the operator.")),
    expires_at: { ...Time, description: "When it is over at the latest." },
    idle_seconds: s.integer({
      const: SESSION_IDLE_MS / 1000,
      description: "After so long without use it is over.",
    }),
    version: s.text("Of the daemon."),
    time: { ...Time, description: "The daemon's, now." },
  }),
);
export type Session = s.Static<typeof Session>;

const Opened = envelope({ session: Session });
const None: s.Schema<null> = { type: "null" };

export const SESSION_ANSWERS = {
  "POST /v1/session": Opened,
  "POST /v1/session/link": Opened,
  "GET /v1/session": envelope({ session: s.nullable(Session) }),
  "DELETE /v1/session": envelope({ session: None }),
};

// Whatever is shown that can be no credential is refused as one that is not known.
const CREDENTIAL = plainText(200);

export const SESSION_INPUTS = {
  "POST /v1/session": {
    body: {
      login: required(CREDENTIAL, "", { examples: ["alice"] }),
      key: required(CREDENTIAL, "A key of this account."),
    },
  },
  "POST /v1/session/link": {
    body: { token: required(CREDENTIAL, "What stands behind `#link=` in the link.") },
  },
} satisfies InputsFor<typeof SESSION_ANSWERS>;
