import { FastResponse } from "srvx";

import type { DashboardFile } from "../../assets.ts";
import { addLines, type Reply } from "../respond.ts";

// Scripts and styles come from here alone and nothing comes from elsewhere; no text becomes markup (Trusted Types),
// no form goes anywhere, nobody frames the page.
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

const SECURITY_HEADERS: readonly (readonly [string, string])[] = [
  ["content-security-policy", CONTENT_SECURITY],
  ["x-content-type-options", "nosniff"],
  ["referrer-policy", "no-referrer"],
  ["cross-origin-opener-policy", "same-origin"],
  ["cross-origin-resource-policy", "same-origin"],
  [
    "permissions-policy",
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
  ],
];

/** A file of the dashboard, compressed as the client takes it; `accepted` are its Accept-Encoding headers. */
export function fileResponse(
  file: DashboardFile,
  accepted: readonly string[],
  reply: Reply,
): Response {
  const { body, encoding } = encodedBody(file, accepted);
  const caching = file.isImmutable ? "public, max-age=31536000, immutable" : "no-store";
  const headers = [
    ["content-type", file.type],
    ["cache-control", caching],
    ["vary", "accept-encoding"],
    ...(encoding === null ? [] : [["content-encoding", encoding] as const]),
  ] as const;
  return toResponse({ status: 200, headers, body }, reply);
}

/** A sentence for a person, where there is no page. */
export function textResponse({ status, text, headers = [] }: PageText, reply: Reply): Response {
  const all = [
    ["content-type", "text/plain; charset=utf-8"],
    ["cache-control", "no-store"],
    ...headers,
  ] as const;
  return toResponse({ status, headers: all, body: Buffer.from(`${text}\n`) }, reply);
}

export interface PageText {
  readonly status: number;
  readonly text: string;
  readonly headers?: readonly (readonly [string, string])[];
}

/** Sends a browser to another page of this daemon. */
export function redirect(status: 302 | 308, location: string, reply: Reply): Response {
  const headers = [
    ["location", location],
    ["cache-control", "no-store"],
    ["vary", "accept"],
  ] as const;
  return toResponse({ status, headers, body: new Uint8Array() }, reply);
}

interface PageAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array;
}

function toResponse({ status, headers, body }: PageAnswer, reply: Reply): Response {
  const all: [string, string][] = [...headers, ...SECURITY_HEADERS].map(([name, value]) => [
    name,
    value,
  ]);
  all.push(["x-request-id", reply.requestId], ["content-length", String(body.length)]);
  addLines(all, reply.headers);
  // Anything but a view of its own bytes would be copied.
  return new FastResponse(reply.isHead ? null : (body as Uint8Array<ArrayBuffer>), {
    status,
    headers: all,
  });
}

interface EncodedBody {
  readonly body: Uint8Array;
  readonly encoding: "br" | "gzip" | null;
}

function encodedBody(
  { body, brotli, gzip }: DashboardFile,
  accepted: readonly string[],
): EncodedBody {
  const weights = codingWeights(accepted);
  const candidates = [
    ["br", brotli],
    ["gzip", gzip],
  ] as const;
  for (const [encoding, encoded] of candidates) {
    if (encoded !== null && isAccepted(encoding, weights)) return { body: encoded, encoding };
  }
  return { body, encoding: null };
}

function isAccepted(coding: string, weights: ReadonlyMap<string, number>): boolean {
  return (weights.get(coding) ?? weights.get("*") ?? 0) > 0;
}

// RFC 9110 §12.5.3. The client's preference among several does not matter: the smallest serves it best.
function codingWeights(accepted: readonly string[]): ReadonlyMap<string, number> {
  const elements = accepted.join(",").toLowerCase().split(",");
  return new Map(
    elements.map((element) => {
      const [coding = "", ...parameters] = element.split(";").map((part) => part.trim());
      const quality = parameters.find((parameter) => parameter.startsWith("q="));
      return [coding, quality === undefined ? 1 : Number(quality.slice(2)) || 0];
    }),
  );
}
