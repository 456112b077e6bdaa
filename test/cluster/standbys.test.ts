import { test } from "node:test";

import { failOverAsync, loseStandby } from "../../scripts/cluster/standby-rows.ts";
import { reasonToSkipStandby } from "../helpers/postgres.ts";
import { runShort } from "./row.ts";

const how = { skip: reasonToSkipStandby(), timeout: 240_000 };

test(
  "after a failover to a standby that was behind, all that is left ends once, with right counts",
  how,
  (t) => runShort(t, failOverAsync, { rounds: 1 }),
);

test(
  "without its only synchronous standby nothing is acknowledged, and /readyz says why",
  how,
  (t) => runShort(t, loseStandby, { rounds: 1, seconds: 3 }),
);
