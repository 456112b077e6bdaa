import { SIGN_IN_LINK_MS, signInPath } from "../domain/account/account.ts";
import { newSignInToken } from "../domain/account/credentials.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { AuditEntry, Store } from "../store/store.ts";

/** A link that signs the operator in, once. It cannot be shown again. */
export interface SignInLink {
  readonly token: string;
  /** Its path below the address of the dashboard. */
  readonly path: string;
  readonly expiresAt: number;
}

export async function createSignInLink({
  store,
  clock,
  audit,
}: {
  readonly store: Pick<Store, "createSignInLink">;
  readonly clock: Pick<Clock, "now">;
  readonly audit: AuditEntry;
}): Promise<SignInLink> {
  const { secret: token, hash } = newSignInToken();
  const expiresAt = clock.now() + SIGN_IN_LINK_MS;
  await store.createSignInLink({ hash, expiresAt, audit });
  return { token, path: signInPath(token), expiresAt };
}
