import {
  lettersOf,
  type AccessDecision,
  type AccessRequest,
} from "../../domain/account/account.ts";

/** A request for access, as both stores select it. */
export interface AccessRequestRow extends Omit<AccessRequest, "decision"> {
  readonly decision: AccessDecision["kind"] | null;
  readonly decidedAt: number | null;
  readonly login: string | null;
}

/** Takes requests up to the one with which there are more letters than `lettersMax`. */
export function takeRequests(
  rows: Iterable<AccessRequestRow>,
  lettersMax = Number.POSITIVE_INFINITY,
): readonly AccessRequest[] {
  const requests: AccessRequest[] = [];
  let letters = 0;
  for (const row of rows) {
    const request = toAccessRequest(row);
    requests.push(request);
    letters += lettersOf(request);
    if (letters > lettersMax) break;
  }
  return requests;
}

/** A request as the store answers it. */
export function toAccessRequest({
  decision: kind,
  decidedAt,
  login,
  ...request
}: AccessRequestRow): AccessRequest {
  const decision = kind === null || decidedAt === null ? null : { kind, decidedAt, login };
  return { ...request, decision };
}
