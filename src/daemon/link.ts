import type { Config } from "../config/config.ts";
import { newSignInToken } from "../domain/account/session-secret.ts";
import { SIGN_IN_LINK_MS, signInPath } from "../domain/account/session.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { Store } from "../store/store.ts";
import { findDaemonUrl, toLoopback } from "./health.ts";

/** The part of the composition root that makes links with which the operator signs in at the dashboard. */

/** A link, shown this once. */
export interface SignInLink {
  readonly url: string;
  readonly expiresAt: number;
}

/** Makes a link to the dashboard at a base URL. */
export async function createSignInLink(
  baseUrl: string,
  { store, clock }: { readonly store: Pick<Store, "createSignInLink">; readonly clock: Clock },
): Promise<SignInLink> {
  const { secret, hash } = newSignInToken();
  const expiresAt = clock.now() + SIGN_IN_LINK_MS;
  await store.createSignInLink({ hash, expiresAt });
  return { url: baseUrl + signInPath(secret), expiresAt };
}

/** Where browsers find the dashboard of a daemon that serves at this URL. */
export function dashboardUrl({ publicUrl }: Pick<Config, "publicUrl">, url: string): string {
  return publicUrl ?? toLoopback(new URL(url)).origin;
}

/** Where the dashboard is, and whether a daemon answered there. */
export interface DashboardPlace {
  readonly url: string;
  /** Null where nobody was asked, because the operator says where it is. */
  readonly isServed: boolean | null;
}

/**
 * Where browsers find the dashboard of a database file: at the public URL, else where its daemon answers, else where one
 * would listen. Null when that is not known.
 */
export async function findDashboard(config: Config, clock: Clock): Promise<DashboardPlace | null> {
  if (config.publicUrl !== null) return { url: config.publicUrl, isServed: null };
  const running = await findDaemonUrl(config, clock);
  if (running !== null) return { url: running, isServed: true };
  if (config.port === 0) return null;
  const scheme = config.tls === null ? "http" : "https";
  const host = config.host.includes(":") ? `[${config.host}]` : config.host;
  return { url: dashboardUrl(config, `${scheme}://${host}:${config.port}`), isServed: false };
}
