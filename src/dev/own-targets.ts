import { parseAllowList, type AllowList } from "../domain/address/allow-list.ts";

/** The receivers of tests: this machine, and private networks. */
const OWN_TARGETS = [
  ...["localhost", "127.0.0.0/8", "::1"],
  ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
];

interface Opened {
  /** The address or the name on which the daemon listens, for its inbox. */
  readonly host: string;
  readonly webhooks: { readonly allow: readonly string[]; readonly allowList: AllowList };
}

/** The configuration of a daemon that may also send webhooks to the receivers of tests. */
export function withOwnTargets<Config extends Opened>(config: Config): Config {
  const { host, webhooks } = config;
  // An address with a zone cannot be a target.
  const own = parseAllowList([host]).kind === "fault" ? [] : [host];
  const verdict = parseAllowList([...webhooks.allow, ...OWN_TARGETS, ...own]);
  if (verdict.kind === "fault") throw new Error("these targets can be read");
  return { ...config, webhooks: { ...webhooks, allowList: verdict.list } };
}
