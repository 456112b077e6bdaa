import { StatusError } from "../domain/status.ts";
import { WAIT_SECONDS } from "../domain/task/task.ts";
import type { Call } from "./operation.ts";

/**
 * How long the client prefers to wait for a finished task: the N of `Prefer: wait=N`, in seconds. Null when it does not
 * say. Other preferences are ignored, as they should be; an N that is out of range is 40000, because an answer that
 * comes too early looks like one that came late.
 */
export function preferredWaitSeconds(call: Pick<Call, "headers">): number | null {
  const [wait] = call.headers("prefer").flatMap(waitsOf);
  if (wait === undefined) return null;
  // The first one counts when there are several (RFC 7240 §2).
  const parsed = WAIT_SECONDS.parse(wait);
  if (parsed.kind === "value") return parsed.value;
  throw new StatusError(40000, { detail: `Prefer: wait takes ${WAIT_SECONDS.takes}.` });
}

/** The values of `wait` in a line of preferences, each of which may have parameters: `name=value; parameter`. */
function waitsOf(line: string): readonly string[] {
  // Quoted text of other preferences may look like a preference of its own.
  const unquoted = line.replaceAll(/"([^"]*)"/g, (_all, text: string) =>
    text.replaceAll(/[,;=]/g, "_"),
  );
  return unquoted.split(",").flatMap((each) => {
    const [preference = ""] = each.split(";");
    const [name = "", ...value] = preference.split("=");
    return name.trim().toLowerCase() === "wait" ? [value.join("=").trim()] : [];
  });
}
