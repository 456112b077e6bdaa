import {
  blockText,
  hasHostBits,
  isWithin,
  parseAddress,
  parseBlock,
} from "../domain/address-text.ts";
import { hostNameFault } from "../domain/host-name.ts";
import { fault, quote } from "./value.ts";
import type { ValueKind } from "./value.ts";

/** An address or a name to listen on, without a port; IPv6 with or without brackets. */
export const hostValue: ValueKind<string> = {
  form: "text",
  hint: "HOST",
  parse(raw) {
    const text = typeof raw === "string" ? raw.replace(/^\[(.*)\]$/, "$1") : "";
    const isHost = parseAddress(text) !== null || hostNameFault(text.toLowerCase()) === null;
    if (isHost) return { kind: "value", value: text };
    return fault(`must be an address or a name, without scheme and port, not ${quote(raw)}`);
  },
};

/** An http or https URL of nothing but scheme, host and port, or nothing where none is given. */
export const originOrNone: ValueKind<string | null> = {
  form: "text",
  hint: "URL",
  parse(raw) {
    if (raw === null) return { kind: "value", value: null };
    const url =
      typeof raw === "string" && /^https?:\/\/[^\s\\]+$/i.test(raw) ? URL.parse(raw) : null;
    const isOrigin = url !== null && url.href === `${url.origin}/`;
    if (isOrigin) return { kind: "value", value: url.origin };
    return fault(
      `must be a URL without path, such as "https://postbackd.example.com", not ${quote(raw)}`,
    );
  },
};

/** The address of a name server, with a port where it is not 53; IPv6 then in brackets. */
export const nameServerValue: ValueKind<string> = {
  form: "text",
  hint: "ADDRESS",
  parse(raw) {
    const text = typeof raw === "string" ? raw : "";
    const [, bracketed, plain, port = "53"] =
      /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
    const address = bracketed ?? plain ?? text;
    const isPort = Number(port) >= 1 && Number(port) <= 65_535;
    if (parseAddress(address) !== null && isPort) return { kind: "value", value: text };
    return fault(
      `must be an address, with a port where it is not 53, such as "192.0.2.53" or "[::1]:5353", not ${quote(raw)}`,
    );
  },
};

/** A network in CIDR form, or one address. */
export const networkValue: ValueKind<string> = {
  form: "text",
  hint: "CIDR",
  parse(raw) {
    const block = typeof raw === "string" ? parseBlock(raw) : null;
    if (typeof raw !== "string" || block === null) {
      return fault(`must be a network such as "10.0.0.0/8" or "fd00::/8", not ${quote(raw)}`);
    }
    // 10.1.2.3/8 may mean one machine or all of 10.0.0.0/8; a trust this wide is not to be guessed.
    if (hasHostBits(block)) {
      return fault(`has bits behind its prefix: for ${quote(raw)} write "${blockText(block)}"`);
    }
    return { kind: "value", value: raw };
  },
};

const LOOPBACK_BLOCKS = ["127.0.0.0/8", "::1/128"].flatMap((text) => parseBlock(text) ?? []);

/** True for localhost and loopback addresses: what other machines cannot reach. */
export function isLoopbackHost(host: string): boolean {
  const address = parseAddress(host);
  if (address === null) return host.toLowerCase() === "localhost";
  return LOOPBACK_BLOCKS.some((block) => isWithin(address.bytes, block));
}
