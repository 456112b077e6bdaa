import { isDeepStrictEqual } from "node:util";

import { SETTING_LIST, type Config, type TypeConfig } from "../config/config.ts";
import type { AllowList } from "../domain/address/allow-list.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { HttpServer } from "../http/server/server.ts";
import { reloadTls, type TlsMaterial } from "./tls.ts";

/** Settings that a running daemon takes over from a configuration that was read again. */
const RELOADED: ReadonlySet<string> = new Set([
  "tls_cert",
  "tls_key",
  "log.level",
  "webhooks.allow",
  "events.url",
  "events.secret",
]);

/**
 * The names of settings, tables and types that differ from those of the start and only count after a restart. Of types
 * that the daemon runs itself all values can be taken over, but which types there are, and of which kind, is known all
 * over the daemon.
 */
export function restartNeeds(running: Config, next: Config): readonly string[] {
  const settings = SETTING_LIST.map(({ key }) => key).filter((key) => !RELOADED.has(key));
  const isTls = ({ tls }: Config): boolean => tls !== null;
  return [
    ...settings.filter((key) => !isDeepStrictEqual(next.values.get(key), running.values.get(key))),
    ...(isTls(running) === isTls(next) ? [] : ["tls_cert", "tls_key"]),
    ...(isDeepStrictEqual(running.marketplaces, next.marketplaces) ? [] : ["marketplaces"]),
    ...new Set(
      [...running.types.keys(), ...next.types.keys()]
        .filter((name) => !canTakeOver(running.types.get(name), next.types.get(name)))
        .map((name) => `types.${name}`),
    ),
  ];
}

export interface ReloadParts {
  /** The configuration of the start. */
  readonly running: Config;
  readonly server: Pick<HttpServer, "reloadTls">;
  readonly reloadTypes: (next: Config) => readonly string[];
  /** Whom webhooks may go to from now on. */
  readonly targets: { allowList: AllowList };
  /** The certificate that is served; null without one. */
  readonly certificate: { served: TlsMaterial | null };
  /** Where the operator is told from now on. */
  readonly aimEvents: (target: Config["events"]) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Takes over what can be taken over of a configuration that was read again, and logs what that was. */
export function takeOver(next: Config, parts: ReloadParts): void {
  const { running, server, targets, clock, log } = parts;
  const types = parts.reloadTypes(next);
  targets.allowList = next.webhooks.allowList;
  parts.aimEvents(next.events);
  if (running.tls !== null && next.tls !== null) {
    const served = reloadTls(server, { clock, log, tls: next.tls });
    if (served !== null) parts.certificate.served = served;
  }
  const facts = { types, targets: next.webhooks.allow, log_level: next.log.level };
  log.info(facts, "configuration reloaded");
  const needs = restartNeeds(running, next);
  if (needs.length > 0) log.warn({ settings: needs }, "these changes take a restart");
}

/** True where the one type can go on as the other while the daemon runs. */
export function canTakeOver(before: TypeConfig | undefined, next: TypeConfig | undefined): boolean {
  if (before === undefined || next === undefined || before.kind !== next.kind) return false;
  return next.kind !== "worker" || isDeepStrictEqual(before, next);
}
