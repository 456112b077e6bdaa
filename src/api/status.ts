import { STATUS_WORDS } from "../domain/stats/service-status.ts";
import { envelope } from "./envelope.ts";
import * as s from "./schema.ts";
import { CODE_TABLE, CODES, ERROR_CODES } from "./status-doc.ts";

/** The answer to every refused request. */
export const Refusal = s.named(
  "Error",
  s.object(
    { status_code: s.integer({ enum: ERROR_CODES }), status_message: s.text() },
    {
      optional: {
        errors: s.list(
          s.object({
            pointer: s.text("A JSON pointer (RFC 6901) into the request."),
            detail: s.text(),
          }),
          "What was found, where there is more to say than the message does.",
        ),
      },
    },
  ),
);

const StatusCode = s.named(
  "StatusCode",
  s.object(
    {
      code: s.integer({ enum: CODES }),
      message: s.text("With NAME and REASON where a field's name and a reason stand."),
      http: s.nullable(s.integer("Null for codes that only tasks have.")),
    },
    { description: `Every code there is.\n\n${CODE_TABLE}` },
  ),
);

const StatusWord = s.word(STATUS_WORDS);

const StatusComponents = s.named(
  "StatusComponents",
  s.object({ api: StatusWord, runners: StatusWord, webhooks: StatusWord }),
);

/** The state of the service, in words. */
export const SERVICE_STATUS = { status: StatusWord, components: StatusComponents };

// Everything else that the operator has configured of it is shown too.
const Marketplace = s.named(
  "Marketplace",
  s.object({ code: s.text(), name: s.text() }, { additionalProperties: true }),
);

export const REFERENCE_ANSWERS = {
  "GET /v1/appendix/marketplaces": envelope({ marketplaces: s.list(Marketplace) }),
  "GET /v1/appendix/types": envelope({
    types: s.list(s.text(), "Those whose result is their input come first."),
  }),
  "GET /v1/appendix/status": envelope(SERVICE_STATUS),
  "GET /v1/appendix/status_codes": envelope({ status_codes: s.list(StatusCode) }),
};
