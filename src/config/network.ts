import { blockText, hasHostBits, parseAddress, parseBlock } from "../domain/address/address.ts";
import { HOST, parseHost } from "../domain/address/host-name.ts";
import { quote, textRule, type Rule } from "../domain/rule.ts";

/**
 * An address or a name to listen on, without a port; IPv6 with or without brackets. Every host that is valid elsewhere
 * is valid here, and so is an address with a zone. An address stays as it was written, because the ready line repeats
 * it.
 */
export const LISTEN_HOST: Rule<string> = textRule({
  ...HOST,
  read(text) {
    const address = text.includes(":") ? text.replace(/^\[(.*)\]$/, "$1") : text;
    return parseAddress(address) === null ? parseHost(text) : address;
  },
});

/** An http or https URL with only scheme, host and port. */
export const ORIGIN: Rule<string> = textRule({
  takes: 'a URL without path, such as "https://postbackd.example.com"',
  hint: "URL",
  schema: { type: "string", format: "uri" },
  read(text) {
    const url = /^https?:\/\/[^\s\\]+$/i.test(text) ? URL.parse(text) : null;
    return url !== null && url.href === `${url.origin}/` ? url.origin : null;
  },
});

/** The address of a name server, with a port unless it is 53; IPv6 is then in brackets. */
export const NAME_SERVER: Rule<string> = textRule({
  takes: 'an address, with a port where it is not 53, such as "192.0.2.53" or "[::1]:5353"',
  hint: "ADDRESS",
  schema: { type: "string" },
  read(text) {
    const [, bracketed, plain, port = "53"] =
      /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
    const isPort = Number(port) >= 1 && Number(port) <= 65_535;
    return parseAddress(bracketed ?? plain ?? text) !== null && isPort ? text : null;
  },
});

/** An address or a name to listen on, with its port; IPv6 in brackets. */
export const LISTEN_ADDRESS: Rule<string> = textRule({
  takes: 'an address with its port, such as "127.0.0.1:9464" or "[::1]:9464"',
  hint: "ADDRESS",
  schema: { type: "string" },
  read(text) {
    const [, host, port = ""] = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/.exec(text) ?? [];
    if (host === undefined || Number(port) > 65_535) return null;
    return LISTEN_HOST.parse(host).kind === "value" ? text : null;
  },
});

/** A network in CIDR form, or one address. */
export const NETWORK: Rule<string> = textRule({
  takes: 'a network such as "10.0.0.0/8" or "fd00::/8"',
  hint: "CIDR",
  schema: { type: "string" },
  read(text) {
    const block = parseBlock(text);
    return block === null || hasHostBits(block) ? null : text;
  },
  // 10.1.2.3/8 may mean one machine or all of 10.0.0.0/8, and so wide a trust must not be guessed.
  mistake(raw) {
    const block = typeof raw === "string" ? parseBlock(raw) : null;
    if (block === null) return null;
    return `has bits behind its prefix: for ${quote(raw)} write "${blockText(block)}"`;
  },
});
