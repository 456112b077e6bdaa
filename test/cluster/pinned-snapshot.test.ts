import { test } from "node:test";

import { pinSnapshot } from "../../scripts/cluster/pinned-snapshot.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runShort } from "./row.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };

test(
  "a snapshot that somebody holds open keeps no task from its end, nor has claims read all that is dead",
  how,
  (t) => runShort(t, pinSnapshot, { seconds: 10, dead: 20_000 }),
);
