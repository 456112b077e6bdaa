import { LOGIN } from "../domain/account/login.ts";
import { number, text } from "./schema.ts";

/** Values in answers about different things. */

export const Time = text({
  format: "date-time",
  description: "RFC 3339 in UTC, with milliseconds.",
});

/** The id of a task, an order or a request for access. */
export const Id = text({ format: "uuid", description: "A lower-case UUIDv7." });

export const Login = text(LOGIN.schema);

export const Share = number({ minimum: 0, maximum: 1 });
