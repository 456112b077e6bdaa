import { plainText } from "../rule.ts";

/** The lanes that a pause covers. */
export interface PauseScope {
  /** Null covers all accounts. */
  readonly accountId: number | null;
  /** Null covers all hosts. */
  readonly host: string | null;
}

/** No attempt starts in a lane that it covers. It uses up no retries: due retries run after the resume. */
export interface DeliveryPause extends PauseScope {
  /** The account's login; null if it covers all accounts. */
  readonly login: string | null;
  readonly since: number;
  readonly reason: string | null;
  readonly pausedBy: string;
}

/** Every node reads all pauses each second. */
export const PAUSES_MAX = 1000;

export const PAUSE_REASON = plainText(200);

/** A text that is equal for equal scopes. */
export function scopeKey({ accountId, host }: PauseScope): string {
  return `${accountId ?? ""} ${host ?? ""}`;
}

/** The scopes that cover a lane, the widest first. */
export function scopesOf({ accountId, host }: { accountId: number; host: string }): PauseScope[] {
  return [
    { accountId: null, host: null },
    { accountId: null, host },
    { accountId, host: null },
    { accountId, host },
  ];
}

/** The oldest pause that covers the webhooks; null if none does. A null login stands for all accounts. */
export function pauseOf(
  pauses: readonly DeliveryPause[],
  of: { readonly login: string | null; readonly host: string },
): DeliveryPause | null {
  // A URL has an IPv6 address in brackets.
  const bare = of.host.replace(/^\[(.*)\]$/, "$1");
  const covers = ({ login, host }: DeliveryPause): boolean =>
    (login === null || login === of.login) && (host === null || host === bare);
  return pauses.find(covers) ?? null;
}

/** The pause of all webhooks; null without it. */
export function pauseOfAll(pauses: readonly DeliveryPause[]): DeliveryPause | null {
  return pauses.find(({ accountId, host }) => accountId === null && host === null) ?? null;
}

export function scopeText({ login, host }: Pick<DeliveryPause, "login" | "host">): string {
  if (login === null && host === null) return "all webhooks";
  const of = login === null ? "" : ` of ${login}`;
  return `webhooks${of}${host === null ? "" : ` to ${host}`}`;
}
