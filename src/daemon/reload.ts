import { isDeepStrictEqual } from "node:util";

import { type Config, SETTING_LIST, type TypeConfig } from "../config/config.ts";
import { typeKey } from "../config/shown-setting.ts";
import { allowsEntry } from "../domain/address/allow-list.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { messageOf } from "../domain/error.ts";
import type { Logger } from "../domain/log.ts";
import type { HttpServer } from "../http/server/server.ts";
import { certificateFacts, readTlsFiles, type TlsMaterial, warnOfValidity } from "../ops/check.ts";
import type { Database } from "../ops/database.ts";

export type SetLevel = (level: Config["log"]["level"]) => void;

export interface ReloadParts {
  /** Changed by the reload: its callers use the next configuration from then on. */
  readonly inForce: ConfigInForce;
  readonly database: Pick<Database, "reload">;
  readonly server: Pick<HttpServer, "reloadTls">;
  readonly reloadTypes: (next: Config) => readonly string[];
  /** The certificate that is served; null without one. */
  readonly certificate: { served: TlsMaterial | null };
  /** The target of the operator's events from now on. */
  readonly aimEvents: (target: Config["events"]) => void;
  readonly setLevel: SetLevel;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Makes `Daemon.reload`; without `setLevel` the level of the log stays. */
export function reloader(
  parts: Omit<ReloadParts, "setLevel">,
): (next: Config, setLevel?: SetLevel) => void {
  return (next, setLevel = () => {}) => takeOver(next, { ...parts, setLevel });
}

/** Changes nothing if the file has lost all settings: most likely another program is writing it at this moment. */
function takeOver(next: Config, parts: ReloadParts): void {
  const { inForce, database, log } = parts;
  if (isFileUsed(inForce.config) && !isFileUsed(next)) {
    const { file } = inForce.config;
    log.error(
      { file },
      `${NOT_RELOADED}: the file has no settings any more; write it, then reload`,
    );
    return;
  }
  parts.setLevel(next.log.level);
  database.reload(next);
  const removed = inForce.config.webhooks.allow.filter(
    (each) => !allowsEntry(next.webhooks.allowList, each),
  );
  if (removed.length > 0) log.warn({ removed }, TARGETS_REMOVED);
  const types = parts.reloadTypes(next);
  const isTlsServed = serveCertificate(next, parts);
  inForce.config = takenOver(inForce.config, next, isTlsServed);
  inForce.restartNeeds = restartNeeds(inForce.config, next);
  parts.aimEvents(next.events);
  const facts = { types, targets: next.webhooks.allow, log_level: next.log.level };
  log.info(facts, "configuration reloaded");
  const settings = inForce.restartNeeds;
  if (settings.length > 0) log.warn({ settings }, "these changes take a restart");
}

export const NOT_RELOADED = "configuration not reloaded; the old one stays in use";

const TARGETS_REMOVED =
  "due webhooks to targets that were removed from webhooks.allow are refused, without a retry; 'postbackd admin delivery " +
  "redeliver' sends them again once the targets are back";

function isFileUsed({ sources }: Config): boolean {
  return [...sources.values()].some((source) => source.startsWith("file "));
}

/** Reads the files again and serves new connections with them. If that fails, logs so, and the old certificate stays. */
function serveCertificate(
  { tls }: Config,
  { inForce, server, certificate, clock, log }: ReloadParts,
): boolean {
  if (inForce.config.tls === null || tls === null) return false;
  try {
    const material = readTlsFiles(tls);
    server.reloadTls(material);
    const { subject, names, expires } = certificateFacts(material);
    const facts = { file: tls.cert, subject, names, expires };
    log.info(facts, "certificate reloaded; new connections are served with it");
    warnOfValidity(material, { now: clock.now(), log });
    certificate.served = material;
    return true;
  } catch (error) {
    log.error({ reason: messageOf(error) }, "certificate not reloaded; the old one stays in use");
    return false;
  }
}

/** The settings of the certificate: taken over together, where it can be served. */
const OF_TLS = ["tls_cert", "tls_key"] as const;

/** Settings that a running daemon takes over from a configuration that was read again. */
const RELOADED: ReadonlySet<string> = new Set([
  ...OF_TLS,
  "log.level",
  "webhooks.allow",
  "events.url",
  "events.secret",
  "metrics.token",
]);

/** The configuration of a running daemon, which a reload changes in part. */
export interface ConfigInForce {
  /** By it the daemon goes now. */
  config: Config;
  /** The names of what was changed since the start and only counts after a restart. */
  restartNeeds: readonly string[];
}

/** The configuration after `next` was applied: settings that take a restart stay, and a certificate that failed. */
export function takenOver(now: Config, next: Config, isTlsServed: boolean): Config {
  const isTls = (key: string): boolean => OF_TLS.some((each) => each === key);
  const settings = SETTING_LIST.map(({ key }) => key).filter(
    (key) => RELOADED.has(key) && (isTlsServed || !isTls(key)),
  );
  const types = new Map(
    [...now.types].map(([name, type]) => {
      const other = next.types.get(name);
      return [name, other !== undefined && canTakeOver(type, other) ? other : type];
    }),
  );
  const ofTypes = [...now.types.keys()].filter((name) => types.get(name) !== now.types.get(name));
  const isTaken = (key: string): boolean =>
    settings.includes(key) || ofTypes.some((name) => isOfType(key, name));
  return Object.freeze({
    ...now,
    tls: isTlsServed ? next.tls : now.tls,
    webhooks: { ...now.webhooks, allow: next.webhooks.allow, allowList: next.webhooks.allowList },
    events: next.events,
    metrics: { ...now.metrics, token: next.metrics.token },
    log: { ...now.log, level: next.log.level },
    types,
    values: joined(now.values, next.values, isTaken),
    sources: joined(now.sources, next.sources, isTaken),
  });
}

function isOfType(key: string, name: string): boolean {
  const prefix = typeKey(name, "");
  return key.startsWith(prefix) || `${key}.` === prefix;
}

function joined<T>(
  now: ReadonlyMap<string, T>,
  next: ReadonlyMap<string, T>,
  isTaken: (key: string) => boolean,
): ReadonlyMap<string, T> {
  return new Map([
    ...[...now].filter(([key]) => !isTaken(key)),
    ...[...next].filter(([key]) => isTaken(key)),
  ]);
}

/** The changed settings that apply only after a restart. Which types there are is known all over. */
export function restartNeeds(now: Config, next: Config): readonly string[] {
  const settings = SETTING_LIST.map(({ key }) => key).filter((key) => !RELOADED.has(key));
  const isTls = ({ tls }: Config): boolean => tls !== null;
  return [
    ...settings.filter((key) => !isDeepStrictEqual(next.values.get(key), now.values.get(key))),
    ...(isTls(now) === isTls(next) ? [] : OF_TLS),
    ...(isDeepStrictEqual(now.marketplaces, next.marketplaces) ? [] : ["marketplaces"]),
    ...new Set(
      [...now.types.keys(), ...next.types.keys()]
        .filter((name) => !canTakeOver(now.types.get(name), next.types.get(name)))
        .map((name) => `types.${name}`),
    ),
  ];
}

/** True where the one type can go on as the other while the daemon runs. */
export function canTakeOver(before: TypeConfig | undefined, next: TypeConfig | undefined): boolean {
  if (before === undefined || next === undefined || before.kind !== next.kind) return false;
  return next.kind !== "worker" || isDeepStrictEqual(before, next);
}
