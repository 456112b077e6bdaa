import { isWithin, parseAddress, parseBlock } from "./address-text.ts";

const LOOPBACK_BLOCKS = ["127.0.0.0/8", "::1/128"].flatMap((text) => parseBlock(text) ?? []);

/** True for localhost and loopback addresses, which other machines cannot reach. */
export function isLoopbackHost(host: string): boolean {
  const address = parseAddress(host);
  if (address === null) return host.toLowerCase() === "localhost";
  return LOOPBACK_BLOCKS.some((block) => isWithin(address.bytes, block));
}
