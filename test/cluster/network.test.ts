import { test } from "node:test";

import { cutConnections, haltNetwork, loseData } from "../../scripts/cluster/network-rows.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runShort } from "./row.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };

test(
  "a network that is slow, then silent for longer than a daemon may be, loses nothing",
  how,
  (t) => runShort(t, haltNetwork, { rounds: 1, seconds: 10 }),
);

test("a network that loses data and connections loses nothing that was acknowledged", how, (t) =>
  runShort(t, loseData, { seconds: 5, loss: 3, resend: 200, tries: 1 }),
);

test(
  "connections that are cut after each of the first messages of batches lose nothing",
  how,
  (t) => runShort(t, cutConnections, { rounds: 12, places: 12 }),
);
