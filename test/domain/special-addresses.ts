import { readFileSync } from "node:fs";

// A second, independent reading of the address rules, in BigInt ranges: what the classifier is held
// against.

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

/** The address as a number, by the URL parser's reading. */
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

/** Whether the rules (contract §4, point 4) call the address public. */
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

/** Hosts of URLs that all mean this IPv4 address, or wrap it. */
export function ipv4Spellings(text: string, value: bigint): readonly string[] {
  const [a = 0, b = 0, c = 0, d = 0] = text.split(".").map(Number);
  const hex = value.toString(16);
  const pair = hex.padStart(8, "0").replace(/^(.{4})/, "$1:");
  const octal = [a, b, c, d].map((part) => `0${part.toString(8)}`).join(".");
  const fullWidth = text.replace(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)));
  const escaped = text.replace(/\d/g, (digit) => `%3${digit}`);
  return [
    [text, `${text}.`, `${text}:8080`, value.toString(), `0x${hex}`, `0X${hex}`, octal],
    [`0${value.toString(8)}`, `${a}.${b}.${c * 256 + d}`, `${a}.${value & 0xff_ffffn}`],
    [`0x${a.toString(16)}.${b}.0${c.toString(8)}.${d}`, fullWidth, escaped],
    [text.replaceAll(".", "。"), text.replaceAll(".", "%2e"), `\u00ad${text}`],
    [`[::ffff:${text}]`, `[::ffff:${pair}]`, `[0:0:0:0:0:FFFF:${text}]`, `[64:ff9b::${text}]`],
    [`[64:ff9b::${pair}]`, `[::${text}]`, `[::ffff:0:${text}]`, `[2002:${pair}::]`],
    [`[2001:0:${pair}::1]`, `[2606:4700::5efe:${text}]`, `[64:ff9b:1::${text}]`],
  ].flat();
}

/** Hosts of URLs that all mean this IPv6 address. */
export function ipv6Spellings(text: string): readonly string[] {
  const short = new URL(`http://[${text}]/`).hostname;
  return [`[${text}]`, `[${text.toUpperCase()}]`, short, `${short}:8080`, `[${text}%25eth0]`];
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
