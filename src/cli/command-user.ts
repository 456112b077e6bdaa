import { userInfo } from "node:os";

import { systemClock } from "../domain/clock/clock.ts";
import type { AuditEntry } from "../store/store.ts";

// Asked before a command of root acts as the owner of a database: that is not who gave it.
const USER = userName();

/** The name of the user who gave the command; its number where the system knows no name. */
export function commandUser(): string {
  return USER;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run a user that stands in no list.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

/** The entry of the audit about what the user who runs the command does. */
export function byCommand(
  action: AuditEntry["action"],
  subject: string | null,
  details: AuditEntry["details"] = null,
): AuditEntry {
  const actor = { kind: "user", name: commandUser(), address: null } as const;
  return { at: systemClock.now(), actor, action, subject, details };
}
