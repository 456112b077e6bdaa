export { canonicalAddress, parseAddress } from "./address-text.ts";
import { isWithin, parseAddress, parseBlock } from "./address-text.ts";
import type { Address, AddressBlock } from "./address-text.ts";

/** Tells whether everybody on the Internet may be sent to this address. */
export type AddressVerdict =
  | { readonly kind: "public" }
  /** `rule` is short and names its source: "loopback (RFC 1122)". */
  | { readonly kind: "refused"; readonly rule: string };

/**
 * Judges the text of an address. An address is public when the IANA registries leave it for everyone: no
 * special-purpose block (including those that are reachable but serve a protocol), no multicast, and for IPv6 only
 * global unicast 2000::/3. Text that `net.isIP` rejects is refused: an answer that nobody understood is no permission.
 */
export function classifyAddress(text: string): AddressVerdict {
  const address = parseAddress(text);
  return address === null ? refused("not an address") : classify(address);
}

/** As {@link classifyAddress}, for a parsed address. */
export function classify({ bytes, zone }: Address): AddressVerdict {
  // A zone picks an interface of this machine: nothing behind it is the public Internet.
  if (zone !== null) return refused("scoped by a zone (RFC 4007)");
  return bytes.length === 4 ? classifyIpv4(bytes) : classifyIpv6(bytes);
}

/**
 * The IPv4 address to which a NAT64 gateway would send a packet for `64:ff9b::/96` (RFC 6052), or null. Refusing the
 * whole prefix would end all deliveries from hosts that have only IPv6.
 */
export function nat64Ipv4(bytes: Uint8Array): Uint8Array | null {
  return isWithin(bytes, NAT64) ? bytes.slice(12) : null;
}

interface SpecialBlock extends AddressBlock {
  readonly rule: string;
}

function special(cidr: string, rule: string): SpecialBlock {
  const block = parseBlock(cidr);
  if (block === null) throw new Error(`${cidr} is not a block`);
  return { ...block, rule };
}

// Narrower blocks stand before wider ones, so that the rule named is the closest one.
const IPV4_SPECIAL: readonly SpecialBlock[] = [
  special("0.0.0.0/8", "this network (RFC 791)"),
  special("10.0.0.0/8", "private-use (RFC 1918)"),
  special("100.64.0.0/10", "shared address space (RFC 6598)"),
  special("127.0.0.0/8", "loopback (RFC 1122)"),
  special("169.254.0.0/16", "link-local (RFC 3927)"),
  special("172.16.0.0/12", "private-use (RFC 1918)"),
  special("192.0.0.0/24", "IETF protocol assignments (RFC 6890)"),
  special("192.0.2.0/24", "documentation (RFC 5737)"),
  special("192.31.196.0/24", "AS112 (RFC 7535)"),
  special("192.52.193.0/24", "AMT (RFC 7450)"),
  special("192.88.99.0/24", "6to4 relay anycast (RFC 7526)"),
  special("192.168.0.0/16", "private-use (RFC 1918)"),
  special("192.175.48.0/24", "AS112 (RFC 7534)"),
  special("198.18.0.0/15", "benchmarking (RFC 2544)"),
  special("198.51.100.0/24", "documentation (RFC 5737)"),
  special("203.0.113.0/24", "documentation (RFC 5737)"),
  special("224.0.0.0/4", "multicast (RFC 5771)"),
  special("255.255.255.255/32", "limited broadcast (RFC 919)"),
  special("240.0.0.0/4", "reserved (RFC 1112)"),
  // Public by the registries, but answered by the host below every Azure machine: DNS, keys, health.
  special("168.63.129.16/32", "Azure platform address"),
];

const GLOBAL_UNICAST = special("2000::/3", "global unicast (RFC 4291)");
const NAT64 = special("64:ff9b::/96", "NAT64 (RFC 6052)");

// Names for blocks outside 2000::/3; a block without a name here is refused all the same.
const IPV6_OUTSIDE: readonly SpecialBlock[] = [
  special("::/128", "unspecified address (RFC 4291)"),
  special("::1/128", "loopback (RFC 4291)"),
  special("::/96", "IPv4-compatible (RFC 4291)"),
  special("::ffff:0:0:0/96", "IPv4-translated (RFC 2765)"),
  special("64:ff9b:1::/48", "local-use translation (RFC 8215)"),
  special("100::/64", "discard-only (RFC 6666)"),
  special("100:0:0:1::/64", "dummy prefix (RFC 9780)"),
  special("5f00::/16", "segment routing (RFC 9602)"),
  special("fc00::/7", "unique-local (RFC 4193)"),
  special("fe80::/10", "link-local (RFC 4291)"),
  special("fec0::/10", "site-local (RFC 3879)"),
  special("ff00::/8", "multicast (RFC 4291)"),
];

const IPV6_SPECIAL: readonly SpecialBlock[] = [
  special("2001::/32", "Teredo (RFC 4380)"),
  special("2001:2::/48", "benchmarking (RFC 5180)"),
  special("2001:3::/32", "AMT (RFC 7450)"),
  special("2001:4:112::/48", "AS112 (RFC 7535)"),
  special("2001:10::/28", "ORCHID (RFC 4843)"),
  special("2001:20::/28", "ORCHIDv2 (RFC 7343)"),
  special("2001:30::/28", "drone remote ID (RFC 9374)"),
  special("2001::/23", "IETF protocol assignments (RFC 2928)"),
  special("2001:db8::/32", "documentation (RFC 3849)"),
  special("2002::/16", "6to4 (RFC 3056)"),
  special("2620:4f:8000::/48", "AS112 (RFC 7534)"),
  special("3fff::/20", "documentation (RFC 9637)"),
];

const PUBLIC: AddressVerdict = { kind: "public" };

function refused(rule: string): AddressVerdict {
  return { kind: "refused", rule };
}

function classifyIpv4(bytes: Uint8Array): AddressVerdict {
  const block = IPV4_SPECIAL.find((candidate) => isWithin(bytes, candidate));
  return block === undefined ? PUBLIC : refused(block.rule);
}

function classifyIpv6(bytes: Uint8Array): AddressVerdict {
  const translated = nat64Ipv4(bytes);
  if (translated !== null) return classifyEmbedded(translated, "behind NAT64 (RFC 6052)");
  const isGlobal = isWithin(bytes, GLOBAL_UNICAST);
  const block = (isGlobal ? IPV6_SPECIAL : IPV6_OUTSIDE).find((each) => isWithin(bytes, each));
  if (block !== undefined) return refused(block.rule);
  if (!isGlobal) return refused("outside global unicast 2000::/3 (RFC 4291)");
  return isIsatap(bytes) ? classifyEmbedded(bytes.slice(12), "by ISATAP (RFC 5214)") : PUBLIC;
}

function classifyEmbedded(ipv4: Uint8Array, how: string): AddressVerdict {
  const verdict = classifyIpv4(ipv4);
  return verdict.kind === "public" ? verdict : refused(`${verdict.rule}, ${how}`);
}

// An interface identifier 0000:5efe or 0200:5efe tunnels to the IPv4 address after it, RFC 5214 §6.1.
function isIsatap(bytes: Uint8Array): boolean {
  if (bytes[8] !== 0 && bytes[8] !== 2) return false;
  return bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe;
}
