import type { AccessRequest as AccessRequestShown } from "../api/operator.ts";
import type { AccessRequest } from "../domain/account/account.ts";
import { mintAccount, type MintedAccount } from "../domain/account/key.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { Undecidable } from "../store/store.ts";
import type { AdminContext, KeyContext } from "./context.ts";

/** Makes the account of a request. Returns `exists` if the login is taken: the request then still waits. */
export async function approveRequest(
  { id, login }: { readonly id: string; readonly login: string },
  { store, now, audit, ids }: KeyContext<"approveAccessRequest">,
): Promise<MintedAccount | "exists" | Undecidable> {
  const minted = mintAccount(login, { createdAt: now, ids });
  const outcome = await store.approveAccessRequest({
    id,
    decidedAt: now,
    account: minted.account,
    audit: audit("access.approved", login, { request: id }),
  });
  return outcome === "approved" ? minted : outcome;
}

export async function denyRequest(
  id: string,
  { store, now, audit }: AdminContext<"denyAccessRequest">,
): Promise<"denied" | Undecidable> {
  return store.denyAccessRequest({ id, decidedAt: now, audit: audit("access.denied", id) });
}

/** Denies all waiting requests that are older than `ageMs`, or all if it is null. Returns how many. */
export async function denyRequests(
  ageMs: number | null,
  { store, now, audit }: AdminContext<"denyAccessRequests">,
): Promise<number> {
  const before = ageMs === null ? null : now - ageMs;
  return store.denyAccessRequests({
    // Without an age also requests from a clock that was ahead.
    madeBefore: before ?? Number.MAX_SAFE_INTEGER,
    decidedAt: now,
    audit: audit("access.denied", null, { made_before: timeOrNull(before) }),
  });
}

export function requestDocument(request: AccessRequest): AccessRequestShown {
  const { id, email, name, company, message, createdAt, decision } = request;
  return {
    id,
    email,
    name,
    company,
    message,
    created_at: timeText(createdAt),
    decision: decision?.kind ?? null,
    decided_at: timeOrNull(decision?.decidedAt ?? null),
  };
}

/** As commands and exports show a request: with the login of its account. */
export function requestRecord(
  request: AccessRequest,
): Omit<AccessRequestShown, "id"> & { readonly request_id: string; readonly login: string | null } {
  const { id, ...fields } = requestDocument(request);
  return { request_id: id, ...fields, login: request.decision?.login ?? null };
}
