import { parseAllowList, type AllowList } from "../domain/address/allow-list.ts";

/** The receivers of tests: this machine, and private networks. */
const OWN_TARGETS = [
  ...["localhost", "127.0.0.0/8", "::1"],
  ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
];

/**
 * The targets that a configuration allows, and the receivers of tests. `host` is the address or the name on which the
 * daemon listens, for its inbox.
 */
export function withOwnTargets(allow: readonly string[], host: string): AllowList {
  // An address with a zone cannot be a target.
  const own = parseAllowList([host]).kind === "fault" ? [] : [host];
  const verdict = parseAllowList([...allow, ...OWN_TARGETS, ...own]);
  if (verdict.kind === "fault") throw new Error("these targets can be read");
  return verdict.list;
}
