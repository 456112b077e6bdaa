import type { DaemonFile } from "./daemon-file.ts";
import { createSignInToken, type AdminPlace, type DaemonProcess } from "./daemon-process.ts";

/** The daemon whose dashboard is measured, and its file. */
export interface DashboardPlace {
  readonly file: DaemonFile;
  readonly daemon: DaemonProcess;
}

/** Signs the file's account in; gives the session's cookie, as `name=value`. */
export function signIn(place: DashboardPlace): Promise<string> {
  const { login, key } = place.file.account;
  return openSession(place, { path: "/v1/session", body: { login, key } });
}

/** Signs the operator in; gives the session's cookie. */
export async function signInOperator(
  place: Pick<DashboardPlace, "daemon"> & { readonly file: AdminPlace },
): Promise<string> {
  const token = await createSignInToken(place.file);
  return openSession(place, { path: "/v1/session/link", body: { token } });
}

async function openSession(
  { daemon }: Pick<DashboardPlace, "daemon">,
  { path, body }: { readonly path: string; readonly body: object },
): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${daemon.port}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "sec-fetch-site": "same-origin" },
    body: JSON.stringify(body),
  });
  const [cookie] = response.headers.getSetCookie();
  if (cookie === undefined) throw new Error(`the sign-in was answered with ${response.status}`);
  return cookie.split(";", 1)[0] ?? "";
}

/** The headers with which the page asks. */
export function pageHeaders(cookie: string): Record<string, string> {
  return { cookie, "x-requested-with": "postbackd", "sec-fetch-site": "same-origin" };
}
