import type { DaemonPlace } from "../bench/bench-daemon.ts";
import { runDeliveries, type DeliveryRun } from "./delivery-run.ts";
import type { Leg, Scenario } from "./scenario.ts";

/** A leg and its runs, by round. */
export interface LegResult {
  readonly leg: Leg;
  readonly runs: readonly DeliveryRun[];
}

/** Measures the legs of a scenario in turn, round by round: what else the machine does hits neighbours in time alike. */
export async function runScenario(
  { legs, rounds }: Scenario,
  options: {
    readonly place: DaemonPlace;
    /** Told of every run as it is done. */
    readonly onRun: (leg: Leg, run: DeliveryRun) => void;
  },
): Promise<readonly LegResult[]> {
  const results = legs.map((leg) => ({ leg, runs: new Array<DeliveryRun>() }));
  for (let round = 0; round < rounds; round++) {
    for (const { leg, runs } of results) {
      const run = await runDeliveries({ ...leg.plan, place: options.place });
      runs.push(run);
      options.onRun(leg, run);
    }
  }
  return results;
}
