import { test } from "node:test";

import { CLUSTER_FAULTS } from "../../scripts/soak/cluster-faults.ts";
import type { Fault } from "../../scripts/soak/cluster.ts";
import { reasonToSkipStandby } from "../helpers/postgres.ts";
import { runShort } from "./fault.ts";

const goneThenPromoted: Fault = {
  about:
    "The synchronous standby is away, comes back, and is promoted after kill -9 of its primary.",
  usual: { rounds: 1, seconds: 3 },
  standby: "sync",
  damage: async (world, strength) => [
    ...(await CLUSTER_FAULTS["standby-gone"].damage(world, strength)),
    ...(await CLUSTER_FAULTS.failover.damage(world, strength)),
  ],
};

test(
  "nodes acknowledge nothing without their synchronous standby, and lose nothing when it is promoted",
  { skip: reasonToSkipStandby(), timeout: 240_000 },
  (t) => runShort(t, goneThenPromoted),
);
