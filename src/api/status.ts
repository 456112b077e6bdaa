import { STATUS_WORDS } from "../domain/service-status.ts";
import { envelope } from "./envelope.ts";
import { integer, list, named, nullable, object, text, word } from "./schema.ts";
import { CODE_TABLE, CODES, ERROR_CODES } from "./status-doc.ts";

/** What every refused request is answered. */
export const Refusal = named(
  "Error",
  object(
    { status_code: integer({ enum: ERROR_CODES }), status_message: text() },
    {
      optional: {
        errors: list(
          object({
            pointer: text({ description: "A JSON pointer (RFC 6901) into the request." }),
            detail: text(),
          }),
          { description: "What was found, where there is more to say than the message does." },
        ),
      },
    },
  ),
);

const StatusCode = named(
  "StatusCode",
  object(
    {
      code: integer({ enum: CODES }),
      message: text({
        description: "With NAME and REASON where a field's name and a reason stand.",
      }),
      http: nullable(integer({ description: "Null for codes that stand on tasks only." })),
    },
    { description: `Every code there is.\n\n${CODE_TABLE}` },
  ),
);

const StatusWord = word(STATUS_WORDS);

const StatusComponents = named(
  "StatusComponents",
  object({ api: StatusWord, runners: StatusWord, webhooks: StatusWord }),
);

/** How the service is, in words. */
export const SERVICE_STATUS = { status: StatusWord, components: StatusComponents };

// What else the operator has configured of it is shown too.
const Marketplace = named(
  "Marketplace",
  object({ code: text(), name: text() }, { additionalProperties: true }),
);

export const REFERENCE_ANSWERS = {
  "GET /v1/appendix/marketplaces": envelope({ marketplaces: list(Marketplace) }),
  "GET /v1/appendix/status": envelope(SERVICE_STATUS),
  "GET /v1/appendix/status_codes": envelope({ status_codes: list(StatusCode) }),
};
