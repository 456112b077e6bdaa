/** Where the daemon is, and who asks. */
export interface ClientSettings {
  /** Base URL of the daemon, without `/v1`: `https://tasks.example.com`. */
  readonly url: string | URL;
  /** A key of the account: `pbd_live_…`. */
  readonly key: string;
  /** Sends the requests; the runtime's own unless given. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /**
   * How often a request that is safe to repeat is sent again, after 250 ms, doubling to 10 s, or as the daemon says; 6
   * unless given, which is half a minute at most without the daemon's word.
   */
  readonly retries?: number | undefined;
}

const RETRIES = 6;

/** The settings, checked. */
export interface Access {
  /** Without a slash at its end. */
  readonly base: string;
  /** Null for operations that need no key. */
  readonly authorization: string | null;
  readonly send: typeof globalThis.fetch;
  readonly retries: number;
}

/** Throws a TypeError that says how to fix it, and never shows the key. */
export function readSettings({ key, ...open }: ClientSettings): Access {
  return { ...readOpenSettings(open), authorization: `Bearer ${readKey(key)}` };
}

/** The same for operations that need no key. */
export function readOpenSettings({
  url,
  fetch,
  retries = RETRIES,
}: Omit<ClientSettings, "key">): Access {
  if (!Number.isInteger(retries) || retries < 0) {
    throw new TypeError("The retries have to be a whole number, 0 or more.");
  }
  return {
    base: readBase(url),
    authorization: null,
    // Looked up at each request, and called without an object, as browsers need it.
    send: fetch ?? ((input, init) => globalThis.fetch(input, init)),
    retries,
  };
}

function readBase(url: string | URL): string {
  const parsed = parseUrl(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new TypeError("The url has to be the daemon's, such as https://tasks.example.com.");
  }
  if (parsed.username + parsed.password + parsed.search + parsed.hash !== "") {
    throw new TypeError("The url takes no user, password, query or fragment: give the key as key.");
  }
  return (parsed.origin + parsed.pathname).replace(/\/+$/, "");
}

function parseUrl(url: string | URL): URL | null {
  try {
    return new URL(url);
  } catch {
    // The caller says what is wrong, without what may be a secret in it.
    return null;
  }
}

function readKey(key: unknown): string {
  if (typeof key !== "string" || key === "") {
    throw new TypeError("There is no key: is its environment variable set?");
  }
  // It comes from the end of a file, or is no key at all; as a header it would fail, or be another one.
  if (/[^!-~]/.test(key)) {
    throw new TypeError("The key has white space or other characters that no key has: trim it.");
  }
  return key;
}
