import { test } from "node:test";

import { CLUSTER_FAULTS, lose } from "../../scripts/soak/cluster-faults.ts";
import type { Fault } from "../../scripts/soak/cluster.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runShort } from "./fault.ts";

const badNetwork: Fault = {
  about: "The network loses data and connections, is slow, and then silent.",
  usual: { rounds: 1, seconds: 10 },
  hasProxy: true,
  damage: async (world, strength) => [
    ...(await lose(3).damage(world, { rounds: 1, seconds: 5 })),
    ...(await CLUSTER_FAULTS.halt.damage(world, strength)),
  ],
};

test(
  "no acknowledged task is lost in a network that loses data, is slow, and is silent for 10 s",
  { skip: reasonToSkipPostgres(), timeout: 240_000 },
  (t) => runShort(t, badNetwork),
);
