/** In a statement: true when the account with this seq is disabled. A look-up in an index that is mostly empty. */
export function isHeld(seq: string): string {
  return `EXISTS (SELECT 1 FROM accounts AS h WHERE h.disabled_at IS NOT NULL AND h.seq = ${seq})`;
}

/** In a statement: the next enabled account after a seq; passes over the disabled ones in between. */
export function nextEnabled(seq: string): string {
  return `(SELECT h.seq FROM accounts AS h WHERE h.disabled_at IS NULL AND h.seq > ${seq} ORDER BY h.seq LIMIT 1)`;
}
