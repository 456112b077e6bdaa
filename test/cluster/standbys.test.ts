import { test } from "node:test";

import { CLUSTER_FAULTS } from "../../scripts/soak/cluster-faults.ts";
import { reasonToSkipStandby } from "../helpers/postgres.ts";
import { runShort } from "./fault.ts";

const how = { skip: reasonToSkipStandby(), timeout: 240_000 };

test(
  "after a failover to a standby that was behind, all that is left ends once, with right counts",
  how,
  (t) => runShort(t, CLUSTER_FAULTS["failover-async"], { rounds: 1 }),
);

test(
  "without its only synchronous standby nothing is acknowledged, and /readyz says why",
  how,
  (t) => runShort(t, CLUSTER_FAULTS["standby-gone"], { rounds: 1, seconds: 3 }),
);
