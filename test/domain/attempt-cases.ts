import {
  COMMAND_LINE_READER,
  type DeliveryCircumstances,
} from "../../src/domain/webhook/delivery-explanation.ts";
import type { Attempt } from "../../src/domain/webhook/delivery.ts";

export const T0 = Date.parse("2026-11-21T14:02:11.000Z");
export const HOOK = "https://hooks.corp/in/secret-path?token=hidden";
/** Neither a pause nor a disabled account. */
export const SENDING: DeliveryCircumstances = {
  ...{ now: T0, reader: COMMAND_LINE_READER, pause: null },
  account: { login: "ada", disabledAt: null },
};

const NONE = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };

export const SCHEDULED: Attempt = {
  ...{ number: 1, dueAt: T0, startedAt: null, endedAt: null, outcome: null, httpStatus: null },
  ...{ error: null, address: null, phases: NONE, responseExcerpt: null, refusal: null },
  retryAfter: null,
};

/** An attempt that took 120 ms and ended at {@link T0}. */
export function ended(facts: Partial<Attempt>): Attempt {
  return { ...SCHEDULED, dueAt: T0 - 130, startedAt: T0 - 120, endedAt: T0, ...facts };
}

const FULL = { dnsMs: 3.2, connectMs: 10, tlsMs: 25.5, firstByteMs: 80 };
const RESPONDED = { outcome: "failed", address: "203.0.114.7", phases: FULL } as const;

export const FAILED = ended({ ...RESPONDED, httpStatus: 500, error: "status is not 2xx" });

/** An attempt that was refused by a rule, for these addresses of the host. */
export function refused(rule: string, ...addresses: readonly string[]): Attempt {
  const refusal = { host: "hooks.corp", addresses, rule };
  return ended({ outcome: "refused", error: "the URL is refused", refusal });
}

export const PRIVATE = refused("private-use (RFC 1918)", "10.1.2.3");

/** Attempts by what happened to them. */
export const ATTEMPTS: Readonly<Record<string, Attempt>> = {
  "status 204": ended({ ...RESPONDED, outcome: "delivered", httpStatus: 204 }),
  "status 200 on a kept connection": ended({
    ...{ outcome: "delivered", httpStatus: 200, address: "2001:db8::1" },
    phases: { ...NONE, firstByteMs: 4 },
  }),
  "status 503": ended({ ...RESPONDED, httpStatus: 503, error: "status is not 2xx" }),
  "status 429 with Retry-After": ended({
    ...{ ...RESPONDED, httpStatus: 429, error: "status is not 2xx", retryAfter: "120" },
  }),
  "status 301": ended({ ...RESPONDED, httpStatus: 301, error: "redirects are not followed" }),
  "status 101": ended({ ...RESPONDED, httpStatus: 101, error: "receiver switched protocols" }),
  "name not found": ended({
    ...{ outcome: "failed", error: "name not found", phases: { ...NONE, dnsMs: 118 } },
  }),
  "an error of a later version": ended({
    ...{ outcome: "failed", error: "some phrase of a later version", address: "203.0.114.7" },
  }),
  timeout: ended({
    ...{
      outcome: "timed_out",
      error: "timed out waiting for the response",
      startedAt: T0 - 10_004,
    },
    ...{ address: "203.0.114.7", phases: { ...NONE, dnsMs: 1900, connectMs: 12, tlsMs: 30 } },
  }),
  "refused address": PRIVATE,
  "two of four addresses refused": refused(
    ...(["private-use (RFC 1918)", "8.8.8.8", "10.1.2.3", "::1", "8.8.4.4"] as const),
  ),
  "address of this machine": refused("address of this machine", "8.8.8.8"),
  "local name": refused("local name (.corp, RFC 6762)"),
  "address with a zone": refused("scoped by a zone (RFC 4007)", "fe80::1%eth0"),
  interrupted: ended({
    ...{ outcome: "interrupted", error: "the daemon stopped during the attempt" },
  }),
  "due in five minutes": { ...SCHEDULED, number: 3, dueAt: T0 + 300_000 },
  "due now": SCHEDULED,
  "in flight for 2.5 s": { ...SCHEDULED, startedAt: T0 - 2500 },
  "in flight for a minute": { ...SCHEDULED, startedAt: T0 - 60_000 },
};
