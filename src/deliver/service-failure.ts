import { codeOf } from "../domain/error.ts";
import { answerFailure, CLOSED, connectFailure, isTlsFailure, tlsFailure } from "./failure.ts";

/** Says what went wrong with a request to one of the operator's own services, in words that name no address. */

// Codes of the system's own look-up of a name, which webhooks never use.
const LOOKUP_FAILURES: ReadonlyMap<string, string> = new Map([
  ["ENOTFOUND", "name not found"],
  ["EAI_AGAIN", "name server did not answer"],
]);

/**
 * Why a service brought no whole answer; a null error is a connection that closed without one. `hasBegun` is true
 * when the status had come. Bytes that are not HTTP are `malformed`, everything else is `unreachable`.
 */
export function serviceFailure(
  error: unknown,
  { hasBegun }: { readonly hasBegun: boolean },
): { readonly kind: "malformed" | "unreachable"; readonly error: string } {
  const code = codeOf(error) ?? "";
  if (code.startsWith("HPE_")) return { kind: "malformed", error: answerFailure(error) };
  if (hasBegun) return { kind: "unreachable", error: "answer broke off" };
  return { kind: "unreachable", error: LOOKUP_FAILURES.get(code) ?? connectionFailure(error) };
}

function connectionFailure(error: unknown): string {
  const code = codeOf(error) ?? "";
  if (code === "" || code === "ECONNRESET" || code === "EPIPE") return CLOSED;
  if (isTlsFailure(error)) return tlsFailure(error);
  return code.startsWith("ERR_SSL_") ? "TLS failed" : connectFailure(error);
}
