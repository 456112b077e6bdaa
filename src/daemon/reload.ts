import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { HttpServer } from "../http/server/server.ts";
import { restartNeeds, takenOver, type ConfigInForce } from "./config-in-force.ts";
import type { Database } from "./database.ts";
import { reloadTls, type TlsMaterial } from "./tls.ts";

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
  readonly clock: Clock;
  readonly log: Logger;
}

/** Takes over what can be taken over of a configuration that was read again, and logs what that was. */
export function takeOver(next: Config, parts: ReloadParts): void {
  const { inForce, database, log } = parts;
  database.reload(next);
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
