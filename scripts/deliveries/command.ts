import { defineCommand } from "../kit/command.ts";
import { names } from "../kit/flags.ts";
import type { DeliveryRun } from "./delivery-run.ts";
import { scenarioReport } from "./report.ts";
import { SCENARIOS, effortFlags, runScenario, type Leg } from "./scenario.ts";

export const command = defineCommand({
  about:
    "How late webhooks come when receivers hang, when many deliveries have failed, and when many retries are due.",
  flags: { only: names("scenarios", Object.keys(SCENARIOS)), ...effortFlags },
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
