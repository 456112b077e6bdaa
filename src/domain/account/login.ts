import { textRule, type Rule } from "../rule.ts";

/** The login of an account (contract §2), wherever it is written. Logins are compared exactly. */
export const LOGIN: Rule<string, string> = textRule({
  takes: "1 to 64 characters of A-Z a-z 0-9 . _ @ + -",
  hint: "LOGIN",
  schema: { type: "string", pattern: "^[A-Za-z0-9._@+-]{1,64}$" },
  read: (text) => (/^[A-Za-z0-9._@+-]{1,64}$/.test(text) ? text : null),
});

/** The login of an account to make. No path of a URL can name `.` or `..`, which are steps in it. */
export const NEW_LOGIN: Rule<string, string> = textRule({
  ...LOGIN,
  takes: `${LOGIN.takes}, and not a dot or two`,
  read: (text) =>
    text === "." || text === ".." || LOGIN.parse(text).kind === "fault" ? null : text,
});

/** The account that a daemon for development has from the start. */
export const STANDARD_DEV_LOGIN = "dev";
