import type { Config } from "../config/config.ts";
import { SIGN_IN_LINK_MS, signInPath } from "../domain/account/account.ts";
import { newSignInToken } from "../domain/account/credentials.ts";
import { toLoopback } from "../domain/address/host-name.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { REFERENCE_PATH } from "../http/reference/reference-files.ts";
import type { AuditEntry, Store } from "../store/store.ts";
import { findDaemonUrl } from "./health.ts";
import { listenUrl } from "./listen-url.ts";

/** Makes a link to the dashboard at a base URL, shown only this once. */
export async function createSignInLink(
  baseUrl: string,
  {
    store,
    clock,
    audit,
  }: {
    readonly store: Pick<Store, "createSignInLink">;
    readonly clock: Clock;
    readonly audit: AuditEntry;
  },
): Promise<{ readonly url: string; readonly expiresAt: number }> {
  const { secret, hash } = newSignInToken();
  const expiresAt = clock.now() + SIGN_IN_LINK_MS;
  await store.createSignInLink({ hash, expiresAt, audit });
  return { url: baseUrl + signInPath(secret), expiresAt };
}

/** The address of the dashboard in a browser, for a daemon that serves at this URL. */
export function dashboardUrl({ publicUrl }: Pick<Config, "publicUrl">, url: string): string {
  return publicUrl ?? toLoopback(new URL(url)).origin;
}

/** The address of the API's reference in a browser, for the same daemon. */
export function referenceUrl(config: Pick<Config, "publicUrl">, url: string): string {
  return dashboardUrl(config, url) + REFERENCE_PATH;
}

/** The place of the dashboard, and whether a daemon answered there. */
export interface DashboardPlace {
  readonly url: string;
  /** Null when nobody was asked, because the operator has configured the place. */
  readonly isServed: boolean | null;
}

/**
 * Finds the address of a database's dashboard in a browser: the public URL, else the place where its daemon
 * answers, else where one would listen. Null when that is not known.
 */
export async function findDashboard(config: Config, clock: Clock): Promise<DashboardPlace | null> {
  if (config.publicUrl !== null) return { url: config.publicUrl, isServed: null };
  const running = await findDaemonUrl(config, clock);
  if (running !== null) return { url: running, isServed: true };
  const url = listenUrl(config);
  return url === null ? null : { url: dashboardUrl(config, url), isServed: false };
}
