import type { Offload, WorkTable } from "../../src/domain/json/json.ts";

/** Parses immediately, in the calling thread. */
export function inlineOffload<Table extends WorkTable>(table: Table): Offload<Table> {
  return {
    // The table's own function for this name, which takes what was given for it.
    run: async (name, args) => (table[name] as (given: unknown) => never)(args),
  };
}
