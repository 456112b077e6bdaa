import { existsSync } from "node:fs";

import type { Config } from "../config/config.ts";
import { CONNECTION_REFUSED } from "../deliver/failure.ts";
import { type Probe, probe } from "../deliver/service-client.ts";
import { toLoopback } from "../domain/address/address.ts";
import { type Clock, wait, withDeadline } from "../domain/clock/clock.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import { REFERENCE_PATH } from "../http/reference/markup.ts";
import { databaseOf } from "./database-of.ts";

/** Checks whether a daemon accepts tasks. `url` is the requested address; null if no daemon runs. */
export type Health =
  | { readonly kind: "ready"; readonly url: string }
  | { readonly kind: "not ready"; readonly url: string | null; readonly reason: string };

export interface HealthQuestion {
  readonly config: Config;
  readonly clock: Clock;
  /** The base URL; null finds the daemon by its lock, or else where it is configured to listen. */
  readonly url: URL | null;
  /** For everything together. */
  readonly timeoutMs: number;
  /** True to ask again until the daemon is ready or the time is up. */
  readonly isPatient: boolean;
}

const PAUSE_MS = 200;
// With --wait, a daemon that does not respond to one request may respond to the next.
const PATIENT_PROBE_MS = 5_000;

/** Asks `/readyz`, once or until it is ready. Never rejects because of a network or a file. */
export async function askHealth(question: HealthQuestion): Promise<Health> {
  const { clock, timeoutMs, isPatient } = question;
  const endsAt = clock.monotonic() + timeoutMs;
  for (;;) {
    const leftMs = endsAt - clock.monotonic();
    const limitMs = isPatient ? Math.min(leftMs, PATIENT_PROBE_MS) : leftMs;
    const health = await askOnce(question, limitMs);
    // A question that is left no time would only hide the last reason.
    const isLast = !isPatient || endsAt - clock.monotonic() <= 2 * PAUSE_MS;
    if (health.kind === "ready" || isLast) return health;
    await wait(PAUSE_MS, { clock });
  }
}

const FIND_MS = 2_000;

/** The URL, for a browser, at which this machine's daemon of a database responds; null if none does. Never rejects. */
export async function findDaemonUrl(config: Config, clock: Clock): Promise<string | null> {
  const place = findDaemon(config);
  if (typeof place === "string") return null;
  const { origin } = toLoopback(place.url);
  const { answer } = await probeReadyz(origin, { ...place, clock, limitMs: FIND_MS });
  // A daemon that accepts no tasks at present still serves its dashboard.
  const isOurs = answer.kind !== "failed" && readAnswer(answer.body).status !== null;
  return isOurs ? origin : null;
}

async function askOnce(question: HealthQuestion, limitMs: number): Promise<Health> {
  if (question.url !== null) {
    const place = { url: question.url, isCertificateChecked: true, holder: null, isGuess: false };
    return askAt(place, { clock: question.clock, limitMs });
  }
  const found = findDaemon(question.config);
  if (typeof found !== "string") return askAt(found, { clock: question.clock, limitMs });
  const health = await askForDevelopment(question, limitMs);
  return health ?? { kind: "not ready", url: null, reason: found };
}

/** Asks a development daemon, whose lock is elsewhere; null without one, and if `start` serves the configured file. */
async function askForDevelopment(
  { config, clock }: HealthQuestion,
  limitMs: number,
): Promise<Health | null> {
  const text = listenUrl(config);
  if (text === null || config.server !== null || existsSync(config.database)) return null;
  const place = { url: new URL(text), isCertificateChecked: false, holder: null, isGuess: false };
  const { origin } = toLoopback(place.url);
  const { answer } = await probeReadyz(origin, { ...place, clock, limitMs });
  return answer.kind === "answered" && answer.mode === "dev" ? toHealth(origin, answer, "") : null;
}

interface Place {
  readonly url: URL;
  readonly isCertificateChecked: boolean;
  /** The process that serves there, or did; null when only the URL is known. */
  readonly holder: { readonly pid: number; readonly database: string } | null;
  /** True when nothing but the configuration leads there. */
  readonly isGuess: boolean;
}

/** The address at which this machine's daemon of a database serves, or the reason why it does not serve. */
function findDaemon(config: Config): Place | string {
  const { database } = config;
  let holder;
  try {
    holder = databaseOf(config).holder();
  } catch (error) {
    return messageOf(error);
  }
  if (holder === null) return config.server === null ? nobody(config) : guessPlace(config);
  const { pid } = holder;
  if (holder.url === null) {
    return `process ${pid}, the last to open ${database}, does not listen yet or has ended`;
  }
  return {
    url: new URL(holder.url),
    // The lock file proves that the daemon of this machine runs; its certificate names the public host, not the
    // loopback address of this request, and nothing secret is sent.
    isCertificateChecked: false,
    holder: { pid, database },
    isGuess: false,
  };
}

function nobody({ database }: Config): string {
  return `no daemon serves ${database}; start it, or name another file with --db`;
}

/** A daemon whose lock is elsewhere, as in a container, may still be reached where the configuration says. */
function guessPlace(config: Config): Place | string {
  const url = listenUrl(config);
  if (url !== null) {
    return { url: new URL(url), isCertificateChecked: false, holder: null, isGuess: true };
  }
  return (
    `no daemon of ${config.database} holds a lock on this machine, and with port 0 it is not known where one would ` +
    "listen; name it with --url"
  );
}

async function askAt(
  place: Place,
  { clock, limitMs }: { readonly clock: Clock; readonly limitMs: number },
): Promise<Health> {
  const base = toLoopback(place.url);
  const url = base.href.replace(/\/$/, "");
  const { answer, isLate } = await probeReadyz(url, { ...place, clock, limitMs });
  const meaning = answer.kind === "failed" ? meaningOf(answer.error, { ...place, isLate }) : "";
  return toHealth(url, answer, meaning);
}

function toHealth(url: string, answer: Probe, meaning: string): Health {
  const fault = faultOf(answer);
  if (fault === null) return { kind: "ready", url };
  return { kind: "not ready", url, reason: `${url}: ${fault}${meaning}` };
}

/** Asks once; `isLate` when the time was up before an answer came. */
async function probeReadyz(
  url: string,
  how: Pick<Place, "isCertificateChecked"> & { readonly clock: Clock; readonly limitMs: number },
): Promise<{ readonly answer: Probe; readonly isLate: boolean }> {
  const { isCertificateChecked, clock, limitMs } = how;
  return withDeadline(limitMs, { clock }, async (signal) => {
    const answer = await probe(new URL(`${url}/readyz`), { isCertificateChecked, signal });
    return { answer, isLate: signal.aborted };
  });
}

/** Explains the lack of an answer, after the reason. */
function meaningOf(
  error: string,
  { holder, isGuess, isLate }: Pick<Place, "holder" | "isGuess"> & { readonly isLate: boolean },
): string {
  if (isGuess) return NO_LOCK;
  if (holder === null) return "";
  const { pid, database } = holder;
  // A process that no longer listens refuses. One that listens, but has no time or place to answer, lives.
  if (error !== CONNECTION_REFUSED && isAlive(pid)) {
    return `; process ${pid}, which serves ${database}, is busy: a restart would not help`;
  }
  // Unknown: the process may be in another container.
  if (isLate) return "";
  return `; process ${pid}, the last to serve ${database}, is stopping or has ended`;
}

const NO_LOCK =
  "; that is where it is configured to listen, because no daemon of the server holds a lock on this machine: name " +
  "another with --url";

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It is another user's process.
    return codeOf(error) === "EPERM";
  }
}

function faultOf(answer: Probe): string | null {
  if (answer.kind === "failed") return answer.error;
  const { status, reason } = readAnswer(answer.body);
  if (answer.status === 200 && status === "ok") return null;
  if (answer.status === 503 && status === "unavailable") return reason ?? "not ready";
  return `HTTP ${answer.status}, and not what postbackd answers: something else serves there`;
}

function readAnswer(body: string): { readonly status: unknown; readonly reason: string | null } {
  const { status, reason } = { status: null, reason: null, ...parseObject(body) };
  return { status, reason: typeof reason === "string" ? reason : null };
}

function parseObject(body: string): object {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    // It is not JSON, so it is not our daemon.
    return {};
  }
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
  /** Null if no daemon was looked up, because the operator has configured the address. */
  readonly isServed: boolean | null;
}

/** The public URL, else where the daemon responds, else where one would listen. Null if that is not known. */
export async function findDashboard(config: Config, clock: Clock): Promise<DashboardPlace | null> {
  if (config.publicUrl !== null) return { url: config.publicUrl, isServed: null };
  const running = await findDaemonUrl(config, clock);
  if (running !== null) return { url: running, isServed: true };
  const url = listenUrl(config);
  return url === null ? null : { url: dashboardUrl(config, url), isServed: false };
}

/** The URL at which a daemon of this configuration listens; null with port 0, which finds a free one. */
export function listenUrl({
  tls,
  host,
  port,
}: Pick<Config, "tls" | "host" | "port">): string | null {
  if (port === 0) return null;
  const scheme = tls === null ? "http" : "https";
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
