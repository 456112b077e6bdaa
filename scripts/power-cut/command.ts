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
import { factTable, median } from "../kit/measure.ts";
import {
  type JudgedImage,
  type PowerCutReport,
  type PromiseCount,
  cutPower,
} from "./power-cut-run.ts";
import { type Recording, hasRecording, loadRecording, record } from "./recording.ts";

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

/** The recording and the power cuts as a Markdown table. */
export function powerCutTable({ record, images }: PowerCutReport): string {
  const count = (kind: string): number =>
    record.changes.filter((change) => change.kind === kind).length;
  const written = record.changes.reduce((sum, change) => {
    return sum + (change.kind === "written" ? change.data.length : 0);
  }, 0);
  const promised = (what: keyof PromiseCount): number =>
    images.reduce((sum, image) => sum + image.promised[what], 0);
  const occasion = (name: string): number =>
    images.filter((image) => image.occasion === name).length;
  const readyMs = images.flatMap((image) => image.readyMs ?? []);
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0);
  const broken = images.filter(({ faults }) => faults.length > 0);
  return factTable([
    [
      "processes recorded, all but the first and the last killed under load",
      record.lifeStarts.length,
    ],
    ["writes recorded", count("written")],
    ["of these, MB", (written / 1e6).toFixed(0)],
    ["syncs of files and of the folder", count("synced") + count("folder-synced")],
    ["images of a power cut", images.length],
    ["of these, right after an answer or a webhook", occasion("answer")],
    ["after one of the first of these of a start", occasion("start")],
    ["in a checkpoint", occasion("checkpoint")],
    ["where a file was made, removed, cut short or begun anew", occasion("boundary")],
    ["at any change of a file", occasion("any")],
    ["accepted tasks, each there and completed, or cancelled", promised("tasks")],
    ["cancelled tasks, each still so and unsent", promised("cancelled")],
    ["tasks shown as finished, each the same byte for byte", promised("finished")],
    ["tasks collected, none ready again", promised("collected")],
    ["webhooks that had gone out, each on record", promised("webhooks")],
    ["webhooks shown as delivered, none sent again", promised("delivered")],
    ["webhooks sent again, their record was cut off", sum(images.map((each) => each.duplicates))],
    ["posts without an answer, sent again", sum(images.map((each) => each.repeated))],
    ["of these, on disk before and answered as kept", sum(images.map((each) => each.replayed))],
    ["revoked keys, each refused", promised("revokedKeys")],
    ["other keys, each good", promised("validKeys")],
    ["start to ready, p50 ms", readyMs.length === 0 ? "–" : median(readyMs).toFixed(0)],
    ["start to ready, slowest ms", readyMs.length === 0 ? "–" : Math.max(...readyMs).toFixed(0)],
    ["images with a promise broken", broken.length],
  ]);
}
