import { parseArgs } from "node:util";

import { machineDescription } from "./bench/machine.ts";
import type { DeliveryRun } from "./deliveries/delivery-run.ts";
import { scenarioReport } from "./deliveries/report.ts";
import { runScenario } from "./deliveries/scenario-run.ts";
import { SCENARIOS, type Effort, type Leg, type Scenario } from "./deliveries/scenario.ts";
import { positive } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";

/**
 * How late webhooks come when receivers hang, when many deliveries have failed, and when many retries are due.
 */

const HELP = `node --import tsx scripts/deliveries.ts [options]
  --only a,b,…    scenarios: ${Object.keys(SCENARIOS).join(", ")}
  --seconds N     of each measurement (hanging 30, backlog 60, lateness 100)
  --rounds N      measurements of each leg, in turn (hanging 5, backlog 3, lateness 1)
  --rate N        fresh deliveries a second (hanging 500, backlog 1000, lateness 500)
  --retries N     in the file before (backlog 50000, lateness 100000)
  --hang N,…      hosts of the 200 that hang, each number a leg of its own (2)
  --warm-up N     seconds of load before a measurement, not counted (5)
  --idle N        seconds that the daemon's CPU is looked at before and after (10)
  --program P     source, binary or a path; by default the binary where it is newer than the sources
  --folder DIR    where the databases lie while it runs (the folder for temporary files)
`;

await runScript(deliveries);

async function deliveries(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      only: { type: "string", default: Object.keys(SCENARIOS).join(",") },
      seconds: { type: "string" },
      rounds: { type: "string" },
      rate: { type: "string" },
      retries: { type: "string" },
      hang: { type: "string", default: "2" },
      "warm-up": { type: "string", default: "5" },
      idle: { type: "string", default: "10" },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const effort: Effort = {
    seconds: optional("seconds", values.seconds),
    rounds: optional("rounds", values.rounds),
    perSecond: optional("rate", values.rate),
    retries: optional("retries", values.retries),
    hanging: values.hang.split(",").map((count) => positive("hang", count)),
    warmUpSeconds: positive("warm-up", values["warm-up"]),
    idleSeconds: positive("idle", values.idle),
  };
  const scenarios = values.only.split(",").map((name) => scenarioOf(name, effort));
  const program = chooseProgram(values.program);
  using scratch = new ScratchFolder(values.folder);
  const machine = machineDescription(scratch.path);
  process.stderr.write(`measuring ${program.name}\n`);
  const place = { program, folder: scratch.path };
  for (const scenario of scenarios) {
    const results = await runScenario(scenario, { place, onRun: tell });
    process.stdout.write(`${scenarioReport(scenario, results)}\n\n`);
  }
  process.stdout.write(`${program.name}; HTTP without TLS on loopback. ${machine}\n`);
}

function tell({ name }: Leg, { arrivals, lateness, cpuPercent }: DeliveryRun): void {
  const { fromCompletion: fresh, verified } = arrivals;
  const parts = [
    `${fresh.count} fresh, p50 ${fresh.p50Ms.toFixed(1)} ms, p99 ${fresh.p99Ms.toFixed(1)} ms`,
    `${lateness.count} retries, p99 ${lateness.p99Ms.toFixed(0)} ms late`,
    `${verified} signatures right`,
    `CPU ${cpuPercent.during.toFixed(0)} %`,
  ];
  process.stderr.write(`  ${name}: ${parts.join("; ")}\n`);
}

function scenarioOf(name: string, effort: Effort): Scenario {
  const scenario = SCENARIOS[name];
  if (scenario !== undefined) return scenario(effort);
  throw new Error(`--only knows ${Object.keys(SCENARIOS).join(", ")}, not ${name}`);
}

function optional(name: string, text: string | undefined): number | null {
  return text === undefined ? null : positive(name, text);
}
