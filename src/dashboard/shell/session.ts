import { computed, effect, signal } from "@preact/signals";

import type { AnswerOf, BodyOf } from "../../api/operations.ts";
import type { Session } from "../../api/operator.ts";
import { announce } from "../part/announcer.tsx";
import { ApiError, type CallOptions, call, errorText, isDev, signedOut } from "./api.ts";
import { actsFor } from "./route.ts";

/** The current session; null without one. */
export const session = signal<Session | null>(null);

/** Why the session ended, for the sign-in page; null without a reason. */
export const sessionNote = signal<string | null>(null);

export const isOperator = computed(() => session.value?.role === "operator");

/** The account whose data is shown: the reader's own, or the operator's selection; null means all. */
export const shownAccount = computed(() =>
  isOperator.value ? actsFor.value : (session.value?.login ?? null),
);

const LINK_FRAGMENT = "#link=";

/** Reads the session. Uses a sign-in link in the URL, also a link that is pasted into the open page. */
export async function restoreSession(): Promise<void> {
  effect(() => {
    if (signedOut.value > 0) void renewSession();
  });
  // The browser does not load the page again if only the fragment differs.
  globalThis.addEventListener("hashchange", () => void signInByUrl());
  await signInByUrl();
  if (session.peek() !== null) return;
  try {
    const envelope = await call("GET /v1/session", { account: null });
    session.value = envelope.session;
    if (envelope.session === null && isDev.value) await signInAtDev();
  } catch (error) {
    sessionNote.value = errorText(error);
  }
}

let isRenewing = false;

/** Opens the operator's session again if the daemon is for development; ends every other session. */
async function renewSession(): Promise<void> {
  if (!isDev.peek() || session.peek()?.role !== "operator") {
    endSession("Your session has ended. Please sign in again.");
  } else if (!isRenewing) {
    isRenewing = true;
    await signInAtDev().finally(() => (isRenewing = false));
  }
}

/** Uses the session after the clock was advanced; opens it again if that was beyond its end. */
export async function keepSession(): Promise<void> {
  const envelope = await call("GET /v1/session", { account: null });
  if (envelope.session === null) await renewSession();
}

/** Its clock may have been advanced beyond the end of any session, and who reaches it controls it anyway. */
async function signInAtDev(): Promise<void> {
  try {
    const { token } = await call("POST /dev/sign_in_link", { account: null });
    await openByLink(token);
  } catch (error) {
    endSession(errorText(error));
  }
}

/** Signs in by the link in the URL, if the URL has one. */
async function signInByUrl(): Promise<void> {
  const { hash, pathname, search } = globalThis.location;
  if (!hash.startsWith(LINK_FRAGMENT)) return;
  const token = hash.slice(LINK_FRAGMENT.length);
  // Removed from the address bar and the history, whether it works or not.
  history.replaceState(null, "", pathname + search);
  try {
    await openByLink(token);
  } catch (error) {
    const hint = "Make a new one with: postbackd admin link";
    const note = `This sign-in link does not work: ${errorText(error)} ${hint}`;
    if (session.peek() === null) sessionNote.value = note;
    else announce(note, { isProblem: true });
  }
}

async function openByLink(token: string): Promise<void> {
  await open(call("POST /v1/session/link", { body: { token }, account: null }));
}

/** Signs an account in. Throws an ApiError. */
export async function signIn(credentials: BodyOf<"POST /v1/session">): Promise<void> {
  await open(call("POST /v1/session", { body: credentials, account: null }));
}

async function open(opened: Promise<AnswerOf<"POST /v1/session">>): Promise<void> {
  const envelope = await opened;
  sessionNote.value = null;
  session.value = envelope.session;
}

export async function signOut(): Promise<void> {
  try {
    await call("DELETE /v1/session", { account: null });
  } finally {
    endSession(null);
  }
}

function endSession(note: string | null): void {
  if (session.peek() === null) return;
  session.value = null;
  sessionNote.value = note;
}

const TIMELINE = "GET /v1/tasks/timeline/:id";

/** The reader's time zone, by its name in the IANA database. */
export function timeZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Reads the timeline of a task, with the times in its sentences in the reader's time zone. */
export async function timelineInZone(options: CallOptions<typeof TIMELINE>) {
  try {
    return await call(TIMELINE, { ...options, query: { time_zone: timeZone() } });
  } catch (error) {
    // A browser may know a zone that is newer than the daemon: then the times are in UTC, and say so.
    if (!(error instanceof ApiError) || error.code !== 40000) throw error;
    return call(TIMELINE, options);
  }
}
