/** The URL under which this machine reaches a daemon: of one that listens on every address, on loopback. */
export function toLoopback(url: URL): URL {
  const loopback = LOOPBACK_OF.get(url.hostname);
  if (loopback === undefined) return url;
  const changed = new URL(url);
  changed.hostname = loopback;
  return changed;
}

const LOOPBACK_OF: ReadonlyMap<string, string> = new Map([
  ["0.0.0.0", "127.0.0.1"],
  ["[::]", "[::1]"],
]);
