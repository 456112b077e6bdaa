import { readFileSync } from "node:fs";

import type { Config, ConfigProblem } from "../config/config.ts";
import { TlsFileError } from "../deliver/pem-file.ts";
import { codeOf } from "../domain/error.ts";
import { commandEnvironment, commandProblem } from "../run/program.ts";
import type { Environment } from "../run/program.ts";
import { readServerAddress } from "../store/postgres/machine/server-address.ts";
import { StoreError } from "../store/store.ts";
import { readTlsFiles, readWebhookAuthorities, validityFaults } from "./tls.ts";

/** Finds everything that is wrong with files and commands that a valid configuration names. */
export async function inspectConfig(
  config: Config,
  { now, env }: { readonly now: number; readonly env: Environment },
): Promise<{ readonly problems: readonly ConfigProblem[]; readonly warnings: readonly string[] }> {
  const { problems, warnings } = checkCertificate(config, now);
  const retention = retentionWarning(config);
  return {
    problems: [...checkServerFiles(config), ...problems, ...checkAuthorities(config)],
    warnings: [
      ...warnings,
      ...(await missingPrograms(config, env)),
      ...(retention === null ? [] : [`${retention.text}; ${retention.remedy}`]),
    ],
  };
}

/**
 * Reads the certificate and its key as a start does. Tells the reasons why they cannot be served, and those why clients
 * refuse them `now`.
 */
export function checkCertificate(
  { tls, sources }: Config,
  now: number,
): { readonly problems: readonly ConfigProblem[]; readonly warnings: readonly string[] } {
  if (tls === null) return { problems: [], warnings: [] };
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
  if (unreadable.length > 0) return { problems: unreadable, warnings: [] };
  try {
    return { problems: [], warnings: validityFaults(readTlsFiles(tls), now) };
  } catch (error) {
    if (!(error instanceof TlsFileError)) throw error;
    return { problems: [toProblem("tls_cert", error.message)], warnings: [] };
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

/** Reads the TLS files that the URL of the database's server names, and tells the one that cannot be read. */
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

/**
 * A sentence for each type whose tasks would all fail because the program of its command cannot be started from here.
 * `env` is the daemon's environment.
 */
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
