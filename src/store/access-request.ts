import type { AccessRequest, AccessRequestFields } from "../domain/account/account.ts";
import type { NewAccount } from "./account.ts";
import type { Audited } from "./audit.ts";

export interface AccessRequestStore {
  /**
   * Keeps a request unless `pendingMax` others wait for a decision already. The oldest of them is erased for it if it
   * has waited for a day.
   */
  insertAccessRequest(request: NewAccessRequest): Promise<"stored" | "limit reached">;
  /**
   * Lists requests, oldest first: those that wait, or all. At most `limit`, and none after the one that exceeds
   * `lettersMax`.
   */
  listAccessRequests(query: {
    which: "pending" | "all";
    limit: number;
    lettersMax?: number;
  }): Promise<readonly AccessRequest[]>;
  /** Finds the request that was approved by making this account; null for none. It looks through all requests. */
  findApprovedRequest(accountId: number): Promise<AccessRequest | null>;
  /** Counts the requests that wait for a decision, up to `max`. */
  countPendingRequests(max: number): Promise<number>;
  /** Makes the account and decides the request, both or neither. */
  approveAccessRequest(
    approval: AccessApproval & Audited,
  ): Promise<"approved" | "exists" | Undecidable>;
  denyAccessRequest(
    denial: { id: string; decidedAt: number } & Audited,
  ): Promise<"denied" | Undecidable>;
  /** Denies all requests that wait and were made before a time. Returns how many. */
  denyAccessRequests(denial: { madeBefore: number; decidedAt: number } & Audited): Promise<number>;
}

export interface NewAccessRequest {
  readonly id: string;
  readonly fields: AccessRequestFields;
  readonly createdAt: number;
  readonly pendingMax: number;
}

export interface AccessApproval {
  readonly id: string;
  readonly decidedAt: number;
  readonly account: NewAccount;
}

/** Why a request cannot be decided: there is none with this id, or it has been decided before. */
export type Undecidable = "unknown" | "decided";
