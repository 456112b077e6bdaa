import { mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { wholeNumber } from "./kit/number-flag.ts";
import { cutPower, type JudgedImage } from "./power-cut/power-cut-run.ts";
import { hasRecording, loadRecording, record, type Recording } from "./power-cut/recording.ts";
import { powerCutTable } from "./power-cut/report.ts";
import { chooseProgram, type Program } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";

/**
 * Records every write and every sync of postbackd's database under load, with strace; makes of the record what a power cut
 * would have left at many moments, all that was synced and a random part of the rest; and starts postbackd on each of these
 * images to prove that nothing it had promised was lost.
 */

const HELP = `node --import tsx scripts/power-cut.ts [options]
  --images N       power cuts (200)
  --seconds N      how long the daemon is recorded under load (8)
  --kills N        kill -9 so often while it is recorded (3)
  --seed N         of the cuts and of what each leaves; printed, random by default
  --record DIR     keep the recording in this folder, or use the one that is there
  --image N        judge this one of the images alone
  --forget-syncs   plant a fault: the last sync of each file before a cut did nothing
  --program P      source, binary or a path; by default the binary where it is newer than the sources
  --folder DIR     where databases lie while they run (the folder for temporary files)
`;

const STALL_MS_MAX = 60_000;

await runScript(powerCut);

async function powerCut(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      images: { type: "string", default: "200" },
      seconds: { type: "string", default: "8" },
      kills: { type: "string", default: "3" },
      seed: { type: "string" },
      record: { type: "string" },
      image: { type: "string" },
      "forget-syncs": { type: "boolean", default: false },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  using scratch = new ScratchFolder(values.folder);
  const program = chooseProgram(values.program);
  const seed = values.seed === undefined ? newSeed() : wholeNumber("seed", values.seed);
  process.stderr.write(`cutting the power of ${program.name}, seed ${seed}\n`);
  const recordFolder = resolve(values.record ?? join(scratch.path, "record"));
  const recording = await recordOrLoad(recordFolder, program, {
    kills: wholeNumber("kills", values.kills),
    seconds: wholeNumber("seconds", values.seconds),
  });
  const report = await cutPower({
    recording,
    folder: scratch.path,
    images: wholeNumber("images", values.images),
    seed,
    ...(values.image !== undefined && { onlyImage: wholeNumber("image", values.image) }),
    forgetsSyncs: values["forget-syncs"],
    stallMsMax: STALL_MS_MAX,
    onImage: (image) => process.stderr.write(`${imageLine(image)}\n`),
  });
  process.stdout.write(`${powerCutTable(report)}\n`);
  const broken = report.images.filter(({ faults }) => faults.length > 0);
  if (broken.length > 0)
    throw new Error(`${broken.length} images with a promise broken; seed ${seed}`);
}

async function recordOrLoad(
  folder: string,
  program: Program,
  { kills, seconds }: { readonly kills: number; readonly seconds: number },
): Promise<Recording> {
  mkdirSync(folder, { recursive: true });
  if (hasRecording(folder)) {
    process.stderr.write(`the recording in ${folder}\n`);
    return loadRecording(folder, program);
  }
  if (readdirSync(folder).length > 0)
    throw new Error(`${folder} has no recording and is not empty; name another folder`);
  const loadMs = (seconds * 1000) / (kills + 1);
  return await record({ program, folder, kills, loadMs, stallMsMax: STALL_MS_MAX });
}

function newSeed(): number {
  return 1 + Math.floor(Math.random() * 1e6);
}

function imageLine({ number, occasion, power, promised, ...verdict }: JudgedImage): string {
  const { readyMs, faults, evidence, duplicates } = verdict;
  const ready = readyMs === null ? "not ready" : `ready in ${readyMs.toFixed(0)} ms`;
  const what = `image ${number}, ${occasion}, line ${power.cut}: ${promised.tasks} tasks`;
  const lines = [`  ${what}, ${ready}, ${duplicates} webhooks sent again`];
  for (const fault of faults) lines.push(`    BROKEN: ${fault}`);
  if (evidence !== null) lines.push(`    the evidence is in ${evidence}`);
  return lines.join("\n");
}
