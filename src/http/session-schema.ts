import { SESSION_IDLE_MS } from "../domain/session.ts";
import { objectSchema, type JsonSchema } from "./json-schema.ts";
import type { AnswerHeaderDoc } from "./operation.ts";

/** What the document says of sessions. */

const TIME: JsonSchema = {
  type: "string",
  format: "date-time",
  description: "RFC 3339 in UTC, with milliseconds.",
};

/** Schemas by name. */
export const SESSION_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  Session: objectSchema({
    role: { type: "string", enum: ["account", "operator"] },
    login: { type: ["string", "null"], description: "Null is the operator." },
    expires_at: { ...TIME, description: "When it is over at the latest." },
    idle_seconds: {
      const: SESSION_IDLE_MS / 1000,
      description: "After so long without use it is over.",
    },
    version: { type: "string", description: "Of the daemon." },
    time: { ...TIME, description: "The daemon's, now." },
  }),
};

/** The header that gives the cookie, or takes it away. */
export const SET_COOKIE: Readonly<Record<string, AnswerHeaderDoc>> = {
  "Set-Cookie": {
    description: "The session's cookie, which scripts cannot read; empty where it is taken away.",
    schema: {
      type: "string",
      pattern:
        "^(__Host-)?postbackd-\\d+=[A-Za-z0-9_-]*; Path=/; Max-Age=\\d+; HttpOnly; (Secure; )?SameSite=Strict$",
    },
    isAlways: true,
  },
};
