/** In a statement: true when the account with this seq is disabled. A look-up in an index that is mostly empty. */
export function isSuspended(seq: string): string {
  return `EXISTS (
    SELECT 1 FROM accounts INDEXED BY accounts_disabled WHERE disabled_at IS NOT NULL AND seq = ${seq}
  )`;
}

/** In a statement: the next enabled account after a seq. One seek, however many disabled ones are in between. */
export function nextEnabled(seq: string): string {
  return `(
    SELECT min(seq) FROM accounts INDEXED BY accounts_enabled WHERE disabled_at IS NULL AND seq > ${seq}
  )`;
}
