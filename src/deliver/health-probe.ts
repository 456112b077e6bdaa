import { request as requestHttp, type IncomingMessage } from "node:http";
import { Agent, request as requestHttps } from "node:https";

import { codeOf } from "../domain/error.ts";
import { CLOSED, connectFailure, tlsFailure } from "./failure.ts";
import { trustContext } from "./trust.ts";

/** The result of a GET. A failure is one of a few fixed phrases. */
export type Probe =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly body: string;
      /** `dev` of a daemon for development. */
      readonly mode: string | null;
    }
  | { readonly kind: "failed"; readonly error: string };

export interface ProbeOptions {
  /** False accepts any certificate: for a daemon on this machine that was found through its own file. */
  readonly isCertificateChecked: boolean;
  /** Ends the probe. */
  readonly signal: AbortSignal;
}

// Our own answers are one line; a longer one comes from some other program.
const BODY_BYTES_MAX = 4096;

/**
 * Sends one GET on a connection of its own to an address of the operator's. No rule for webhooks applies, no redirect
 * is followed, and proxy variables are ignored. The authorities are those of {@link trustContext}.
 * Never rejects.
 */
export function probe(url: URL, options: ProbeOptions): Promise<Probe> {
  const { isCertificateChecked, signal } = options;
  return new Promise((resolve) => {
    const settings = { signal, headers: { accept: "application/json" } };
    const request =
      url.protocol === "https:"
        ? requestHttps(url, { ...settings, agent: newAgent(isCertificateChecked) })
        : requestHttp(url, { ...settings, agent: false });
    let answer: Probe | null = null;
    request.on("response", (response) => {
      collect(response, (body) => {
        const { statusCode: status = 0, headers } = response;
        const mode = headers["x-postbackd-mode"]?.toString() ?? null;
        answer = { kind: "answered", status, body, mode };
        resolve(answer);
        request.destroy();
      });
    });
    request.on("error", (error) => resolve({ kind: "failed", error: reasonOf(error, signal) }));
    // After an answer that broke off: the first result stays.
    request.on("close", () => resolve({ kind: "failed", error: "answer broke off" }));
    request.end();
  });
}

function newAgent(isChecked: boolean): Agent {
  if (!isChecked) return new Agent({ rejectUnauthorized: false });
  return new Agent({ rejectUnauthorized: true, secureContext: trustContext() });
}

/** Calls back once, with the body or its first 4 KiB; not at all for a body that broke off before. */
function collect(response: IncomingMessage, done: (body: string) => void): void {
  const parts: Buffer[] = [];
  let bytes = 0;
  const finish = (): void => done(Buffer.concat(parts).toString("utf8", 0, BODY_BYTES_MAX));
  response.on("data", (part: Buffer) => {
    parts.push(part);
    bytes += part.length;
    if (bytes >= BODY_BYTES_MAX) finish();
  });
  response.on("end", finish);
  response.on("error", () => {
    // The request's "close" reports it.
  });
}

function reasonOf(error: Error, signal: AbortSignal): string {
  if (signal.aborted) return "no answer in time";
  const code = codeOf(error) ?? "";
  if (code.startsWith("HPE_")) return "answer is not valid HTTP";
  if (code === "ECONNRESET") return CLOSED;
  const isTls = /CERT|SSL|TLS|ISSUER|SIGNATURE|ALTNAME/.test(code);
  return isTls ? tlsFailure(error) : connectFailure(error);
}
