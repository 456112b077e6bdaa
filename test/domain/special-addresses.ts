import { readFileSync } from "node:fs";

// A second implementation of the address rules, in BigInt ranges: the reference for the classifier.

/** A block of a registry as whole numbers, first and last included. */
export interface Range {
  readonly name: string;
  readonly bits: 32 | 128;
  readonly first: bigint;
  readonly last: bigint;
}

/** Every block of the two IANA special-purpose registries. */
export function registryRanges(): readonly Range[] {
  return ["ipv4", "ipv6"].flatMap((family) => {
    const file = new URL(`../fixtures/iana/iana-${family}-special-registry-1.csv`, import.meta.url);
    const [, ...rows] = csvRows(readFileSync(file, "utf8"));
    return rows.flatMap(([blocks = "", name = ""]) =>
      blocks.split(",").map((block) => toRange(block.replace(/\[\d+\]/, "").trim(), name)),
    );
  });
}

/** The address as a number, parsed by the URL parser. */
export function addressNumber(text: string): bigint {
  const { hostname } = new URL(text.includes(":") ? `http://[${text}]/` : `http://${text}/`);
  if (!hostname.startsWith("[")) {
    return hostname.split(".").reduce((sum, part) => sum * 256n + BigInt(part), 0n);
  }
  const [head = "", tail] = hostname.slice(1, -1).split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  return [...before, ...zeros, ...after].reduce(
    (sum, group) => sum * 65_536n + BigInt(`0x${group}`),
    0n,
  );
}

/** The address in full, uncompressed text. */
export function addressOf(value: bigint, bits: 32 | 128): string {
  if (bits === 32) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join(".");
  const hex = value.toString(16).padStart(32, "0");
  return (hex.match(/.{4}/g) ?? []).join(":");
}

/** Whether the address is public. */
export function isPublicByReference(value: bigint, bits: 32 | 128): boolean {
  if (bits === 32) return !REFUSED.some((range) => range.bits === 32 && holds(range, value));
  if (holds(MAPPED, value) || holds(NAT64, value)) {
    return isPublicByReference(value & 0xffff_ffffn, 32);
  }
  if (value >> 125n !== 1n) return false;
  if (REFUSED.some((range) => range.bits === 128 && holds(range, value))) return false;
  const identifier = (value >> 32n) & 0xffff_ffffn;
  const isIsatap = identifier === 0x0000_5efen || identifier === 0x0200_5efen;
  return !isIsatap || isPublicByReference(value & 0xffff_ffffn, 32);
}

/** Hosts of URLs that a browser resolves to this IPv4 address. */
export function ipv4Spellings(value: bigint): readonly string[] {
  const text = addressOf(value, 32);
  const fullWidth = text.replace(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)));
  const escaped = text.replace(/\d/g, (digit) => `%3${digit}`);
  return [
    ...ipv4Numbers(value),
    ...[`${text}:8080`, fullWidth, escaped, `\u00ad${text}`],
    ...[text.replaceAll(".", "。"), text.replaceAll(".", "%2e"), text.replaceAll(".", "．")],
    ...embeddings(value, "::ffff:"),
    ...embeddings(value, "64:ff9b::"),
  ];
}

/** Hosts of URLs that contain this IPv4 address in a form that is always refused. */
export function ipv4Wrappings(value: bigint): readonly string[] {
  const text = addressOf(value, 32);
  const pair = hexPair(value);
  return [
    `${text}.`,
    `${text}%2e`,
    `0x${value.toString(16)}.`,
    ...embeddings(value, "::"),
    ...embeddings(value, "::ffff:0:"),
    ...embeddings(value, "64:ff9b:1::"),
    ...embeddings(value, "64:ff9b::1:"),
    ...[`[2002:${pair}::]`, `[2002:${pair}::1]`, `[2001:0:${pair}::1]`, `[2001::${pair}]`],
    ...[`[::ffff:${text}%25lo]`, `[fe80::${text}]`],
  ];
}

/** ISATAP hosts, which have the verdict of the IPv4 address inside. */
export function isatapHosts(value: bigint): readonly string[] {
  return [...embeddings(value, "2606:4700::5efe:"), ...embeddings(value, "2606:4700::200:5efe:")];
}

/** Hosts of URLs that resolve to this IPv6 address. */
export function ipv6Spellings(value: bigint): readonly string[] {
  const texts = ipv6Texts(value);
  const hosts = texts.flatMap((text) => [`[${text}]`, `[${text.toUpperCase()}]`]);
  return [...new Set([...hosts, `[${texts[0]}]:8080`, `[${texts[0]}]:00443`])];
}

/** Every text of an IPv6 address (RFC 4291 §2.2), in one case. */
export function ipv6Texts(value: bigint): readonly string[] {
  const padded = addressOf(value, 128).split(":");
  const short = padded.map((group) => group.replace(/^0{1,3}/, ""));
  const tail = addressOf(value & 0xffff_ffffn, 32);
  const dotted = [...short.slice(0, 6), tail];
  return [padded, short, dotted].flatMap((groups) => [groups.join(":"), ...compressions(groups)]);
}

// "::" may replace any run of zero groups.
function compressions(groups: readonly string[]): readonly string[] {
  const texts: string[] = [];
  for (let start = 0; start < groups.length; start++) {
    for (let end = start; end < groups.length && /^0+$/.test(groups[end] ?? ""); end++) {
      texts.push(`${groups.slice(0, start).join(":")}::${groups.slice(end + 1).join(":")}`);
    }
  }
  return texts;
}

// One to four numbers in one of three bases. The last has all remaining bytes.
function ipv4Numbers(value: bigint): readonly string[] {
  const all: string[] = [];
  for (const count of [1, 2, 3, 4]) {
    const leading = Array.from(
      { length: count - 1 },
      (_, at) => (value >> BigInt(24 - 8 * at)) & 255n,
    );
    const last = value & ((1n << BigInt(8 * (5 - count))) - 1n);
    let texts: readonly string[] = [""];
    for (const [at, number] of [...leading, last].entries()) {
      const dot = at === 0 ? "" : ".";
      const bases = [number.toString(), `0x${number.toString(16)}`, `0${number.toString(8)}`];
      texts = texts.flatMap((text) => bases.map((base) => text + dot + base));
    }
    all.push(...texts, ...texts.map((text) => text.toUpperCase()));
    all.push(...texts.map((text) => text.replace(/^0x?/, "$&0000")));
  }
  return [...new Set(all)];
}

function embeddings(value: bigint, prefix: string): readonly string[] {
  const texts = [prefix + addressOf(value, 32), prefix + hexPair(value)];
  return texts.flatMap((text) => [`[${text}]`, `[${text.toUpperCase()}]`]);
}

function hexPair(value: bigint): string {
  return `${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`;
}

function toRange(cidr: string, name: string): Range {
  const [base = "", prefix = ""] = cidr.split("/");
  const bits = base.includes(":") ? 128 : 32;
  const size = 1n << BigInt(bits - Number(prefix));
  const first = addressNumber(base);
  return { name: `${cidr} ${name}`, bits, first, last: first + size - 1n };
}

function holds(range: Range, value: bigint): boolean {
  return range.first <= value && value <= range.last;
}

const MAPPED = toRange("::ffff:0:0/96", "mapped");
const NAT64 = toRange("64:ff9b::/96", "NAT64");
const REFUSED: readonly Range[] = [
  ...registryRanges().filter(({ first }) => first !== MAPPED.first && first !== NAT64.first),
  toRange("224.0.0.0/4", "multicast, in a registry of its own"),
  toRange("168.63.129.16/32", "Azure, in no registry"),
];

// RFC 4180, quoted line breaks included.
function csvRows(text: string): readonly (readonly string[])[] {
  const rows: string[][] = [[]];
  for (const match of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    const [, quoted, plain = "", end] = match;
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain);
    if (end !== ",") rows.push([]);
  }
  return rows.filter((row) => row.length > 1);
}
