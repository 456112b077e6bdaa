/** Names of session cookies of clusters, by URL. Other names contain the port. */
const shared = new Map<string, string>();

export function nameSessions(url: string, scope: string): void {
  shared.set(url, `postbackd-${scope}`);
}

/** Must be called before the port is free for another daemon. */
export function forgetSessions(url: string): void {
  shared.delete(url);
}

/** The name of a daemon's session cookie over HTTP. */
export function sessionName(url: string): string {
  return shared.get(url) ?? `postbackd-${new URL(url).port}`;
}
