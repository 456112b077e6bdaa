import {
  type Address,
  addressText,
  canonicalAddress,
  classify,
  nat64Ipv4,
  parseAddress,
} from "../address/address.ts";
import { type AllowList, allowsAddress, allowsHost } from "../address/allow-list.ts";
import { hostNameFault, isSameName, localNameRule } from "../address/host-name.ts";
import type { Task } from "../task/task.ts";
import {
  LONG_URL,
  type PlaceholderValues,
  URL_BYTES_MAX,
  type UrlForm,
  encodedForm,
  parseUrlForm,
  rawAuthority,
  splitPort,
  substitutePlaceholders,
  withoutFragment,
} from "./url-form.ts";

/** The rules for webhook URLs beyond those that are the same everywhere. */
export interface UrlPolicy {
  readonly allow: AllowList;
  /** The machine's own names and addresses; the daemon gives them. */
  readonly ownNames: readonly string[];
  readonly ownAddresses: readonly string[];
}

/** A URL that may be requested, taken apart as the request needs it. */
export interface WebhookTarget {
  /** The normal form: shown, signed and requested, character for character. */
  readonly url: string;
  readonly scheme: "http" | "https";
  /** A lower-case Punycode name, or an address, IPv6 without its brackets. */
  readonly host: string;
  readonly port: number;
  /** Host and port as in `url`. */
  readonly hostHeader: string;
  /** Path and query exactly as in `url`; never empty. */
  readonly requestTarget: string;
  /** True when `host` is an address: there is nothing to resolve, and no name for TLS to check. */
  readonly isAddress: boolean;
}

/**
 * `reason` is one sentence for the one who posted the URL. It says how to fix it, names the setting `webhooks.allow` if
 * that would lift the rule, and repeats neither credentials nor path nor query. `rule` is short, for logs and for the
 * attempt's record.
 */
export interface UrlRefusal {
  readonly kind: "refused";
  readonly rule: string;
  readonly reason: string;
}

export type UrlVerdict = { readonly kind: "allowed"; readonly target: WebhookTarget } | UrlRefusal;

/** `template` is the pingback URL in encoded form, with its placeholders. */
export type PingbackVerdict =
  | { readonly kind: "allowed"; readonly target: WebhookTarget; readonly template: string }
  | UrlRefusal;

export type AddressesVerdict =
  /** In canonical text, in the order given, each once: only these vetted addresses are dialled. */
  | { readonly kind: "allowed"; readonly addresses: readonly string[] }
  | (UrlRefusal & { readonly address: string });

// Tasks name the same few URLs again and again, and each is judged when it is posted and at each attempt: 4 µs, 5 % of
// what a task costs the main thread (measured). A policy is never changed: another one is another object.
const VERDICTS_MAX = 256;
const KEPT_LENGTH_MAX = 512;
const verdictsBy = new WeakMap<UrlPolicy, Map<string, UrlVerdict>>();

/** Judges a webhook URL (webhooks.md, URL points 2 to 7), but not the addresses of its name. Never throws. */
export function judgeWebhookUrl(raw: string, policy: UrlPolicy): UrlVerdict {
  if (raw.length > KEPT_LENGTH_MAX) return judgeAnew(raw, policy);
  const verdicts = verdictsBy.get(policy) ?? new Map<string, UrlVerdict>();
  const known = verdicts.get(raw);
  if (known !== undefined) return known;
  const verdict = judgeAnew(raw, policy);
  if (verdicts.size >= VERDICTS_MAX) verdicts.clear();
  verdictsBy.set(policy, verdicts.set(raw, verdict));
  return verdict;
}

function judgeAnew(raw: string, policy: UrlPolicy): UrlVerdict {
  const form = parseUrlForm(raw);
  if (form.kind === "fault") return refusal(form);
  const address = parseAddress(withoutBrackets(form.hostname));
  const target = toTarget(form, address !== null);
  const refused =
    address === null ? judgeName(target, policy) : judgeLiteral(target, { address, policy });
  return refused ?? { kind: "allowed", target };
}

/** Substitutes a pingback's placeholders and judges the result. Both the template and the URL have to be in order. */
export function judgePingbackUrl(
  raw: string,
  { values, policy }: { readonly values: PlaceholderValues; readonly policy: UrlPolicy },
): PingbackVerdict {
  const verdict = judgeWebhookUrl(substitutePlaceholders(raw, values), policy);
  if (verdict.kind === "refused") return verdict;
  const template = encodedForm(raw);
  if (template === null || template.length > URL_BYTES_MAX) return refusal(LONG_URL);
  return { ...verdict, template };
}

/**
 * Judges the addresses of a target's host (webhooks.md), just before dialling. One refused address refuses
 * all, because an answer that mixes is an attack or a mistake. A host on the allow list lifts the rules, but a look-up
 * result that is not an address is refused even then: dialled, it would be resolved again. An empty answer is allowed
 * as it is: the caller takes it for a failure to resolve.
 */
export function judgeAddresses(
  target: WebhookTarget,
  addresses: readonly string[],
  policy: UrlPolicy,
): AddressesVerdict {
  const isLifted = allowsHost(policy.allow, target.host, target.port);
  const vetted = new Set<string>();
  for (const text of addresses) {
    const address = parseAddress(text);
    if (address === null) return refuseNonAddress(target, text);
    const rule = isLifted ? null : addressRule(address, { port: target.port, policy });
    if (rule !== null) return refuseAnswer(target, { shown: addressText(address), rule });
    vetted.add(addressText(address));
  }
  return { kind: "allowed", addresses: [...vetted] };
}

function refusal({ rule, reason }: { readonly rule: string; readonly reason: string }): UrlRefusal {
  return { kind: "refused", rule, reason };
}

function toTarget(form: UrlForm, isAddress: boolean): WebhookTarget {
  const { url, scheme, hostname, port, authority, requestTarget } = form;
  const host = withoutBrackets(hostname);
  return { url, scheme, host, port, hostHeader: authority, requestTarget, isAddress };
}

function withoutBrackets(hostname: string): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}

type RefusalWords = { readonly [Part in "subject" | "instead"]: string };

// The refusal by a rule that the operator may lift.
function refuseBy(
  rule: string,
  { subject, instead, host, port }: Pick<WebhookTarget, "host" | "port"> & RefusalWords,
): UrlRefusal {
  const repair = `use ${instead}, or add "${allowEntry(host, port)}" to webhooks.allow (--allow-target), a setting of the operator`;
  return refusal({ rule, reason: `${subject} is refused by the rule '${rule}': ${repair}.` });
}

/** The entry of `webhooks.allow` for one port: an entry without a port opens every service of the host. */
export function allowEntry(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function judgeName({ host, port }: WebhookTarget, policy: UrlPolicy): UrlRefusal | null {
  const misfit = hostNameFault(host);
  if (misfit !== null) return refusal(misfit);
  const isOwn = policy.ownNames.some((name) => isSameName(name, host));
  const rule = isOwn ? "name of this machine" : localNameRule(host);
  if (rule === null || allowsHost(policy.allow, host, port)) return null;
  const subject = `The host ${host}`;
  return refuseBy(rule, { subject, instead: "a public host name", host, port });
}

function judgeLiteral(
  { host, port }: WebhookTarget,
  { address, policy }: { readonly address: Address; readonly policy: UrlPolicy },
): UrlRefusal | null {
  const rule = addressRule(address, { port, policy });
  if (rule === null) return null;
  const subject = `The address ${host}`;
  return refuseBy(rule, { subject, instead: "a public address", host, port });
}

function refuseAnswer(
  { host, port, isAddress }: WebhookTarget,
  { shown, rule }: { readonly shown: string; readonly rule: string },
): AddressesVerdict {
  const subject = isAddress
    ? `The address ${host}`
    : `The host ${host} resolves to ${shown}, which`;
  const refused = refuseBy(rule, { subject, instead: "a public address", host: shown, port });
  return { ...refused, address: shown };
}

function refuseNonAddress({ host }: WebhookTarget, text: string): AddressesVerdict {
  const reason = `The host ${host} resolves to text that is not an address: correct its record in DNS.`;
  return { kind: "refused", rule: "not an address", reason, address: text };
}

// The rule that refuses the address, or null. An address entry of the allow list lifts all of them.
function addressRule(
  address: Address,
  { port, policy }: { readonly port: number; readonly policy: UrlPolicy },
): string | null {
  if (allowsAddress(policy.allow, address, port)) return null;
  const verdict = classify(address);
  if (verdict.kind === "refused") return verdict.rule;
  return isOwnAddress(address, policy) ? "address of this machine" : null;
}

// A service on the public address may rely on a firewall, which packets from the machine to itself never pass.
function isOwnAddress({ bytes }: Address, policy: UrlPolicy): boolean {
  const meant = addressText({ bytes: nat64Ipv4(bytes) ?? bytes, zone: null });
  return policy.ownAddresses.some((own) => canonicalAddress(own) === meant);
}

/** A URL on its way from the posted text to the request. `step` describes the step. */
export interface UrlStep {
  readonly step: string;
  readonly url: string;
}

/**
 * How a posted URL, or a pingback's template with its values, becomes the requested URL: the posted URL first, then
 * each step that changed it. The last is the normal form, which a pingback's signature signs; a URL that has none ends
 * with its placeholders substituted. Each step after the substitution has the same normal form. Never throws.
 */
export function urlSteps(raw: string, values: PlaceholderValues | null): readonly UrlStep[] {
  const substituted = values === null ? raw : substitutePlaceholders(raw, values);
  const form = parseUrlForm(substituted);
  const steps = [
    { step: "as posted", url: raw },
    { step: "$id and $tag substituted", url: substituted },
    ...(form.kind === "form" ? formSteps(substituted, form) : []),
  ];
  return steps.filter(({ url }, index) => index === 0 || url !== steps[index - 1]?.url);
}

// The fragment comes last: a space before it belongs to the path, and would be trimmed without it.
function formSteps(raw: string, form: UrlForm): readonly UrlStep[] {
  const authority = rawAuthority(raw) ?? "";
  const [, port] = splitPort(authority);
  const rest = raw.slice(raw.indexOf("://") + "://".length + authority.length);
  const fragment = rest.slice(withoutFragment(rest).replace(/#$/, "").length);
  const hasPath = rest !== "" && !rest.startsWith("?") && !rest.startsWith("#");
  const path = hasPath
    ? "path and query encoded, dot segments resolved"
    : "path / added, query encoded";
  const base = `${form.scheme}://${form.authority}`;
  return [
    {
      step: "scheme and host in lower case, host in Punycode or as an address",
      url: `${form.scheme}://${form.hostname}${port}${rest}`,
    },
    { step: "port in decimal, default port dropped", url: base + rest },
    { step: path, url: base + form.requestTarget + fragment },
    { step: "fragment dropped", url: form.url },
  ];
}

/** The webhook URLs with which a task was posted, in encoded form, and the tag for its pingback. */
export interface PostedUrls {
  readonly postback: string | null;
  readonly pingback: string | null;
  readonly tag: string | null;
}

export function postedUrls({ dataText }: Pick<Task, "dataText">): PostedUrls {
  // An object's JSON text, made by task_post; the fields of a refused task may have any type.
  const data = JSON.parse(dataText) as Readonly<Record<string, unknown>>;
  return {
    postback: textOrNull(data["postback_url"]),
    pingback: textOrNull(data["pingback_url"]),
    tag: textOrNull(data["tag"]),
  };
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
