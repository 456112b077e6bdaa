import { test } from "node:test";

import { CLUSTER_FAULTS, lose } from "../../scripts/soak/cluster-faults.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runShort } from "./fault.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };

test(
  "a network that is slow, then silent for longer than a daemon may be, loses nothing",
  how,
  (t) => runShort(t, CLUSTER_FAULTS.halt, { rounds: 1, seconds: 10 }),
);

test("a network that loses data and connections loses nothing that was acknowledged", how, (t) =>
  runShort(t, lose(3), { seconds: 5 }),
);

test(
  "connections that are cut after each of the first messages of batches lose nothing",
  how,
  (t) => runShort(t, CLUSTER_FAULTS.cut, { rounds: 12 }),
);
