import type { DaemonPlace } from "../kit/daemon-file.ts";
import { inTurn } from "../kit/in-turn.ts";
import { runDeliveries, type DeliveryRun } from "./delivery-run.ts";
import type { Leg, Scenario } from "./scenario.ts";

/** A leg and its runs, by round. */
export interface LegResult {
  readonly leg: Leg;
  readonly runs: readonly DeliveryRun[];
}

/** Measures the legs of a scenario in turn. */
export async function runScenario(
  { legs, rounds }: Scenario,
  options: {
    readonly place: DaemonPlace;
    /** Called with every run as soon as it is done. */
    readonly onRun: (leg: Leg, run: DeliveryRun) => void;
  },
): Promise<readonly LegResult[]> {
  const measured = await inTurn(legs, {
    rounds,
    uncounted: 0,
    onResult: options.onRun,
    measure: (leg) => runDeliveries({ ...leg.plan, place: options.place }),
  });
  return measured.map(({ leg, results: runs }) => ({ leg, runs }));
}
