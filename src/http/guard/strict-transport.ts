import type { ResponseHeaders } from "../../domain/status.ts";
import { headerValues } from "../server/raw-headers.ts";
import { arrivalOf, type ProxyPolicy } from "./client-address.ts";

type Received = Parameters<typeof arrivalOf>[0];

// A year, as scanners and preload lists ask for. Subdomains are left out: they are other people's servers.
const STRICT: ResponseHeaders = { "strict-transport-security": "max-age=31536000" };
const NOTHING: ResponseHeaders = {};

const LOCALHOST = /^(?:.*\.)?localhost(?::\d*)?$/i;

/**
 * The header that makes browsers use HTTPS alone (RFC 6797), for a request that certainly came by HTTPS. Not for
 * localhost: the header counts for all ports of a name, and other programs serve plain HTTP there.
 */
export function strictTransport(request: Received, proxies: ProxyPolicy): ResponseHeaders {
  if (!proxies.servesTls && proxies.trusted.length === 0) return NOTHING;
  if (!arrivalOf(request, proxies).isHttps) return NOTHING;
  const isLocal = headerValues(request, "host").some((host) => LOCALHOST.test(host));
  return isLocal ? NOTHING : STRICT;
}
