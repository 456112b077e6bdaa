import { defineCommand } from "../kit/command.ts";
import { names, number, optional, whole, wholes } from "../kit/flags.ts";
import type { DeliveryRun } from "./delivery-run.ts";
import { scenarioReport } from "./report.ts";
import { SCENARIOS, runScenario, type Leg } from "./scenario.ts";

export const command = defineCommand({
  about:
    "How late webhooks come when receivers hang, when many deliveries have failed, and when many retries are due.",
  flags: {
    only: names("scenarios", Object.keys(SCENARIOS)),
    seconds: optional(number("of each measurement (hanging 30, backlog 60, lateness 100)")),
    rounds: optional(whole("measurements of each leg, in turn (hanging 5, backlog 3, lateness 1)")),
    rate: optional(number("fresh deliveries a second (hanging 500, backlog 1000, lateness 500)")),
    retries: optional(whole("in the file before (backlog 50000, lateness 100000)")),
    hang: wholes("hosts of the 200 that hang, each number a leg of its own", 2),
    "warm-up": number("seconds of load before a measurement, not counted", 5),
    idle: number("seconds that the daemon's CPU is looked at before and after", 10),
  },
  async run({ only, ...effort }, { place, note, print }) {
    for (const name of only) {
      const scenario = SCENARIOS[name]?.(effort);
      if (scenario === undefined) continue;
      const onResult = (leg: Leg, run: DeliveryRun): void => note(`${leg.name}: ${newsOf(run)}`);
      const results = await runScenario(scenario, { place, onResult });
      print(`${scenarioReport(scenario, results)}\n`);
    }
    print("HTTP without TLS on loopback.");
  },
});

function newsOf({ arrivals, lateness, cpuPercent }: DeliveryRun): string {
  const { fromCompletion: fresh, verified } = arrivals;
  return [
    `${fresh.count} fresh, p50 ${fresh.p50Ms.toFixed(1)} ms, p99 ${fresh.p99Ms.toFixed(1)} ms`,
    `${lateness.count} retries, p99 ${lateness.p99Ms.toFixed(0)} ms late`,
    `${verified} signatures right`,
    `CPU ${cpuPercent.during.toFixed(0)} %`,
  ].join("; ");
}
