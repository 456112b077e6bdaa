import type { IncomingMessage } from "node:http";

import type { H3 } from "h3";

import type { DashboardFile } from "../../assets.ts";
import { StatusError } from "../../domain/status.ts";
import { hostFault, type BrowserPolicy } from "../guard/browser-guard.ts";
import { requireHttps, type GateDeps } from "../guard/gate.ts";
import type { Reply } from "../respond.ts";
import { headerValues } from "../server/raw-headers.ts";
import { fileResponse, redirect, textResponse } from "./page-answer.ts";

export const DASHBOARD_PATH = "/dashboard/";

const ASSETS = `${DASHBOARD_PATH}assets/`;

/** The dashboard's files as they are now; none where they were not built. */
export type PageFiles = () => readonly DashboardFile[];

export interface PageDeps {
  readonly files: PageFiles;
  readonly gate: Pick<GateDeps, "proxies">;
  readonly browsers: BrowserPolicy;
}

export interface PageRequest {
  readonly request: IncomingMessage;
  readonly method: string;
  readonly pathname: string;
  readonly reply: Reply;
}

/**
 * Answers every request below `/dashboard`: its files, and for every other path the page itself, which knows its own
 * paths. It needs no credentials, because nothing in it is private.
 */
export function servePage(page: PageRequest, deps: PageDeps): Response {
  const { request, method, pathname, reply } = page;
  if (method !== "GET" && method !== "HEAD") {
    const allow = ["allow", "GET, HEAD"] as const;
    return textResponse({ status: 405, text: "Pages are only read.", headers: [allow] }, reply);
  }
  const fault = faultOf(request, deps);
  if (fault !== null) return textResponse({ status: 403, text: fault }, reply);
  if (`${pathname}/` === DASHBOARD_PATH) return redirect(308, DASHBOARD_PATH, reply);
  return serveFile(page, deps.files());
}

/** Sends a browser from `/` to the dashboard; null for other clients, for whom nothing is there. */
export function serveRoot({ request, method, reply }: PageRequest): Response | null {
  const isRead = method === "GET" || method === "HEAD";
  const isBrowser = headerValues(request, "accept").some((line) => /\btext\/html\b/i.test(line));
  return isRead && isBrowser ? redirect(302, DASHBOARD_PATH, reply) : null;
}

export function addPages(
  app: H3,
  { page, root }: Readonly<Record<"page" | "root", Parameters<H3["all"]>[1]>>,
): void {
  app.all("/", root);
  app.all("/dashboard", page);
  app.all("/dashboard/**", page);
}

function faultOf(request: IncomingMessage, { gate, browsers }: PageDeps): string | null {
  try {
    requireHttps(request, gate);
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    return "Come over HTTPS: whoever signs in here must not send a key in the clear.";
  }
  return hostFault(request, browsers);
}

const NOT_BUILT =
  "The dashboard is not built: run `npm run build:dashboard`, then load this page again.";

function serveFile(
  { request, pathname, reply }: PageRequest,
  files: readonly DashboardFile[],
): Response {
  const isAsset = pathname.startsWith(ASSETS);
  const wanted = files.find(({ path }) => path === pathname);
  const file = wanted ?? (isAsset ? undefined : files.find(({ path }) => path === DASHBOARD_PATH));
  if (file !== undefined)
    return fileResponse(file, headerValues(request, "accept-encoding"), reply);
  return files.length > 0
    ? textResponse({ status: 404, text: "There is no such file." }, reply)
    : textResponse({ status: 503, text: NOT_BUILT }, reply);
}
