import { urlHostname } from "./host-name.ts";

/** A parsed address. An IPv4-mapped IPv6 address is the IPv4 address inside, 4 bytes. */
export interface Address {
  /** In network order: 4 bytes for IPv4, 16 for IPv6. */
  readonly bytes: Uint8Array;
  /** The interface after `%` of a scoped IPv6 address (RFC 4007), or null. */
  readonly zone: string | null;
}

/** A range of addresses: all addresses whose first `prefixBits` bits equal the first bits of `bytes`. */
export interface AddressBlock {
  readonly bytes: Uint8Array;
  readonly prefixBits: number;
}

/** Accepts exactly what `net.isIP` accepts: no shortened, octal or hexadecimal IPv4. Null for any other text. */
export function parseAddress(text: string): Address | null {
  const percent = text.indexOf("%");
  if (percent !== -1) return parseZoned(text.slice(0, percent), text.slice(percent + 1));
  const bytes = text.includes(":") ? parseIpv6(text) : parseIpv4(text);
  return bytes === null ? null : { bytes: unmap(bytes), zone: null };
}

/** The only text of an address: dotted IPv4, also if it is IPv4-mapped, or RFC 5952. Null if it is not an address. */
export function canonicalAddress(text: string): string | null {
  const address = parseAddress(text);
  return address === null ? null : addressText(address);
}

/** As {@link canonicalAddress}, from bytes. */
export function addressText({ bytes, zone }: Address): string {
  if (bytes.length === 4)
    return zone === null ? bytes.join(".") : `::ffff:${bytes.join(".")}%${zone}`;
  return zone === null ? ipv6Text(bytes) : `${ipv6Text(bytes)}%${zone}`;
}

/** Reads CIDR notation; a bare address is a block of one. Null for other text. Bits after the prefix are kept. */
export function parseBlock(text: string): AddressBlock | null {
  const match = /^([^/%]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text);
  if (match === null) return null;
  const [, base = "", prefix] = match;
  const bytes = base.includes(":") ? parseIpv6(base) : parseIpv4(base);
  if (bytes === null) return null;
  const prefixBits = prefix === undefined ? bytes.length * 8 : Number(prefix);
  if (prefixBits > bytes.length * 8) return null;
  const inner = unmap(bytes);
  // A block entirely inside ::ffff:0:0/96 is the IPv4 block inside. A wider one stays IPv6 and, like every IPv6 block,
  // holds no IPv4 address: ::/0 says nothing about 127.0.0.1.
  if (inner === bytes || prefixBits < MAPPED_BITS) return { bytes, prefixBits };
  return { bytes: inner, prefixBits: prefixBits - MAPPED_BITS };
}

/** The block in CIDR notation, with the bits after its prefix cleared. */
export function blockText({ bytes, prefixBits }: AddressBlock): string {
  const base = bytes.map((byte, index) => byte & byteMask(prefixBits, index));
  return `${addressText({ bytes: base, zone: null })}/${prefixBits}`;
}

/** True when bits after the block's prefix are set, as in 10.1.2.3/16. */
export function hasHostBits({ bytes, prefixBits }: AddressBlock): boolean {
  return bytes.some((byte, index) => (byte & ~byteMask(prefixBits, index)) !== 0);
}

/** True if the address with the given bytes is in the block. An address of the other family never is. */
export function isWithin(bytes: Uint8Array, block: AddressBlock): boolean {
  if (bytes.length !== block.bytes.length) return false;
  for (let index = 0; index * 8 < block.prefixBits; index++) {
    const difference = (bytes[index] ?? 0) ^ (block.bytes[index] ?? 0);
    if ((difference & byteMask(block.prefixBits, index)) !== 0) return false;
  }
  return true;
}

const MAPPED_BITS = 96;
// The longest text has eight groups, the last two as dotted IPv4.
const IPV6_UNITS = /^[0-9a-f:.]{2,45}$/i;
// The zones that net.isIP accepts, except for their length: names of interfaces are far shorter.
const ZONE = /^[0-9a-z.:-]{1,64}$/i;
const OCTET = /^(?:0|[1-9]\d{0,2})$/;

function parseZoned(base: string, zone: string): Address | null {
  if (!base.includes(":") || !ZONE.test(zone)) return null;
  const bytes = parseIpv6(base);
  return bytes === null ? null : { bytes: unmap(bytes), zone };
}

function parseIpv4(text: string): Uint8Array | null {
  if (text.length > 15) return null;
  const octets = text.split(".");
  if (octets.length !== 4) return null;
  const bytes = new Uint8Array(4);
  for (const [index, octet] of octets.entries()) {
    // A leading zero is refused, not read: some parsers read 010 as eight (CVE-2021-29923 and its kin).
    if (!OCTET.test(octet) || Number(octet) > 255) return null;
    bytes[index] = Number(octet);
  }
  return bytes;
}

function parseIpv6(text: string): Uint8Array | null {
  const host = IPV6_UNITS.test(text) ? urlHostname(`[${text}]`) : null;
  if (host === null) return null;
  const halves = host.slice(1, -1).split("::");
  const [head = [], tail = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => "0");
  const groups = [...head, ...zeros, ...tail].map((group) => Number.parseInt(group, 16));
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
}

// ::ffff:0:0/96 (RFC 4291 §2.5.5.2): sockets treat such an address as the IPv4 address inside.
function unmap(bytes: Uint8Array): Uint8Array {
  if (bytes.length !== 16 || bytes[10] !== 0xff || bytes[11] !== 0xff) return bytes;
  return bytes.subarray(0, 10).every((byte) => byte === 0) ? bytes.slice(12) : bytes;
}

function byteMask(prefixBits: number, index: number): number {
  const bits = prefixBits - index * 8;
  if (bits >= 8) return 0xff;
  return bits <= 0 ? 0 : (0xff << (8 - bits)) & 0xff;
}

function ipv6Text(bytes: Uint8Array): string {
  const groups = Array.from({ length: 8 }, (_, i) =>
    (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
  );
  // A URL writes the host as RFC 5952 has it.
  return urlHostname(`[${groups.join(":")}]`)?.slice(1, -1) ?? "";
}

/** Returns true if any client on the Internet may make the daemon send to this address. */
export type AddressVerdict =
  | { readonly kind: "public" }
  /** `rule` is short and names its source: "loopback (RFC 1122)". */
  | { readonly kind: "refused"; readonly rule: string };

/**
 * Judges the text of an address. An address is public when the IANA registries leave it for everyone: no
 * special-purpose block (including those that are reachable but serve a protocol), no multicast, and for IPv6 only
 * global unicast 2000::/3. Text that `net.isIP` rejects is refused: only an address that was understood is permitted.
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

/** The IPv4 address behind NAT64 (RFC 6052), or null. Refusing the prefix would cut off hosts with IPv6 alone. */
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
  // Public by the registries, but served by the host of every Azure machine: DNS, keys, health.
  special("168.63.129.16/32", "Azure platform address"),
];

const GLOBAL_UNICAST = special("2000::/3", "global unicast (RFC 4291)");
const NAT64 = special("64:ff9b::/96", "NAT64 (RFC 6052)");

// Names for blocks outside 2000::/3; a block without a name here is also refused.
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

const LOOPBACK_BLOCKS = ["127.0.0.0/8", "::1/128"].flatMap((text) => parseBlock(text) ?? []);

/** True for localhost and loopback addresses, which other machines cannot reach. */
export function isLoopbackHost(host: string): boolean {
  const address = parseAddress(host);
  if (address === null) return host.toLowerCase() === "localhost";
  return LOOPBACK_BLOCKS.some((block) => isWithin(address.bytes, block));
}

export interface BaseUrl {
  readonly url: URL;
  /** It is plain HTTP to another machine: the network can read everything that is sent. */
  readonly isReadable: boolean;
}

/** Reads a base URL; null for a URL with a user, a query or a fragment, or with a scheme other than http and https. */
export function readBaseUrl(text: string): BaseUrl | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const { protocol, hostname } = url;
  const rest = url.username + url.password + url.search + url.hash;
  if (!/^https?:$/.test(protocol) || rest !== "") return null;
  const isReadable = protocol === "http:" && !isLoopbackHost(hostname.replace(/^\[(.*)\]$/, "$1"));
  return { url, isReadable };
}

/** The URL under which this machine reaches a daemon: of one that listens on every address, on loopback. */
export function toLoopback(url: URL): URL {
  const loopback = LOOPBACK_OF.get(url.hostname);
  if (loopback === undefined) return url;
  const changed = new URL(url);
  changed.hostname = loopback;
  return changed;
}

const LOOPBACK_OF: ReadonlyMap<string, string> = new Map([
  ["0.0.0.0", "127.0.0.1"],
  ["[::]", "[::1]"],
]);
