import { factTable, median } from "../kit/measure.ts";
import type { PowerCutReport, PromiseCount } from "./power-cut-run.ts";

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
