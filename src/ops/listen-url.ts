import type { Config } from "../config/config.ts";

/** The URL at which a daemon of this configuration listens; null with port 0, which finds a free one. */
export function listenUrl({
  tls,
  host,
  port,
}: Pick<Config, "tls" | "host" | "port">): string | null {
  if (port === 0) return null;
  const scheme = tls === null ? "http" : "https";
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
