import { fault, type Fault } from "../rule.ts";
import {
  type Address,
  type AddressBlock,
  addressText,
  blockText,
  hasHostBits,
  isWithin,
  nat64Ipv4,
  parseAddress,
  parseBlock,
} from "./address.ts";
import { hostNameFault, urlHostname } from "./host-name.ts";

/** The targets that an operator allows although the rules refuse them. To be read through the functions here. */
export interface AllowList {
  readonly hosts: ReadonlyMap<string, readonly PortRule[]>;
  readonly blocks: readonly AllowedBlock[];
}

/** The port that an entry is limited to; null allows every port. */
export type PortRule = number | null;

interface AllowedBlock {
  readonly block: AddressBlock;
  readonly port: PortRule;
}

/** An entry that cannot be read. `reason` completes "webhooks.allow: 'ENTRY' …" and says how to fix it. */
export interface AllowListProblem {
  readonly entry: string;
  readonly reason: string;
}

export type AllowListVerdict =
  | { readonly kind: "allow-list"; readonly list: AllowList }
  | { readonly kind: "fault"; readonly problems: readonly AllowListProblem[] };

export const EMPTY_ALLOW_LIST: AllowList = { hosts: new Map(), blocks: [] };

/**
 * Reads `webhooks.allow`. Each entry is an address (`127.0.0.1`, `::1`), a block without host bits (`10.1.0.0/16`,
 * `fd00::/8`) or a host name (`receiver.lan`), each with an optional `:port`, for IPv6 after brackets (`[::1]:9000`,
 * `[fd00::/8]:9000`). All faults are reported together.
 */
export function parseAllowList(entries: readonly string[]): AllowListVerdict {
  const hosts = new Map<string, PortRule[]>();
  const blocks: AllowedBlock[] = [];
  const problems: AllowListProblem[] = [];
  for (const entry of entries) {
    const parsed = parseEntry(entry);
    if (parsed.kind === "fault") problems.push({ entry, reason: parsed.reason });
    else if (parsed.kind === "block") blocks.push(parsed);
    else hosts.set(parsed.host, [...(hosts.get(parsed.host) ?? []), parsed.port]);
  }
  if (problems.length > 0) return { kind: "fault", problems };
  return { kind: "allow-list", list: { hosts, blocks } };
}

/** True if an entry names this host (lower-case punycode) and port. It lifts every rule for the name. */
export function allowsHost(list: AllowList, host: string, port: number): boolean {
  return list.hosts.get(host)?.some((rule) => rule === null || rule === port) ?? false;
}

/**
 * True when an address entry holds this address and port. It lifts only the address rule, not those for names. An entry
 * for an IPv4 address also holds the IPv4-mapped and NAT64 addresses of it; no entry holds an address with a zone.
 */
export function allowsAddress(list: AllowList, address: Address, port: number): boolean {
  // The common case is an empty list, which costs nothing per delivery.
  if (list.blocks.length === 0 || address.zone !== null) return false;
  const inner = nat64Ipv4(address.bytes);
  return list.blocks.some(({ block, port: rule }) => {
    if (rule !== null && rule !== port) return false;
    return isWithin(address.bytes, block) || (inner !== null && isWithin(inner, block));
  });
}

/** True if the list allows every target of an entry: `127.0.0.1` also allows `127.0.0.1:9000`. */
export function allowsEntry(list: AllowList, entry: string): boolean {
  const parsed = parseEntry(entry);
  if (parsed.kind === "fault") return false;
  const allowsPort = (rule: PortRule): boolean => rule === null || rule === parsed.port;
  if (parsed.kind === "host") return list.hosts.get(parsed.host)?.some(allowsPort) ?? false;
  const { bytes, prefixBits } = parsed.block;
  return list.blocks.some(
    ({ block, port }) =>
      allowsPort(port) && block.prefixBits <= prefixBits && isWithin(bytes, block),
  );
}

type ParsedEntry =
  | { readonly kind: "block"; readonly block: AddressBlock; readonly port: PortRule }
  | { readonly kind: "host"; readonly host: string; readonly port: PortRule }
  | Fault;

// Something in brackets, or something without colons, then an optional port.
const WITH_PORT = /^(?:\[([^[\]]*)\]|([^:[\]]*))(?::([^:]*))?$/;
const PORT = /^[1-9]\d{0,4}$/;

function parseEntry(entry: string): ParsedEntry {
  if (entry === "") return fault("is empty: remove it");
  if (/\s/.test(entry)) return fault("contains white space: list each target separately");
  // Two colons and no brackets: IPv6 without a port. "::1:9000" is an address in itself, without a port.
  const bare = parseBlock(entry);
  if (bare !== null) return toBlockEntry(bare, null);
  const misfit = misfitOf(entry);
  if (misfit !== null) return fault(misfit);
  const match = WITH_PORT.exec(entry);
  if (match === null) {
    return fault("is not an address, block or host name: write IPv6 with a port as [::1]:9000");
  }
  const [, bracketed, plain = "", portText] = match;
  if (portText !== undefined && !isPort(portText)) {
    return fault("has an invalid port: write a number from 1 to 65535 after the colon");
  }
  const port = portText === undefined ? null : Number(portText);
  if (bracketed !== undefined) return parseBracketed(bracketed, port);
  const block = parseBlock(plain);
  return block === null ? parseHost(plain, port) : toBlockEntry(block, port);
}

// Mistakes that people make here in good faith; each gets the sentence that repairs it.
function misfitOf(entry: string): string | null {
  if (entry.includes("://")) return "is a URL: write only HOST or HOST:PORT";
  if (entry.includes("@")) return "contains credentials: write only HOST or HOST:PORT";
  if (entry.includes("*")) {
    return "has a wildcard: list each host name, or the addresses as a block such as 10.1.0.0/16";
  }
  if (entry.includes("%")) return "contains a %: zones and encoded names cannot be allowed";
  return null;
}

function isPort(text: string): boolean {
  return PORT.test(text) && Number(text) <= 65_535;
}

function toBlockEntry(block: AddressBlock, port: PortRule): ParsedEntry {
  if (!hasHostBits(block)) return { kind: "block", block, port };
  const exact = addressText({ bytes: block.bytes, zone: null });
  const repair = `write ${blockText(block)} for the block, or ${exact} for the address`;
  return fault(`has bits set after its prefix: ${repair}`);
}

function parseBracketed(text: string, port: PortRule): ParsedEntry {
  const block = text.includes(":") ? parseBlock(text) : null;
  if (block === null) return fault("has no IPv6 address between its brackets: write [::1]:9000");
  return toBlockEntry(block, port);
}

function parseHost(text: string, port: PortRule): ParsedEntry {
  if (/[/\\?#]/.test(text)) {
    return fault(
      "is not a valid block or host: write 10.1.0.0/16 for a block, or a host without a path",
    );
  }
  const host = urlHostname(text);
  if (host === null) return fault("is not a valid address, block or host name: correct it");
  // A URL takes "127.1" and "0x7f.1" for addresses; the list has one spelling for each address.
  if (parseAddress(host) !== null) return fault(`is an address in another spelling: write ${host}`);
  const misfit = hostNameFault(host);
  if (misfit !== null) return fault(`has an invalid host name (${misfit.rule}): correct it`);
  return { kind: "host", host, port };
}
