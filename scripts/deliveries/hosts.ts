/** So many addresses of 127.0.0.0/8, each a host of its own; another `block` (1–254) makes others. */
export function hostAddresses(count: number, block: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => {
    return `127.${block}.${Math.floor(i / 250)}.${1 + (i % 250)}`;
  });
}
