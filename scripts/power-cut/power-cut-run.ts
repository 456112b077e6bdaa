import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { factTable, median, sumOf } from "../kit/measure.ts";
import { Random } from "../kit/random.ts";
import { openReceiver } from "../kit/receiver.ts";
import type { Ledger } from "../soak/ledger.ts";
import type { DiskRecord } from "./disk-record.ts";
import { type DiskChange, type PowerCut, imageAt, writeImage } from "./disk.ts";
import { type ImageVerdict, type PromisesAt, checkImage } from "./image-check.ts";
import { Book, type Recording, statusOf } from "./recording.ts";

/** How many images to judge. */
export interface PowerCutPlan {
  readonly recording: Recording;
  /** Read from the recording's traces. */
  readonly disk: DiskRecord;
  /** The folder for images while they are judged. */
  readonly folder: string;
  readonly images: number;
  /** The same images for the same recording and seed. */
  readonly seed: number;
  /** Plants a fault: see {@link PowerCut}. */
  readonly forgetsSyncs: boolean;
  readonly stallMsMax: number;
}

/** A power cut, and what came of it. */
export interface JudgedImage extends ImageVerdict {
  readonly number: number;
  readonly occasion: Occasion;
  readonly power: PowerCut;
  readonly promised: ReturnType<typeof countOf>;
  /** The folder with everything needed to understand its faults; null if it has none. */
  readonly evidence: string | null;
}

/** Cuts the power at so many moments of a recording, and judges what each would have left. */
export async function* cutPower(plan: PowerCutPlan): AsyncGenerator<JudgedImage> {
  const { recording, disk, folder, forgetsSyncs, stallMsMax } = plan;
  const { file, receiverPort: port } = recording;
  const database = basename(file.database);
  const places = placesToCut(disk, database);
  const random = new Random(plan.seed);
  // The currently judged image.
  let ledger: Ledger | null = null;
  const { webhookSecret: secret } = file.account;
  await using receiver = await openReceiver(
    (webhook, status) => ledger?.receive(webhook, { status, secret }),
    { statusOf, port },
  );
  for (let number = 1; number <= plan.images; number++) {
    const occasion = random.choose(OCCASIONS);
    const cut = places[occasion][random.between(0, places[occasion].length - 1)];
    if (cut === undefined) throw new Error(`nothing was recorded to cut the power at: ${occasion}`);
    const power = { cut, seed: random.fork(), forgetsSyncs };
    const promises = promisesAt(recording, disk, cut);
    ledger = promises.book.ledger;
    const promised = countOf(promises.book);
    const image = join(folder, `image-${number}`);
    const configuration = join(file.folder, "postbackd.toml");
    writeImage(imageAt(disk.changes, power), { folder: image, configuration });
    const before = `${image}-before`;
    cpSync(image, before, { recursive: true });
    const placed = { ...file, folder: image, database: join(image, database) };
    const verdict = await checkImage({ file: placed, promises, receiver, stallMsMax });
    const judged = { number, occasion, power, promised, ...verdict };
    const evidence =
      verdict.faults.length === 0 ? null : keepEvidence(judged, { image, before, promises });
    for (const path of [image, before]) rmSync(path, { recursive: true });
    yield { ...judged, evidence };
  }
}

/** How much had been promised. */
function countOf({ ledger, revokedKeys, validKeys }: Book) {
  return {
    tasks: ledger.tasks.size,
    cancelled: ledger.cancelled.size,
    finished: ledger.finished.size,
    collected: ledger.collected.size,
    delivered: ledger.delivered.size,
    revokedKeys: revokedKeys.size,
    validKeys: validKeys.size,
    webhooks: ledger.arrivals.length,
  };
}

/** Copies the image as it was and as the daemon left it, and writes down the faults. Returns the folder. */
function keepEvidence(
  judged: Omit<JudgedImage, "evidence">,
  paths: { readonly image: string; readonly before: string; readonly promises: PromisesAt },
): string {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-power-cut-"));
  cpSync(paths.before, join(folder, "before"), { recursive: true });
  cpSync(paths.image, join(folder, "after"), { recursive: true });
  const { book, killedAt } = paths.promises;
  const promised = {
    tasks: [...book.ledger.tasks.keys()],
    finished: [...book.ledger.finished.keys()],
    delivered: [...book.ledger.delivered],
    revokedKeys: [...book.revokedKeys],
    killedAt,
  };
  writeFileSync(join(folder, "verdict.json"), `${JSON.stringify({ judged, promised }, null, 2)}\n`);
  return folder;
}

// So many answered posts are repeated, the newest: the latest writes are in danger.
const REPEATED_POSTS = 20;

/** Reads in a recording what a daemon had promised at that place on its time line. */
function promisesAt(recording: Recording, disk: DiskRecord, cut: number): PromisesAt {
  const { lives, history } = recording;
  const cutAt = disk.timeOf(cut);
  const book = new Book(cutAt);
  for (const { moment, note } of history) {
    const place = typeof moment === "number" ? null : disk.said.get(moment);
    if (place === undefined) throw new Error(`strace did not see the daemon write ${moment}`);
    if (place === null ? Number(moment) <= cutAt : place < cut) note(book);
  }
  const posts = [...book.posts.values()];
  const accepted = posts.filter(({ ids }) => ids !== null);
  const cancels = accepted
    .flatMap(({ ids, tasks }) => ids?.filter((_, i) => tasks[i]?.cancelAfterMs !== null) ?? [])
    .filter((id) => !book.cancels.has(id))
    .map((id) => ({ kind: "cancel", id, dueAt: 0 }) as const);
  const unanswered = posts.filter(({ ids }) => ids === null);
  const kills = lives.flatMap(({ killedAt }) => killedAt ?? []);
  return {
    book,
    works: [...unanswered, ...accepted.slice(-REPEATED_POSTS), ...cancels],
    // The account is promised when the command that makes it is over.
    hasAccount: cut > (disk.lifeStarts[1] ?? Infinity),
    killedAt: [...kills.filter((at) => at < cutAt), cutAt],
  };
}

/**
 * When the power is cut: right after the daemon answered or sent a webhook, after one of the first of these of a start,
 * at any change of a file, in a checkpoint, or where a file is made, removed, cut short or begun anew.
 */
type Occasion = keyof typeof OCCASIONS;

// Of each sort how often.
const OCCASIONS = { answer: 4, start: 2, any: 3, checkpoint: 2, boundary: 2 };

// They rest on the file as the daemon found it, and not on its own writes.
const FIRST_ANSWERS = 40;

/** Moments to cut the power at, as places on the time line. */
function placesToCut(
  { changes, said, lifeStarts }: DiskRecord,
  database: string,
): Readonly<Record<Occasion, readonly number[]>> {
  const answers = [...said.values()].toSorted((a, b) => a - b);
  const first = (start: number) =>
    answers.filter((answer) => answer > start).slice(0, FIRST_ANSWERS);
  // In the middle of each call and right after it.
  const around = (is: (change: DiskChange) => boolean) =>
    changes.filter(is).flatMap(({ begun, over }) => [begun + 1, over + 1]);
  return {
    answer: answers.map((place) => place + 1),
    start: lifeStarts.flatMap(first).map((place) => place + 1),
    any: around(() => true),
    checkpoint: around((change) => change.kind === "written" && change.name === database),
    boundary: around((change) =>
      change.kind === "written"
        ? change.name === `${database}-wal` && change.offset === 0
        : change.kind !== "synced",
    ),
  };
}

/** The recording and the power cuts as a Markdown table. */
export function powerCutTable(disk: DiskRecord, images: readonly JudgedImage[]): string {
  const changes = (...kinds: readonly DiskChange["kind"][]): readonly DiskChange[] =>
    disk.changes.filter(({ kind }) => kinds.includes(kind));
  const written = changes("written").map((each) =>
    each.kind === "written" ? each.data.length : 0,
  );
  const promised = (what: keyof JudgedImage["promised"]): number =>
    sumOf(images.map((image) => image.promised[what]));
  const occasion = (name: Occasion): number =>
    images.filter((image) => image.occasion === name).length;
  const sum = (what: "duplicates" | "repeated" | "replayed"): number =>
    sumOf(images.map((image) => image[what]));
  const readyMs = images.flatMap((image) => image.readyMs ?? []);
  const broken = images.filter(({ faults }) => faults.length > 0);
  return factTable([
    [
      "processes recorded, all but the first and the last killed under load",
      disk.lifeStarts.length,
    ],
    ["writes recorded", written.length],
    ["of these, MB", (sumOf(written) / 1e6).toFixed(0)],
    ["syncs of files and of the folder", changes("synced", "folder-synced").length],
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
    ["webhooks sent again, their record was cut off", sum("duplicates")],
    ["posts without an answer, sent again", sum("repeated")],
    ["of these, on disk before and answered as kept", sum("replayed")],
    ["revoked keys, each refused", promised("revokedKeys")],
    ["other keys, each good", promised("validKeys")],
    ["start to ready, p50 ms", readyMs.length === 0 ? "–" : median(readyMs).toFixed(0)],
    ["start to ready, slowest ms", readyMs.length === 0 ? "–" : Math.max(...readyMs).toFixed(0)],
    ["images with a promise broken", broken.length],
  ]);
}
