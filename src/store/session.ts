import type { OwnLimits } from "../domain/account/quota.ts";

/** What the store takes and gives about sign-ins of the dashboard; re-exported by store.ts. */

export interface SessionStore {
  /** Keeps a session; `refused` when its key has been revoked or its account disabled meanwhile. */
  createSession(session: NewSession): Promise<"created" | "refused">;
  /**
   * Whose session this is; null for an unknown one, and for one whose key is revoked or whose account is disabled. Reads
   * what is committed now, by whichever process.
   */
  findSession(hash: string): Promise<Session | null>;
  /** Notes when sessions were last used; never back to an earlier time. */
  touchSessions(uses: readonly SessionUse[]): Promise<void>;
  /** Ends a session; nothing when there is none. */
  endSession(hash: string): Promise<void>;
  createSignInLink(link: NewSignInLink): Promise<void>;
  /** Uses a link up and keeps the session that it opens; `refused` for one that is unknown, used or expired. */
  useSignInLink(use: SignInLinkUse): Promise<"created" | "refused">;
}

/** A session to keep. Its secret's SHA-256 stands for it. */
export interface NewSession {
  readonly hash: string;
  /** The key that signed in; null is the operator. */
  readonly keyId: string | null;
  readonly createdAt: number;
  /** Of this key, or of the operator: the oldest beyond it end. */
  readonly sessionsMax: number;
}

/** A session that is not over by its key or account; its times, of the steady clock, are for the domain to judge. */
export interface Session {
  readonly sessionId: number;
  /** Null is the operator. */
  readonly holder: {
    readonly accountId: number;
    readonly login: string;
    readonly keyId: string;
    readonly ownLimits: OwnLimits;
  } | null;
  readonly createdAt: number;
  readonly lastSeenAt: number;
}

export interface SessionUse {
  readonly sessionId: number;
  readonly seenAt: number;
}

/** A link that signs the operator in, once. */
export interface NewSignInLink {
  readonly hash: string;
  readonly expiresAt: number;
}

/** The use of a link: the session is made in the same step. */
export interface SignInLinkUse {
  readonly hash: string;
  readonly now: number;
  readonly session: NewSession;
}
