import { envelope } from "./envelope.ts";
import * as s from "./schema.ts";

/** Signing in at a daemon for development, whose clock may be advanced beyond the end of any session. */
export const DEV_SESSION_ANSWERS = {
  "POST /dev/sign_in_link": envelope({ token: s.text("For `POST /v1/session/link`, once.") }),
};
