import type { Config } from "../config/config.ts";
import { Resolver } from "../deliver/resolver.ts";
import { type Clock, withDeadline } from "../domain/clock/clock.ts";
import { failure, sound, warning, type Finding } from "./finding.ts";
import { explainUrl } from "./url.ts";

/** Looks at what webhooks need: names that resolve, and targets that are let in on purpose. */

// Kept for documentation (RFC 2606): it exists, and asking for it tells nobody anything.
const NAME = "example.com";
const LOOK_UP_MS = 8000;

export async function checkResolver({ webhooks }: Config, clock: Clock): Promise<Finding> {
  const { dnsServers } = webhooks;
  const isOwn = dnsServers.length > 0;
  const resolver = new Resolver(isOwn ? { servers: dnsServers, clock } : { clock });
  try {
    const found = await withDeadline(LOOK_UP_MS, { clock }, (signal) =>
      resolver.resolve(NAME, { signal }),
    );
    if (found.kind === "addresses")
      return sound("resolver", `names resolve (${NAME} was asked for)`);
    return warning(
      "resolver",
      `${NAME} does not resolve (${found.error}): webhooks to names would fail`,
      isOwn
        ? "mend webhooks.dns_servers, or the way to these servers"
        : "mend /etc/resolv.conf, or name servers in webhooks.dns_servers; without a network to other names this is right",
    );
  } finally {
    resolver.close();
  }
}

export function checkTargets({ webhooks: { allow } }: Config): Finding {
  const wide = allow.filter((entry) => entry.endsWith("/0"));
  if (wide.length > 0) {
    return warning(
      "targets",
      `webhooks.allow has ${wide.join(", ")}: whoever may post tasks reaches every service of your networks`,
      "name the receivers' addresses or hosts instead",
    );
  }
  return sound(
    "targets",
    allow.length === 0
      ? "webhooks go to public addresses only"
      : `webhooks also go to ${allow.join(", ")} (webhooks.allow)`,
  );
}

/** Judges the URL of events with all that its host resolves to. Sends nothing there. */
export async function checkEvents(config: Config, clock: Clock): Promise<readonly Finding[]> {
  const { url } = config.events;
  if (url === null) return [];
  const log = { warn: () => {} };
  const question = { url, values: { id: "", tag: null } };
  const { target, outcome } = await explainUrl(question, { config, clock, log });
  const where = target === null ? "events.url" : `${target.scheme}://${target.hostHeader}`;
  switch (outcome.kind) {
    case "allowed":
      return [sound("events", `they go to ${where}`)];
    case "refused":
      return [failure("events", `${where} is refused (${outcome.rule})`, outcome.reason)];
    case "unresolved": {
      const detail = `the host of ${where} does not resolve (${outcome.error}): nobody is told of anything`;
      return [warning("events", detail, "mend events.url, or the way to the name servers")];
    }
  }
}
