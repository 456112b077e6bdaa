import { hostname } from "node:os";

import type { Config } from "../config/config.ts";
import { OwnAddresses } from "../deliver/own-addresses.ts";
import { type Resolution, Resolver, type ResolverOptions } from "../deliver/resolver.ts";
import { type AllowList, EMPTY_ALLOW_LIST } from "../domain/address/allow-list.ts";
import { type Clock, withDeadline } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import {
  type PlaceholderValues,
  encodedForm,
  parseUrlForm,
  substitutePlaceholders,
} from "../domain/webhook/url-form.ts";
import {
  type UrlPolicy,
  type UrlStep,
  type UrlVerdict,
  type WebhookTarget,
  judgeAddresses,
  judgePingbackUrl,
  judgeWebhookUrl,
  urlSteps,
} from "../domain/webhook/webhook-url.ts";
import { type Finding, failure, sound, warning } from "./check.ts";

const POLICY_AGE_MS_MAX = 10_000;

/** The policy of the moment; the machine's own addresses are read now and every 10 s. */
export function policySource(
  allowList: () => AllowList,
  { clock, log }: Pick<UrlCircumstances, "clock" | "log">,
): () => UrlPolicy {
  const own = new OwnAddresses({ log });
  const read = (): UrlPolicy => ({
    allow: allowList(),
    ownNames: [hostname()],
    ownAddresses: own.read(),
  });
  let policy = read();
  let readAt = clock.monotonic();
  return () => {
    const now = clock.monotonic();
    if (now - readAt > POLICY_AGE_MS_MAX || policy.allow !== allowList()) {
      policy = read();
      readAt = now;
    }
    return policy;
  };
}

/** Opens the resolver for the hosts of webhooks, with the configured name servers or else the system's. */
export function openResolver({ webhooks }: Config, clock: Clock): Resolver {
  return new Resolver({ ...configuredServers(webhooks), clock });
}

function configuredServers({ dnsServers }: Config["webhooks"]): Pick<ResolverOptions, "servers"> {
  return dnsServers.length === 0 ? {} : { servers: dnsServers };
}

export interface UrlQuestion {
  readonly url: string;
  readonly values: PlaceholderValues;
}

/** The circumstances that decide about an address or a URL besides the rules of webhooks.md. */
export interface UrlCircumstances {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Pick<Logger, "warn">;
  /** The resolver to use instead of the configured one and the system's. */
  readonly names?: Pick<ResolverOptions, "servers" | "hostsFile">;
}

export interface UrlExplanation {
  /** A URL with a placeholder makes sense only as a pingback, and is judged as one. */
  readonly use: "webhook" | "pingback";
  /** The URL that would be requested, or would have been; null when the text has no normal form. */
  readonly normalForm: string | null;
  readonly steps: readonly UrlStep[];
  readonly target: WebhookTarget | null;
  /** The host and port of the URL, also of a refused one; null if the text has no host. */
  readonly peer: Pick<WebhookTarget, "host" | "port"> | null;
  /** The addresses of the host, in the order of dialling; empty when nothing was resolved. */
  readonly addresses: readonly ExplainedAddress[];
  readonly outcome: UrlOutcome;
}

export type UrlOutcome =
  /** `lifted` is the rule that would have refused it without `webhooks.allow`, or null. */
  | { readonly kind: "allowed"; readonly lifted: string | null }
  | { readonly kind: "refused"; readonly rule: string; readonly reason: string }
  /** The name could not be resolved: an attempt would fail and be retried. */
  | { readonly kind: "unresolved"; readonly error: string };

export interface ExplainedAddress {
  readonly address: string;
  readonly isAllowed: boolean;
  /** The rule that refuses it, or that `webhooks.allow` lifts; null for a public address. */
  readonly rule: string | null;
}

/** Judges a URL as task_post and a delivery attempt would, including name resolution. Sends nothing else. */
export async function explainUrl(
  question: UrlQuestion,
  circumstances: UrlCircumstances,
): Promise<UrlExplanation> {
  const { allowList } = circumstances.config.webhooks;
  const policy = policySource(() => allowList, circumstances)();
  const verdict = judge(question, policy);
  const use = isTemplate(question.url) ? "pingback" : "webhook";
  const steps = urlSteps(question.url, question.values);
  if (verdict.kind === "refused") {
    const substituted = substitutePlaceholders(question.url, question.values);
    const normalForm = encodedForm(substituted);
    const peer = peerOf(substituted);
    return { use, normalForm, steps, target: null, peer, addresses: [], outcome: verdict };
  }
  const { target } = verdict;
  const common = { use, normalForm: target.url, steps, target, peer: target } as const;
  const resolution = await resolve(target, circumstances);
  if (resolution.kind === "failed") {
    const outcome = { kind: "unresolved", error: resolution.error } as const;
    return { ...common, addresses: [], outcome };
  }
  const addresses = resolution.addresses.map((each) => explainAddress(target, each, policy));
  const all = judgeAddresses(target, resolution.addresses, policy);
  if (all.kind === "refused") return { ...common, addresses, outcome: all };
  const name = judge(question, withoutAllowList(policy));
  const ofAddress = addresses.find(({ rule }) => rule !== null)?.rule ?? null;
  const lifted = name.kind === "refused" ? name.rule : ofAddress;
  return { ...common, addresses, outcome: { kind: "allowed", lifted } };
}

function peerOf(url: string): UrlExplanation["peer"] {
  const form = parseUrlForm(url);
  if (form.kind === "fault") return null;
  return { host: form.hostname.replace(/^\[(.*)\]$/, "$1"), port: form.port };
}

function isTemplate(url: string): boolean {
  return substitutePlaceholders(url, { id: "", tag: null }) !== url;
}

function judge({ url, values }: UrlQuestion, policy: UrlPolicy): UrlVerdict {
  return isTemplate(url) ? judgePingbackUrl(url, { values, policy }) : judgeWebhookUrl(url, policy);
}

async function resolve(
  { host, isAddress }: WebhookTarget,
  { config, clock, names }: UrlCircumstances,
): Promise<Resolution> {
  if (isAddress) return { kind: "addresses", addresses: [host] };
  const resolver = new Resolver({ ...configuredServers(config.webhooks), ...names, clock });
  try {
    // No longer than an attempt would wait.
    return await withDeadline(config.webhooks.timeoutMs, { clock }, (signal) =>
      resolver.resolve(host, { signal }),
    );
  } finally {
    resolver.close();
  }
}

function explainAddress(
  target: WebhookTarget,
  address: string,
  policy: UrlPolicy,
): ExplainedAddress {
  const verdict = judgeAddresses(target, [address], policy);
  if (verdict.kind === "refused") return { address, isAllowed: false, rule: verdict.rule };
  const unlisted = judgeAddresses(target, [address], withoutAllowList(policy));
  return { address, isAllowed: true, rule: unlisted.kind === "refused" ? unlisted.rule : null };
}

function withoutAllowList(policy: UrlPolicy): UrlPolicy {
  return { ...policy, allow: EMPTY_ALLOW_LIST };
}

/** Looks at what webhooks need: names that resolve, and targets that are let in on purpose. */

// Reserved for documentation (RFC 2606): it exists, and its look-up reveals nothing.
const NAME = "example.com";
const LOOK_UP_MS = 8000;

export async function checkResolver(config: Config, clock: Clock): Promise<Finding> {
  const isOwn = config.webhooks.dnsServers.length > 0;
  const resolver = openResolver(config, clock);
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
        ? "fix webhooks.dns_servers, or the connection to these servers"
        : "fix /etc/resolv.conf, or name servers in webhooks.dns_servers; without a network with other names this is correct",
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
      `webhooks.allow has ${wide.join(", ")}: every client that may post tasks reaches every service of your networks`,
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
      const detail = `the host of ${where} does not resolve (${outcome.error}): no event is sent`;
      return [warning("events", detail, "fix events.url, or the connection to the name servers")];
    }
  }
}
