import { oneOf } from "../rule.ts";

/** The words for what is recorded in the audit. */
export const AUDIT_ACTIONS = [
  "access.approved",
  "access.denied",
  "account.created",
  "account.disabled",
  "account.enabled",
  "account.erased",
  "account.exported",
  "account.limited",
  "delivery.paused",
  "delivery.redelivered",
  "delivery.resumed",
  "key.created",
  "key.revoked",
  "order.placed",
  "secret.finished",
  "secret.rotated",
  "secret.shown",
  "session.link_made",
  "session.opened",
  "session.refused",
  "task.erased",
  "worker.created",
  "worker.revoked",
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** An action, wherever it is written. */
export const AUDIT_ACTION = oneOf(AUDIT_ACTIONS);

/** The operator at the dashboard, an account by a key or a session, a user at the command line, or nobody known. */
export const ACTOR_KINDS = ["operator", "account", "user", "daemon", "nobody"] as const;

/** Who did it. */
export interface Actor {
  readonly kind: (typeof ACTOR_KINDS)[number];
  /** The account's login with its key or session, the name of the user; null where there is none. */
  readonly name: string | null;
  /** The client's address; null for what came by no connection. */
  readonly address: string | null;
}

/** Who did what of consequence, to what, and when. It holds no secret. */
export interface AuditEntry {
  readonly at: number;
  readonly actor: Actor;
  readonly action: AuditAction;
  /** The login, key, task, order or worker; null where the action says it all. */
  readonly subject: string | null;
  /** More facts, by name. */
  readonly details: Readonly<Record<string, string | number | boolean | null>> | null;
}

/** How long entries are kept. */
export const AUDIT_KEPT_MS = 400 * 24 * 3600 * 1000;

/** The most entries that are kept: the oldest go first. */
export const AUDIT_MAX = 1_000_000;
