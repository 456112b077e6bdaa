import { randomInt } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { defineCommand, number, optional, runCommands, toggle, whole } from "./kit/command.ts";
import { DiskRecord } from "./power-cut/disk-record.ts";
import { cutPower, powerCutTable, type JudgedImage } from "./power-cut/power-cut-run.ts";
import { record } from "./power-cut/recording.ts";

const STALL_MS_MAX = 60_000;
const SEED_MAX = 1_000_000;

const command = defineCommand({
  about: `Records every write and every sync of postbackd's database under load, with strace; makes of the record what a
power cut would have left at many moments, all that was synced and a random part of the rest; and starts postbackd on
each of these images to prove that nothing it had promised was lost.`,
  flags: {
    images: whole("power cuts", 200),
    seconds: number("how long the daemon is recorded under load", 8),
    kills: whole("kill -9 so often while it is recorded", 3),
    seed: optional(whole("of the cuts and of what each leaves; printed (drawn)")),
    "forget-syncs": toggle("plant a fault: the last sync of each file before a cut did nothing"),
  },
  async run({ images, seconds, kills, seed: given, ...flags }, { place, note, print }) {
    const seed = given ?? randomInt(1, SEED_MAX);
    note(`--seed ${seed}`);
    const folder = join(place.folder, "record");
    mkdirSync(folder);
    const loadMs = (seconds * 1000) / (kills + 1);
    const common = { program: place.program, stallMsMax: STALL_MS_MAX };
    const recording = await record({ ...common, folder, kills, loadMs });
    const disk = await DiskRecord.read(recording.file.database, recording.lives);
    const plan = { recording, disk, folder: place.folder, images, seed, stallMsMax: STALL_MS_MAX };
    const judged: JudgedImage[] = [];
    for await (const image of cutPower({ ...plan, forgetsSyncs: flags["forget-syncs"] })) {
      judged.push(image);
      note(imageLine(image));
    }
    print(powerCutTable(disk, judged));
    const broken = judged.filter(({ faults }) => faults.length > 0);
    if (broken.length > 0)
      throw new Error(`${broken.length} images with a promise broken; seed ${seed}`);
  },
});

function imageLine({ number, occasion, power, promised, ...verdict }: JudgedImage): string {
  const { readyMs, faults, evidence, duplicates } = verdict;
  const ready = readyMs === null ? "not ready" : `ready in ${readyMs.toFixed(0)} ms`;
  const what = `image ${number}, ${occasion}, line ${power.cut}: ${promised.tasks} tasks`;
  const lines = [`${what}, ${ready}, ${duplicates} webhooks sent again`];
  for (const fault of faults) lines.push(`    BROKEN: ${fault}`);
  if (evidence !== null) lines.push(`    the evidence is in ${evidence}`);
  return lines.join("\n");
}

/** Finds what a power cut would leave of the daemon's files, and whether the daemon keeps its promises on that. */
await runCommands("node --import tsx scripts/power-cut.ts", { "power-cut": async () => command });
