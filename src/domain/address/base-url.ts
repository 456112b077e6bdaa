import { isLoopbackHost } from "./loopback.ts";

/** The base URL of a daemon, as its clients are given it. */
export interface BaseUrl {
  readonly url: URL;
  /** It is plain HTTP beyond this machine: whatever is sent can be read on the way. */
  readonly isReadable: boolean;
}

/** Reads a base URL; null for anything with a user, a query or a fragment, and where there is no http or https. */
export function readBaseUrl(text: string): BaseUrl | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const { protocol, hostname } = url;
  const rest = url.username + url.password + url.search + url.hash;
  if (!/^https?:$/.test(protocol) || rest !== "") return null;
  const isReadable = protocol === "http:" && !isLoopbackHost(hostname.replace(/^\[(.*)\]$/, "$1"));
  return { url, isReadable };
}
