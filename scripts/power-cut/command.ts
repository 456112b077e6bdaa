import { randomInt } from "node:crypto";
import { mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";

import {
  type Bench,
  defineCommand,
  number,
  optional,
  text,
  toggle,
  whole,
} from "../kit/command.ts";
import { cutPower, type JudgedImage } from "./power-cut-run.ts";
import { hasRecording, loadRecording, record, type Recording } from "./recording.ts";
import { powerCutTable } from "./report.ts";

const STALL_MS_MAX = 60_000;
const SEED_MAX = 1_000_000;

export const command = defineCommand({
  about: `Records every write and every sync of postbackd's database under load, with strace; makes of the record what a
power cut would have left at many moments, all that was synced and a random part of the rest; and starts postbackd on
each of these images to prove that nothing it had promised was lost.`,
  flags: {
    images: whole("power cuts", 200),
    seconds: number("how long the daemon is recorded under load", 8),
    kills: whole("kill -9 so often while it is recorded", 3),
    seed: optional(whole("of the cuts and of what each leaves; printed (drawn)")),
    record: optional(
      text("DIR", "keep the recording in this folder, or use the one that is there"),
    ),
    image: optional(whole("judge this one of the images alone")),
    "forget-syncs": toggle("plant a fault: the last sync of each file before a cut did nothing"),
  },
  async run(values, bench) {
    const { place, note, print } = bench;
    const seed = values.seed ?? randomInt(1, SEED_MAX);
    note(`--seed ${seed}`);
    const folder = resolve(values.record ?? join(place.folder, "record"));
    const recording = await recordOrLoad(folder, bench, values);
    const report = await cutPower({
      recording,
      seed,
      images: values.images,
      folder: place.folder,
      ...(values.image !== null && { onlyImage: values.image }),
      forgetsSyncs: values["forget-syncs"],
      stallMsMax: STALL_MS_MAX,
      onImage: (image) => note(imageLine(image)),
    });
    print(powerCutTable(report));
    const broken = report.images.filter(({ faults }) => faults.length > 0);
    if (broken.length > 0)
      throw new Error(`${broken.length} images with a promise broken; seed ${seed}`);
  },
});

async function recordOrLoad(
  folder: string,
  { place, note }: Bench,
  { kills, seconds }: { readonly kills: number; readonly seconds: number },
): Promise<Recording> {
  const { program } = place;
  mkdirSync(folder, { recursive: true });
  if (hasRecording(folder)) {
    note(`the recording in ${folder}`);
    return loadRecording(folder, program);
  }
  if (readdirSync(folder).length > 0)
    throw new Error(`${folder} has no recording and is not empty; name another folder`);
  const loadMs = (seconds * 1000) / (kills + 1);
  return await record({ program, folder, kills, loadMs, stallMsMax: STALL_MS_MAX });
}

function imageLine({ number, occasion, power, promised, ...verdict }: JudgedImage): string {
  const { readyMs, faults, evidence, duplicates } = verdict;
  const ready = readyMs === null ? "not ready" : `ready in ${readyMs.toFixed(0)} ms`;
  const what = `image ${number}, ${occasion}, line ${power.cut}: ${promised.tasks} tasks`;
  const lines = [`${what}, ${ready}, ${duplicates} webhooks sent again`];
  for (const fault of faults) lines.push(`    BROKEN: ${fault}`);
  if (evidence !== null) lines.push(`    the evidence is in ${evidence}`);
  return lines.join("\n");
}
