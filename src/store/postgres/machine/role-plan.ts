import type { NodeRole } from "../../cluster.ts";
import type { RoleRow } from "./role-rows.ts";

/** The view of a node of the others when it decides which roles to hold. */
export interface RoleView {
  readonly roles: readonly RoleRow[];
  readonly self: number;
  readonly members: number;
  /** True at the first look after a node has joined. */
  readonly hasGrown: boolean;
  /** It gives its roles to others, if there are any. */
  readonly isResigning: boolean;
  readonly now: number;
  /** False for a while after the database's clock was set: then no role of another is taken for free. */
  readonly isClockTrusted: boolean;
  /** How long a role is left to those who have less than their share. */
  readonly patienceMs: number;
}

/** Which roles a node claims or renews, and which it gives back. */
export interface RolePlan {
  readonly hold: readonly NodeRole[];
  readonly release: readonly NodeRole[];
}

/**
 * Spreads the roles evenly. A node takes free roles up to its share, and more roles if they stay free for some time. It
 * gives back the roles above its share only when a node has joined: a node that is there and takes none must not make
 * roles change hands.
 */
export function planRoles(view: RoleView): RolePlan {
  const { roles, self, members, now, patienceMs } = view;
  const own = roles.filter(({ nodeSeq }) => nodeSeq === self).map(({ name }) => name);
  if (view.isResigning && members > 1) return { hold: [], release: own };
  const share = Math.ceil(roles.length / Math.max(1, members));
  const kept = view.hasGrown ? own.slice(0, share) : own;
  const isFree = ({ nodeSeq, until }: RoleRow): boolean =>
    nodeSeq !== self && until < now && (nodeSeq === null || view.isClockTrusted);
  const free = roles.filter(isFree);
  const taken = free.slice(0, Math.max(0, share - kept.length));
  const leftOver = free.filter((role) => !taken.includes(role) && role.until < now - patienceMs);
  return {
    hold: [...kept, ...[...taken, ...leftOver].map(({ name }) => name)],
    release: own.filter((name) => !kept.includes(name)),
  };
}
