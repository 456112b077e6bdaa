import type { Audited, AuditEntry, Store } from "../store.ts";

type Effect<Name extends keyof Store> = Store[Name] extends (
  args: infer Args,
) => Promise<infer Value>
  ? (value: Value, args: Args) => boolean
  : never;

const always = (): boolean => true;

/** The writes that may bring an entry of the audit along, each with whether it took effect. */
const EFFECTS = {
  createAccount: (outcome) => outcome === "created",
  changeLimits: (limits) => limits !== null,
  setAccountDisabled: (account, { disabledAt }) => account?.disabledAt === disabledAt,
  eraseAccountPart: ({ kind }) => kind === "done",
  createKey: (outcome) => outcome === "created",
  revokeKey: (key, { revokedAt }) => key?.revokedAt === revokedAt,
  rotateSecret: (outcome) => outcome === "rotating",
  finishRotation: (outcome) => outcome === "finished",
  approveAccessRequest: (outcome) => outcome === "approved",
  denyAccessRequest: (outcome) => outcome === "denied",
  denyAccessRequests: (count) => count > 0,
  createSession: (outcome) => outcome === "created",
  createSignInLink: always,
  useSignInLink: (outcome) => outcome === "created",
  createWorker: (outcome) => outcome === "created",
  revokeWorker: (worker, { revokedAt }) => worker?.revokedAt === revokedAt,
  redeliver: (lanes) => lanes.length > 0,
  orderRedelivery: (order) => order !== "busy",
  eraseTask: (outcome) => outcome === "erased",
  pauseDeliveries: (outcome) => outcome === "paused",
  resumeDeliveries: (isResumed) => isResumed,
} satisfies { readonly [Name in keyof Store]?: Effect<Name> };

const EFFECT_OF: Readonly<Record<string, ((value: never, args: never) => boolean) | undefined>> =
  EFFECTS;

/** The entry that this operation brought along; null where it brought none, or took no effect. */
export function entryOf(
  name: string,
  { args, value }: { readonly args: unknown; readonly value: unknown },
): AuditEntry | null {
  const tookEffect = EFFECT_OF[name];
  if (tookEffect === undefined) return null;
  // Every write of the table takes an object, and is judged by what it itself was given and answered.
  const { audit } = args as Audited;
  return audit !== undefined && tookEffect(value as never, args as never) ? audit : null;
}

/** The names of the writes that {@link entryOf} knows. */
export const AUDITED_WRITES = Object.keys(EFFECTS);

export interface AuditRow {
  readonly at: number;
  readonly actorKind: AuditEntry["actor"]["kind"];
  readonly actorName: string | null;
  readonly address: string | null;
  readonly action: AuditEntry["action"];
  readonly subject: string | null;
  readonly detailsText: string | null;
}

export function toAuditRow({ at, actor, action, subject, details }: AuditEntry): AuditRow {
  const { kind: actorKind, name: actorName, address } = actor;
  const detailsText = details === null ? null : JSON.stringify(details);
  return { at, actorKind, actorName, address, action, subject, detailsText };
}

export function toAuditEntry<Row extends AuditRow & { readonly seq: number }>(row: Row) {
  const { seq, at, actorKind, actorName, address, action, subject, detailsText } = row;
  // It was written from such an object.
  const details = detailsText === null ? null : (JSON.parse(detailsText) as AuditEntry["details"]);
  return {
    seq,
    at,
    actor: { kind: actorKind, name: actorName, address },
    action,
    subject,
    details,
  };
}
