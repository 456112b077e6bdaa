import { test } from "node:test";

import { pinSnapshot } from "../../scripts/cluster/rows.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runShort } from "./row.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };

test("a snapshot that somebody holds open keeps no task from its end", how, (t) =>
  runShort(t, pinSnapshot, { seconds: 5 }),
);
