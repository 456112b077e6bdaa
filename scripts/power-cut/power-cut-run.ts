import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { Random } from "../kit/random.ts";
import { openReceiver } from "../kit/receiver.ts";
import type { Ledger } from "../soak/ledger.ts";
import { CutChoice, type Occasion } from "./cut-choice.ts";
import { imageAt, writeImage, type PowerCut } from "./disk-image.ts";
import { DiskRecord } from "./disk-record.ts";
import { checkImage, type ImageVerdict } from "./image-check.ts";
import { promisesAt, type PromisesAt } from "./promises-at.ts";
import { statusOf, type Recording } from "./recording.ts";

/** How many images to judge. */
export interface PowerCutOptions {
  readonly recording: Recording;
  /** The folder for images while they are judged. */
  readonly folder: string;
  readonly images: number;
  /** The same images for the same recording and seed. */
  readonly seed: number;
  /** Judge this one alone. */
  readonly onlyImage?: number;
  /** Plants a fault: see {@link PowerCut}. */
  readonly forgetsSyncs: boolean;
  readonly stallMsMax: number;
  readonly onImage: (image: JudgedImage) => void;
}

/** A power cut, and what came of it. */
export interface JudgedImage extends ImageVerdict {
  readonly number: number;
  readonly occasion: Occasion;
  readonly power: PowerCut;
  readonly promised: PromiseCount;
  /** The folder with everything needed to understand its faults; null where there are none. */
  readonly evidence: string | null;
}

/** How much had been promised. */
export type PromiseCount = ReturnType<typeof countOf>;

/** The recording, and the verdict on every image. */
export interface PowerCutReport {
  readonly record: DiskRecord;
  readonly images: readonly JudgedImage[];
}

/** Cuts the power at so many moments of a recording, and judges what each would have left. */
export async function cutPower(options: PowerCutOptions): Promise<PowerCutReport> {
  const { recording, folder, images: imageCount, seed, onlyImage } = options;
  const { file, lives, receiverPort: port } = recording;
  const record = await DiskRecord.read(file.database, lives);
  const choice = new CutChoice(record, basename(file.database));
  const random = new Random(seed);
  // Of the image that is being judged.
  let ledger: Ledger | null = null;
  const { webhookSecret: secret } = file.account;
  await using receiver = await openReceiver(
    (webhook, status) => ledger?.receive(webhook, { status, secret }),
    { statusOf, port },
  );
  const images: JudgedImage[] = [];
  for (let number = 1; number <= imageCount; number++) {
    const { occasion, cut } = choice.draw(random);
    const power = { cut, seed: random.fork(), forgetsSyncs: options.forgetsSyncs };
    if (onlyImage !== undefined && onlyImage !== number) continue;
    const promises = promisesAt(recording, record, cut);
    ledger = promises.ledger;
    const promised = countOf(promises);
    const image = join(folder, `image-${number}`);
    const configuration = join(file.folder, "postbackd.toml");
    writeImage(imageAt(record.changes, power), { folder: image, configuration });
    const before = `${image}-before`;
    cpSync(image, before, { recursive: true });
    const placed = { ...file, folder: image, database: join(image, basename(file.database)) };
    const { stallMsMax } = options;
    const verdict = await checkImage({ file: placed, promises, receiver, stallMsMax });
    const judged = { number, occasion, power, promised, ...verdict };
    const evidence =
      verdict.faults.length === 0 ? null : keepEvidence(judged, { image, before, promises });
    images.push({ ...judged, evidence });
    options.onImage({ ...judged, evidence });
    for (const path of [image, before]) rmSync(path, { recursive: true });
  }
  return { record, images };
}

function countOf({ ledger, revokedKeys, validKeys }: PromisesAt) {
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
  const { ledger, revokedKeys, killedAt } = paths.promises;
  const promised = {
    tasks: [...ledger.tasks.keys()],
    finished: [...ledger.finished.keys()],
    delivered: [...ledger.delivered],
    revokedKeys: [...revokedKeys],
    killedAt,
  };
  writeFileSync(join(folder, "verdict.json"), `${JSON.stringify({ judged, promised }, null, 2)}\n`);
  return folder;
}
