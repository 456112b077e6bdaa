import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { HttpServer } from "../http/server/server.ts";
import type { Database } from "../ops/database.ts";
import { reloadTls, type TlsMaterial } from "../ops/tls.ts";
import { restartNeeds, takenOver, type ConfigInForce } from "./config-in-force.ts";

/** Sets the level of the log. */
export type SetLevel = (level: Config["log"]["level"]) => void;

export interface ReloadParts {
  /** Changed by the reload: whoever asks it goes by the next configuration from then on. */
  readonly inForce: ConfigInForce;
  readonly database: Pick<Database, "reload">;
  readonly server: Pick<HttpServer, "reloadTls">;
  readonly reloadTypes: (next: Config) => readonly string[];
  /** The certificate that is served; null without one. */
  readonly certificate: { served: TlsMaterial | null };
  /** Where the operator is told from now on. */
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

/**
 * Takes over what can be taken over of a configuration that was read again, and logs what that was. Changes
 * nothing if the file has lost all of its settings: most likely another program is writing it at this moment.
 */
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
    (each) => !next.webhooks.allow.includes(each),
  );
  if (removed.length > 0) log.warn({ removed }, TARGETS_REMOVED);
  const types = parts.reloadTypes(next);
  const isTlsServed = serveCertificate(next, parts);
  inForce.config = takenOver(inForce.config, next, { isTlsServed });
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

function serveCertificate(
  { tls }: Config,
  { inForce, server, certificate, clock, log }: ReloadParts,
): boolean {
  if (inForce.config.tls === null || tls === null) return false;
  const served = reloadTls(server, { clock, log, tls });
  if (served === null) return false;
  certificate.served = served;
  return true;
}
