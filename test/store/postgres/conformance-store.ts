import { describe, type TestContext } from "node:test";

import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { exerciseStore, type OpenedStore, type StoreLimits } from "../conformance.ts";
import { exercisePlans, recordStatements } from "./statement-plans.ts";

const PARTS = 3;

/** Holds the store on PostgreSQL to a part of the suite: in one process it would be the longest file of all. */
export function exercisePart(part: number): void {
  const statements = recordStatements();
  describe("the store on PostgreSQL", { skip: reasonToSkipPostgres() }, () => {
    exerciseStore("postgres", open, { part, of: PARTS });
  });
  exercisePlans(statements);
}

async function open(t: TestContext, limits: StoreLimits = {}): Promise<OpenedStore> {
  const url = await newDatabaseUrl(t);
  const again = async (more: StoreLimits = limits) => {
    const store = await openPostgresStore({
      server: parseServerAddress(url),
      kind: "node",
      node: { name: "test", url: null, version: "0" },
      notify: false,
      backlogMax: more.backlogMax ?? 10_000,
      examineMax: more.examineMax,
    });
    t.after(() => store.close());
    return store;
  };
  return { store: await again(), again };
}
