import { isDeepStrictEqual } from "node:util";

import { SETTING_LIST, type Config, type TypeConfig } from "../config/config.ts";
import { typeKey } from "../config/shown-setting.ts";

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

/**
 * The configuration that counts once `next` was taken over by a daemon that goes by `now`: what takes a restart is as
 * it was. So is the certificate where the new one could not be served.
 */
export function takenOver(now: Config, next: Config, { isTlsServed }: TlsOutcome): Config {
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

/** True where the certificate of the next configuration is served. */
interface TlsOutcome {
  readonly isTlsServed: boolean;
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

/**
 * The names of settings, tables and types that differ from those in force and only count after a restart. Of types
 * that the daemon runs itself all values can be taken over, but which types there are, and of which kind, is known all
 * over the daemon.
 */
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
