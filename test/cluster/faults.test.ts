import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { CLUSTER_FAULTS, lose } from "../../scripts/soak/cluster-faults.ts";
import { runFault, type Fault } from "../../scripts/soak/cluster.ts";
import { reasonToSkipPostgres, reasonToSkipStandby } from "../helpers/postgres.ts";
import { testedProgram } from "./start.ts";

/** Runs a fault of `scripts/soak.ts cluster` at its usual strength; rejects unless its verdict is clean. */
async function runShort(t: TestContext, fault: Fault): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  const note = (text: string): void => t.diagnostic(text);
  const bench = { place: { program: testedProgram(), folder }, note, print: note };
  try {
    await runFault(bench, fault, { ...fault.usual, flags: [] });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

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
