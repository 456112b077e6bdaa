import { toLoopback } from "../address/loopback-url.ts";

/** The pattern of an inbox's name: every login names an inbox. */
export const BOX_PATTERN = "^[A-Za-z0-9._@+-]{1,64}$";

/** The URL at which a daemon for development receives for an inbox, as the daemon itself reaches it. */
export function inboxUrl(daemonUrl: string, box: string): string {
  return `${toLoopback(new URL(daemonUrl)).origin}/inbox/${box}`;
}
