import type { KeyHolder } from "../domain/account/credentials.ts";
import type { Audited } from "./audit.ts";

export interface SessionStore {
  /** Keeps a session; answers `refused` when its key has been revoked or its account disabled meanwhile. */
  createSession(session: NewSession & Audited): Promise<"created" | "refused">;
  /**
   * Finds a session; null for an unknown one, and for one whose key is revoked or whose account is disabled. Reads what
   * is committed now, by whichever process.
   */
  findSession(hash: string): Promise<Session | null>;
  /** Notes when sessions were last used; a time never moves back. */
  touchSessions(uses: readonly SessionUse[]): Promise<void>;
  /** Ends a session; does nothing when there is none. */
  endSession(hash: string): Promise<void>;
  createSignInLink(link: NewSignInLink & Audited): Promise<void>;
  /**
   * Uses up a link and keeps the session that it opens, in the same step; answers `refused` for a link that is unknown,
   * used or expired.
   */
  useSignInLink(
    use: {
      hash: string;
      now: number;
      session: NewSession;
    } & Audited,
  ): Promise<"created" | "refused">;
}

/** A session to keep. The SHA-256 of its secret stands for it. */
export interface NewSession {
  readonly hash: string;
  /** The key that signed in; null for the operator. */
  readonly keyId: string | null;
  readonly createdAt: number;
  /** The most sessions of this key, or of the operator: beyond it the oldest end. */
  readonly sessionsMax: number;
}

/** A session that its key or account has not ended; its times, of the steady clock, are for the domain to judge. */
export interface Session {
  readonly sessionId: number;
  /** Null for the operator. */
  readonly holder: Omit<KeyHolder, "keyRevoked" | "accountDisabled"> | null;
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
