/** Names of the cookies of daemons that share a server, by the URL that they are reached at; of others the port is in it. */
const shared = new Map<string, string>();

export function nameSessions(url: string, scope: string): void {
  shared.set(url, `postbackd-${scope}`);
}

/** To be called before the port is free: the next one there is somebody else. */
export function forgetSessions(url: string): void {
  shared.delete(url);
}

/** The name of the cookie of a daemon's sessions, over plain HTTP. */
export function sessionName(url: string): string {
  return shared.get(url) ?? `postbackd-${new URL(url).port}`;
}
