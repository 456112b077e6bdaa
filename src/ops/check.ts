import { type KeyObject, createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";

import type { Config, ConfigProblem, TlsFiles } from "../config/config.ts";
import {
  PRIVATE_KEY,
  type PemFile,
  TlsFileError,
  certificatesIn,
  pemFault,
  readAuthorities,
  readPem,
} from "../deliver/trust.ts";
import { isLoopbackHost } from "../domain/address/address.ts";
import type { ServerUrl } from "../domain/address/server-url.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import type { Logger } from "../domain/log.ts";
import {
  type CertificateValidity,
  type ConditionFacts,
  decideConditions,
} from "../domain/stats/condition.ts";
import { type TlsPair, checkPair } from "../http/server/listen.ts";
import { type Environment, commandEnvironment, commandProblem } from "../run/program.ts";
import { readServerAddress } from "../store/postgres/machine/server-address.ts";
import { StoreError } from "../store/store.ts";

/** Finds everything that is wrong with files and commands that a valid configuration names. */
export async function inspectConfig(
  config: Config,
  { now, env }: { readonly now: number; readonly env: Environment },
): Promise<{ readonly problems: readonly ConfigProblem[]; readonly warnings: readonly string[] }> {
  const { problems, material } = checkCertificate(config);
  const retention = retentionWarning(config);
  return {
    problems: [...checkServerFiles(config), ...problems, ...checkAuthorities(config)],
    warnings: [
      ...(material === null ? [] : validityFaults(material, now)),
      ...(await missingPrograms(config, env)),
      ...(retention === null ? [] : [`${retention.text}; ${retention.remedy}`]),
    ],
  };
}

/** Reads the certificate and its key as a start does; its problems are the reasons why they cannot be served. */
export function checkCertificate({ tls, sources }: Pick<Config, "tls" | "sources">): {
  readonly problems: readonly ConfigProblem[];
  readonly material: TlsMaterial | null;
} {
  if (tls === null) return { problems: [], material: null };
  const toProblem = (key: string, message: string): ConfigProblem => {
    return { key, source: sources.get(key) ?? "default", message };
  };
  // Each file by itself: reading them as a pair stops at the first fault.
  const unreadable = Object.entries({ tls_cert: tls.cert, tls_key: tls.key }).flatMap(
    ([key, file]) => {
      const fault = readFault(file);
      const message = `${key} names ${file}, which cannot be read (${fault})`;
      return fault === null ? [] : [toProblem(key, message)];
    },
  );
  if (unreadable.length > 0) return { problems: unreadable, material: null };
  try {
    return { problems: [], material: readTlsFiles(tls) };
  } catch (error) {
    if (!(error instanceof TlsFileError)) throw error;
    return { problems: [toProblem("tls_cert", error.message)], material: null };
  }
}

/** Reads the authorities of `webhooks.ca` as a start does, and returns the reason why they cannot be used. */
export function checkAuthorities(config: Config): readonly ConfigProblem[] {
  try {
    readWebhookAuthorities(config);
    return [];
  } catch (error) {
    if (!(error instanceof TlsFileError)) throw error;
    const source = config.sources.get("webhooks.ca") ?? "default";
    return [{ key: "webhooks.ca", source, message: error.message }];
  }
}

/** Reads the TLS files that the URL of PostgreSQL names. Throws an error that names the unreadable file. */
function checkServerFiles({ server, sources }: Config): readonly ConfigProblem[] {
  if (server === null) return [];
  try {
    readServerAddress(server);
    return [];
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const source = sources.get("database") ?? "default";
    return [{ key: "database", source, message: `database: ${error.message}` }];
  }
}

/** A sentence for each type whose command cannot be started from here. `env` is the daemon's environment. */
export async function missingPrograms(
  { types, runTypes }: Config,
  env: Environment,
): Promise<readonly string[]> {
  const warnings: string[] = [];
  for (const type of types.values()) {
    // Another node's program need not be here.
    if (type.kind !== "command" || !runTypes.has(type.name)) continue;
    const place = { cwd: type.cwd, env: commandEnvironment(env, type.env) };
    const problem = await commandProblem(type.command, place);
    if (problem !== null) warnings.push(`tasks of type ${type.name} will fail: ${problem}`);
  }
  return warnings;
}

/** A sentence when tasks are kept for a shorter time than their webhooks may take, and what to do; null otherwise. */
export function retentionWarning({
  retentionMs,
  retentionDays,
  webhooks,
}: Config): { readonly text: string; readonly remedy: string } | null {
  const waitsMs = webhooks.retryAfterMs.reduce((sum, waitMs) => sum + waitMs, 0);
  if (waitsMs < retentionMs) return null;
  return {
    text:
      `retention_days = ${retentionDays} is shorter than the waits of webhooks.retry_after together: a task whose ` +
      "webhook fails is kept until that has ended",
    remedy: "raise retention_days or shorten webhooks.retry_after",
  };
}

function readFault(file: string): string | null {
  try {
    readFileSync(file);
    return null;
  } catch (error) {
    return codeOf(error) ?? "unknown error";
  }
}

/** A certificate with its key, checked, and the facts about it that may be logged. */
export interface TlsMaterial extends TlsPair {
  /** `CN=api.example.com`; empty for the many certificates that have only names. */
  readonly subject: string;
  /** `DNS:api.example.com, IP Address:192.0.2.1`. */
  readonly names: string;
  readonly validFrom: Date;
  readonly validTo: Date;
}

/**
 * Reads a certificate chain and its key. Throws a TlsFileError when a file is missing, cannot be read, is not PEM or is
 * encrypted, and when the two do not belong together. Also returns a certificate that is not yet valid or has expired:
 * see {@link warnOfValidity}.
 */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const certFile = { path: files.cert, name: "tls_cert" };
  const keyFile = { path: files.key, name: "tls_key" };
  const [cert, key] = [readPem(certFile), readPem(keyFile)];
  const chain = certificatesIn(cert, certFile, EXCHANGED);
  const privateKey = parseKey(key, keyFile);
  const [own] = chain;
  if (!own.checkPrivateKey(privateKey)) {
    const index = chain.findIndex((each) => each.checkPrivateKey(privateKey));
    const what =
      index === -1
        ? `does not belong to the certificate in ${files.cert}`
        : `belongs to certificate ${index + 1} in ${files.cert}, which must be the first there`;
    throw pemFault(keyFile, what);
  }
  try {
    checkPair({ cert, key });
  } catch (error) {
    throw pemFault(certFile, `cannot be served with ${files.key}: ${messageOf(error)}`, error);
  }
  return {
    cert,
    key,
    subject: own.subject?.split("\n").join(", ") ?? "",
    names: own.subjectAltName ?? "",
    validFrom: own.validFromDate,
    validTo: own.validToDate,
  };
}

/** The authorities of `webhooks.ca`, as PEM. Throws a TlsFileError if the file cannot be read or holds none. */
export function readWebhookAuthorities({
  webhooks: { ca },
}: Pick<Config, "webhooks">): readonly string[] {
  return ca === null ? [] : readAuthorities({ path: ca, name: "webhooks.ca" });
}

export function warnOfValidity(
  material: TlsMaterial,
  { now, log }: { readonly now: number; readonly log: Logger },
): void {
  const facts = certificateFacts(material);
  for (const fault of validityFaults(material, now)) log.warn(facts, fault);
}

export function certificateFacts({ subject, names, validFrom, validTo }: TlsMaterial) {
  return { subject, names, validFrom: toText(validFrom), expires: toText(validTo) };
}

function validityFaults(material: Dated, now: number): readonly string[] {
  return decideConditions({ now, certificate: validityOf(material) }).flatMap(
    ({ severity, text, remedy }) => (severity === "failed" ? `${text}; ${remedy}` : []),
  );
}

type Dated = Pick<TlsMaterial, "validFrom" | "validTo">;

/** From when to when a certificate is valid; null if its dates cannot be read. */
export function validityOf({ validFrom, validTo }: Dated): CertificateValidity | null {
  const [from, to] = [validFrom.getTime(), validTo.getTime()];
  return Number.isNaN(from) || Number.isNaN(to) ? null : { from, to };
}

const EXCHANGED = ": are tls_cert and tls_key exchanged?";

const ENCRYPTED = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: *4,ENCRYPTED/m;

function parseKey(text: string, file: PemFile): KeyObject {
  if (!PRIVATE_KEY.test(text)) {
    const what = text.includes("-----BEGIN CERTIFICATE-----")
      ? `holds a certificate and no private key${EXCHANGED}`
      : "holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)";
    throw pemFault(file, what);
  }
  if (ENCRYPTED.test(text)) {
    const what =
      "is encrypted, and the daemon has no pass phrase; openssl pkey -in FILE writes it " +
      "without one, and the file must then be readable for this user only";
    throw pemFault(file, what);
  }
  try {
    return createPrivateKey(text);
  } catch (error) {
    throw pemFault(file, "is damaged: its private key cannot be read", error);
  }
}

// A date that cannot be read must not end the daemon.
function toText(date: Date): string {
  return Number.isNaN(date.getTime()) ? "unknown" : date.toISOString();
}

/** Logs every decision of the operator that takes protection away: at every start, each by its name. */
export function warnOfRisks(
  { webhooks, insecureHttp, host, server }: Config,
  { log, env }: { readonly log: Logger; readonly env: NodeJS.ProcessEnv },
): void {
  for (const target of webhooks.allow) {
    log.warn({ target }, "webhooks may go to this target, public or not (webhooks.allow)");
  }
  if (insecureHttp) {
    log.warn(
      { host },
      "plain HTTP is accepted beyond loopback: keys travel readable (insecure_http)",
    );
  }
  if (server !== null) warnOfServer(server, log);
  if (env["NODE_TLS_REJECT_UNAUTHORIZED"] === "0") {
    log.warn(
      {},
      "NODE_TLS_REJECT_UNAUTHORIZED=0 is set: webhooks check certificates nevertheless; " +
        "take it out of the environment, command runners inherit it",
    );
  }
}

function warnOfServer({ hosts, tlsFiles }: ServerUrl, log: Logger): void {
  for (const { host, tls } of hosts) {
    if (host.startsWith("/") || isLoopbackHost(host)) continue;
    if (tls === "disable") {
      log.warn(
        { host },
        "the database is reached without TLS: tasks travel readable (sslmode=disable)",
      );
    }
    if (tls === "require" && tlsFiles.rootCert === null) {
      log.warn(
        { host },
        "the database's certificate is not checked: an attacker in the network can read tasks (sslmode=require)",
      );
    }
  }
}

/** The most files that this process may open; null on a system without /proc. Node raises the soft limit at its start. */
export function openFilesMax(): number | null {
  try {
    const text = readFileSync("/proc/self/limits", "utf8");
    const [, most] = /^Max open files\s+(\d+)/m.exec(text) ?? [];
    return most === undefined ? null : Number(most);
  } catch {
    return null;
  }
}

/** Databases, log, threads, pipes of commands, and the connections beyond the limits: health checks and metrics. */
const OTHER_FILES = 200;

/** The files that the process opens if all of its limits are reached. */
export function filesWanted({ limits, webhooks }: Pick<Config, "limits" | "webhooks">): number {
  return limits.connections + webhooks.maxInFlight + OTHER_FILES;
}

const SHARE_MIN = 1 / 4;

/** Lowers `limits.connections` to the files that may be opened: without a free descriptor no connection is accepted. */
export function fitConnections(
  config: Config,
  { log, filesMax = openFilesMax() }: { readonly log: Logger; readonly filesMax?: number | null },
): Config {
  const { limits, webhooks } = config;
  if (filesMax === null) return config;
  const free = Math.max(0, filesMax - OTHER_FILES);
  const most = Math.max(1, free - webhooks.maxInFlight, Math.floor(free * SHARE_MIN));
  if (limits.connections <= most) return config;
  const wanted = filesWanted(config);
  log.warn(
    { connections: most, configured: limits.connections, open_files: filesMax, wanted },
    "limits.connections is lowered: the process may open too few files (LimitNOFILE, ulimit -n)",
  );
  return { ...config, limits: { ...limits, connections: most } };
}

export interface Finding {
  /** The name of the check: `disk`. Several findings may have the same. */
  readonly check: string;
  readonly verdict: Verdict;
  /** One sentence without a full stop. */
  readonly detail: string;
  /** How to fix it, without a full stop; null if there is no problem. */
  readonly remedy: string | null;
}

/** `skipped` could not be looked at; why stands in the detail. */
export type Verdict = "ok" | "warning" | "failed" | "skipped";

export function sound(check: string, detail: string): Finding {
  return { check, verdict: "ok", detail, remedy: null };
}

export function skipped(check: string, detail: string): Finding {
  return { check, verdict: "skipped", detail, remedy: null };
}

/** Returns the conditions of the facts as findings; without a condition a sound finding with this detail, or nothing. */
export function conditionsOf(
  check: string,
  facts: ConditionFacts,
  detail?: string,
): readonly Finding[] {
  const found = decideConditions(facts).map(({ severity, text, remedy }) => {
    return { check, verdict: severity, detail: text, remedy };
  });
  return found.length > 0 || detail === undefined ? found : [sound(check, detail)];
}

/** The daemon works, but the operator should look at it. */
export function warning(check: string, detail: string, remedy: string): Finding {
  return { check, verdict: "warning", detail, remedy };
}

/** The daemon does not start, or loses or refuses work. */
export function failure(check: string, detail: string, remedy: string): Finding {
  return { check, verdict: "failed", detail, remedy };
}
