import type { IncomingMessage } from "node:http";

import { FastResponse } from "srvx";

import type { DashboardFile } from "../assets.ts";
import { StatusError, type ResponseHeaders } from "../domain/status.ts";
import { hostFault, type BrowserPolicy } from "./guard/browser.ts";
import { headerValues } from "./guard/client.ts";
import { requireHttps, type GateDeps } from "./guard/gate.ts";
import { REFERENCE_PATH } from "./reference/markup.ts";
import { type Reply, acceptsCoding, addLines } from "./respond.ts";

export const DASHBOARD_PATH = "/dashboard/";
const ASSETS = `${DASHBOARD_PATH}assets/`;

/** The dashboard's files as they are now; none where they were not built. */
export type PageFiles = () => readonly DashboardFile[];

interface PageDeps {
  readonly files: PageFiles;
  readonly gate: Pick<GateDeps, "proxies">;
  readonly browsers: BrowserPolicy;
}

interface PageRequest {
  readonly request: IncomingMessage;
  readonly method: string;
  readonly pathname: string;
  readonly reply: Reply;
}

/**
 * Serves every request below `/dashboard`: its files, and for every other path the page itself, which has its own
 * paths. It needs no credentials, because nothing in it is private.
 */
export function servePage(page: PageRequest, deps: PageDeps): Response {
  const { request, method, pathname, reply } = page;
  if (!isRead(method)) return textResponse(reply, 405, "Pages are only read.");
  const fault = faultOf(request, deps);
  if (fault !== null) return textResponse(reply, 403, fault);
  if (`${pathname}/` === DASHBOARD_PATH) return redirect(308, DASHBOARD_PATH, reply);
  const files = deps.files();
  if (files.length === 0) return textResponse(reply, 503, NOT_BUILT);
  const wanted = pathname.startsWith(ASSETS) ? [pathname] : [pathname, DASHBOARD_PATH];
  return serveFile(wanted, files, page);
}

/** Serves every request at or below `/docs`. There is nothing to sign in at, so any name and plain HTTP will do. */
export async function serveReference(
  page: PageRequest,
  files: () => Promise<ReturnType<PageFiles>>,
): Promise<Response> {
  const { method, pathname, reply } = page;
  if (!isRead(method)) return textResponse(reply, 405, "Pages are only read.");
  if (pathname === `${REFERENCE_PATH}/`) return redirect(308, REFERENCE_PATH, reply);
  return serveFile([pathname], await files(), page);
}

/** Sends a browser from `/` to a page; null for other clients, for whom nothing is there. */
export function serveRoot({ request, method, reply }: PageRequest, path: string): Response | null {
  const isBrowser = headerValues(request, "accept").some((line) => /\btext\/html\b/i.test(line));
  return isRead(method) && isBrowser ? redirect(303, path, reply) : null;
}

function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

function faultOf(request: IncomingMessage, { gate, browsers }: PageDeps): string | null {
  try {
    requireHttps(request, gate);
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    return "Requires HTTPS: a sign-in here must not send a key in plain text.";
  }
  return hostFault(request, browsers);
}

const NOT_BUILT =
  "The dashboard is not built: run `npm run build:dashboard`, then load this page again.";

/** The first path that has a file. */
function serveFile(
  paths: readonly string[],
  files: readonly DashboardFile[],
  { request, reply }: PageRequest,
): Response {
  const found = paths.map((wanted) => files.find(({ path }) => path === wanted));
  const file = found.find((each) => each !== undefined);
  if (file === undefined) return textResponse(reply, 404, "The file does not exist.");
  const accepts = acceptsCoding(headerValues(request, "accept-encoding"));
  const coded = [["br", file.brotli] as const, ["gzip", file.gzip] as const];
  const [encoding, body] = coded.find(([coding, bytes]) => bytes !== null && accepts(coding)) ?? [];
  const headers = {
    "content-type": file.type,
    "cache-control": file.isImmutable ? "public, max-age=31536000, immutable" : "no-store",
    vary: "accept-encoding",
    ...(encoding !== undefined && { "content-encoding": encoding }),
  };
  return toResponse({ status: 200, headers, body: body ?? file.body }, reply);
}

/** A sentence for a person, if the page does not exist. */
function textResponse(reply: Reply, status: number, text: string): Response {
  const headers = {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
    ...(status === 405 && { allow: "GET, HEAD" }),
  };
  return toResponse({ status, headers, body: Buffer.from(`${text}\n`) }, reply);
}

/** Sends a browser to another page of this daemon. */
function redirect(status: 303 | 308, location: string, reply: Reply): Response {
  const headers = { location, "cache-control": "no-store", vary: "accept" };
  return toResponse({ status, headers, body: new Uint8Array() }, reply);
}

// Scripts and styles come from this origin only and nothing comes from elsewhere; no text becomes markup (Trusted
// Types), no form is sent anywhere, no site frames the page.
const CONTENT_SECURITY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const SECURITY_HEADERS: ResponseHeaders = {
  "content-security-policy": CONTENT_SECURITY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy":
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
};

function toResponse(
  { status, headers, body }: { status: number; headers: ResponseHeaders; body: Uint8Array },
  reply: Reply,
): Response {
  const lines: [string, string][] = [];
  addLines(lines, headers);
  addLines(lines, SECURITY_HEADERS);
  lines.push(["x-request-id", reply.requestId], ["content-length", String(body.length)]);
  addLines(lines, reply.headers);
  // Anything but a view of its own bytes would be copied.
  const sent = reply.isHead ? null : (body as Uint8Array<ArrayBuffer>);
  return new FastResponse(sent, { status, headers: lines });
}
