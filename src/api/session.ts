import { SESSION_IDLE_MS } from "../domain/session.ts";
import { envelope } from "./envelope.ts";
import {
  integer,
  named,
  nullable,
  object,
  text,
  word,
  type Schema,
  type Static,
} from "./schema.ts";
import { Time } from "./value.ts";

const Session = named(
  "Session",
  object({
    role: word(["account", "operator"]),
    login: nullable(text({ description: "Null is the operator." })),
    expires_at: { ...Time, description: "When it is over at the latest." },
    idle_seconds: integer({
      const: SESSION_IDLE_MS / 1000,
      description: "After so long without use it is over.",
    }),
    version: text({ description: "Of the daemon." }),
    time: { ...Time, description: "The daemon's, now." },
  }),
);
export type Session = Static<typeof Session>;

const Opened = envelope({ session: Session });
const None: Schema<null> = { type: "null" };

export const SESSION_ANSWERS = {
  "POST /v1/session": Opened,
  "POST /v1/session/link": Opened,
  "GET /v1/session": envelope({ session: nullable(Session) }),
  "DELETE /v1/session": envelope({ session: None }),
};
