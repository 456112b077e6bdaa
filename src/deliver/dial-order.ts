/**
 * Puts the addresses of a host into the order to dial them. The families take turns (RFC 8305 §4), so that the first
 * few hold one of each. IPv4 begins: where only one family works, it is IPv4. The order within a family stays. Each
 * address is in canonical text, with an IPv4-mapped one written as IPv4.
 */
export function toDialOrder(addresses: readonly string[]): readonly string[] {
  const ipv4 = addresses.filter((address) => !isIpv6(address));
  const ipv6 = addresses.filter(isIpv6);
  const turns = Array.from({ length: Math.max(ipv4.length, ipv6.length) }, (_, turn) => turn);
  return turns.flatMap((turn) => [...ipv4.slice(turn, turn + 1), ...ipv6.slice(turn, turn + 1)]);
}

function isIpv6(address: string): boolean {
  return address.includes(":");
}
