import type pg from "pg";

/** Where a database is. */
export interface ServerAddress {
  /** In the order in which they are tried. */
  readonly hosts: readonly pg.ClientConfig[];
}

export function parseServerAddress(url: string): ServerAddress {
  return { hosts: [{ connectionString: url }] };
}
