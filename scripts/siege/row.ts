import type { AttackBody, AttackJob, AttackRequest } from "./attack-job.ts";
import type { Target } from "./target.ts";

/** One row of the table: who does what, and how it is measured. */
export interface SiegeRow {
  readonly name: string;
  readonly who: "no key" | "account" | "worker" | "service";
  readonly what: string;
  /** Settings of `limits` that the row needs when it is alone, in TOML. */
  readonly limits?: readonly string[];
  /** Puts into the file what takes too long to post; before the daemon is started for good. */
  readonly fill?: (target: Target) => Promise<void>;
  /** Makes what the attack needs. The daemon serves. */
  readonly prepare: (target: Target) => Promise<AttackJob>;
  /** The webhooks of the other that are measured too. */
  readonly webhooks?: WebhookRule;
  /** Does something in the middle of the attack, and says what came of it. */
  readonly meanwhile?: (target: Target) => Promise<string>;
  /** As `meanwhile`, when the attack is over. */
  readonly after?: (target: Target) => Promise<string>;
}

/** Where the other's webhooks go. */
export interface WebhookRule {
  /** `new`: each to a host of its own; `known`: to hosts that have answered before; `shared`: to the attacker's. */
  readonly to: "new" | "known" | "shared";
  /** The daemon is killed and started again when the attack is under way. */
  readonly isRestarted?: boolean;
}

/** Addresses of attackers: one of somebody without a key; many of an account, as its limits are not to go by address. */
export const NO_KEY_FROM: AttackJob["from"] = ["127.0.0.2"];
export const ACCOUNT_FROM = manyAddresses(3);
export const WORKER_FROM: AttackJob["from"] = ["127.0.0.4"];

function manyAddresses(block: number): AttackJob["from"] {
  const rest = Array.from({ length: 15 }, (_, i) => `127.0.${block}.${i + 2}`);
  return [`127.0.${block}.1`, ...rest];
}

/** A job of a shape, with what most of them have in common. */
export function job(
  target: Target,
  given: Pick<AttackJob, "shape" | "connections" | "request" | "from"> & Partial<AttackJob>,
): AttackJob {
  const { port } = target.daemon;
  return { perSecond: null, pipelined: 1, bodies: [], ...given, port };
}

/** Request line and headers. */
export function head(line: string, secret?: string): string {
  const authorization = secret === undefined ? "" : `\r\nAuthorization: Bearer ${secret}`;
  return `${line} HTTP/1.1\r\nHost: 127.0.0.1${authorization}`;
}

/** A POST of JSON made of one element again and again. */
export function posting(
  path: string,
  { secret, ...body }: AttackBody & { readonly secret?: string },
): AttackRequest {
  return { head: `${head(`POST ${path}`, secret)}\r\nContent-Type: application/json`, body };
}

/** Numbers that are dear to read. */
export const NUMBERS = { start: "[", element: "1e9,", end: "0]" } as const;
export const MIB = 1024 * 1024;
