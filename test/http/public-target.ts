/**
 * An independent implementation of the rule for public webhook targets (webhooks.md). It computes with whole numbers
 * and a list of blocks, on the stored characters of the URL.
 */

const BLOCKS_4 = `
  0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
  192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16
  192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4`;
const BLOCKS_6 = "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20";
const LOCAL_NAMES =
  /(^|\.)(localhost|localdomain|local|internal|intranet|lan|home|corp|private|home\.arpa|onion)$/;
const STORED_URL =
  /^https?:\/\/(\[[0-9a-f:]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::([1-9]\d{0,4}))?\/[\x21\x22\x24-\x7e]*$/;

interface Block {
  readonly first: bigint;
  readonly last: bigint;
}

/** The fault of a stored webhook URL; null if it is in normal form and its target is public. */
export function publicTargetFault(url: string): string | null {
  const match = STORED_URL.exec(url);
  const host = match?.[1];
  if (host === undefined) return "it is not in normal form";
  if (url.length > 2048) return "it is too long";
  if (Number(match?.[2] ?? 1) > 65_535) return "its port is too large";
  if (host.startsWith("[")) {
    return isPublic6(ipv6Number(host.slice(1, -1))) ? null : "its IPv6 address is not public";
  }
  // To a URL parser, a host that ends in a number is an IPv4 address.
  const isAddress = /(^|\.)(\d+|0x[0-9a-f]*)$/.test(host);
  if (!isAddress) return nameFault(host);
  if (!/^(\d{1,3}\.){3}\d{1,3}$/.test(host)) return "its IPv4 address is not in dotted quads";
  return isPublic4(ipv4Number(host)) ? null : "its IPv4 address is not public";
}

function nameFault(name: string): string | null {
  if (!name.includes(".")) return "its name has no dot";
  if (name.length > 253 || name.split(".").some((label) => label.length > 63)) {
    return "its name is too long";
  }
  return LOCAL_NAMES.test(name) ? "its name is local" : null;
}

const REFUSED_4 = BLOCKS_4.trim()
  .split(/\s+/)
  .map((cidr) => toBlock(cidr, 32));
const REFUSED_6 = BLOCKS_6.split(" ").map((cidr) => toBlock(cidr, 128));
const MAPPED = toBlock("::ffff:0:0/96", 128);
const NAT64 = toBlock("64:ff9b::/96", 128);
const GLOBAL_UNICAST = toBlock("2000::/3", 128);

function isPublic4(address: bigint): boolean {
  return !REFUSED_4.some((block) => holds(block, address));
}

function isPublic6(address: bigint): boolean {
  const inside = address & 0xffff_ffffn;
  if (holds(MAPPED, address) || holds(NAT64, address)) return isPublic4(inside);
  if (!holds(GLOBAL_UNICAST, address)) return false;
  if (REFUSED_6.some((block) => holds(block, address))) return false;
  const identifier = (address >> 32n) & 0xffff_ffffn;
  return (identifier | 0x0200_0000n) !== 0x0200_5efen || isPublic4(inside);
}

function holds({ first, last }: Block, address: bigint): boolean {
  return first <= address && address <= last;
}

function toBlock(cidr: string, bits: 32 | 128): Block {
  const [base = "", prefix = ""] = cidr.split("/");
  const first = bits === 32 ? ipv4Number(base) : ipv6Number(base);
  return { first, last: first + (1n << BigInt(bits - Number(prefix))) - 1n };
}

function ipv4Number(text: string): bigint {
  const parts = text.split(".").map(BigInt);
  if (parts.length !== 4 || parts.some((part) => part > 255n)) throw new RangeError(text);
  return parts.reduce((sum, part) => sum * 256n + part, 0n);
}

function ipv6Number(text: string): bigint {
  const [head = "", tail, ...more] = text.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const missing = 8 - before.length - after.length;
  const isWhole = tail === undefined ? missing === 0 : missing > 0 && more.length === 0;
  if (!isWhole) throw new RangeError(text);
  const groups = [...before, ...Array.from({ length: missing }, () => "0"), ...after];
  return groups.reduce((sum, group) => sum * 65_536n + BigInt(`0x${group}`), 0n);
}
