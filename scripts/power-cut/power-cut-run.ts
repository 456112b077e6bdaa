import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { Random } from "../kit/random.ts";
import { openReceiver } from "../kit/receiver.ts";
import { type Cancel, type Post, bookPost } from "../soak/client.ts";
import { Ledger } from "../soak/ledger.ts";
import { DiskRecord } from "./disk-record.ts";
import { type DiskChange, type PowerCut, imageAt, writeImage } from "./disk.ts";
import { type ImageVerdict, checkImage } from "./image-check.ts";
import { type HistoryEntry, type Recording, statusOf } from "./recording.ts";

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

/** The promises of a daemon at the moment of the power cut. */
export interface PromisesAt {
  /** Whether there was an account. Without one nothing was promised. */
  readonly hasAccount: boolean;
  readonly ledger: Ledger;
  /** The requests that its clients have to repeat, and some that were answered already. */
  readonly works: readonly (Post | Cancel)[];
  readonly revokedKeys: ReadonlySet<string>;
  /** Keys that nobody had tried to revoke. */
  readonly validKeys: ReadonlySet<string>;
  /** When daemons had ended without being asked to, the power cut included; in epoch milliseconds. */
  readonly killedAt: readonly number[];
}

// So many answered posts are repeated, the newest: the latest writes are in danger.
const REPEATED_POSTS = 20;

/** Reads in a recording what a daemon had promised at that place on its time line. */
export function promisesAt(recording: Recording, record: DiskRecord, cut: number): PromisesAt {
  const { lives, file, history } = recording;
  const cutAt = record.timeOf(cut);
  const before = history.filter((entry) => isBefore(entry, { record, cut, cutAt }));
  const keys = { revokedKeys: new Set<string>(), validKeys: new Set<string>() };
  const book = { ledger: new Ledger(), posts: new Map<string, Post>(), ...keys };
  for (const entry of before) takeEntry(entry, { ...book, account: file.account, cutAt });
  const kills = lives.flatMap(({ killedAt }) => killedAt ?? []);
  return {
    ...keys,
    ledger: book.ledger,
    works: unansweredWorks([...book.posts.values()], before),
    // The account is promised when the command that makes it is over.
    hasAccount: cut > (record.lifeStarts[1] ?? Infinity),
    killedAt: [...kills.filter((at) => at < cutAt), cutAt],
  };
}

function takeEntry(
  entry: HistoryEntry,
  book: Pick<PromisesAt, "ledger"> & {
    readonly posts: Map<string, Post>;
    readonly revokedKeys: Set<string>;
    readonly validKeys: Set<string>;
    readonly account: Recording["file"]["account"];
    readonly cutAt: number;
  },
): void {
  const { ledger, posts, account, cutAt } = book;
  switch (entry.kind) {
    case "post":
      posts.set(entry.key, { ...entry, ids: null, wasCutOff: true });
      break;
    case "accepted": {
      const post = posts.get(entry.key);
      if (post === undefined) throw new Error(`${entry.key} was answered before it was sent`);
      Object.assign(post, { ids: entry.ids, wasCutOff: false });
      bookPost(post, { ledger, apiKey: account.key });
      break;
    }
    case "cancelled":
      if (entry.hasRun) ledger.owe(entry.id);
      else ledger.cancel(entry.id, { sentAt: cutAt, acknowledgedAt: cutAt });
      break;
    case "finished":
      ledger.finished.set(entry.id, entry.text);
      if (entry.isCollected) ledger.collected.add(entry.id);
      break;
    case "delivered":
      ledger.delivered.add(entry.webhookId);
      break;
    case "key-made":
      book.validKeys.add(entry.key);
      break;
    case "key-revocation":
      book.validKeys.delete(entry.key);
      break;
    case "key-revoked":
      book.revokedKeys.add(entry.key);
      break;
    case "webhook":
      ledger.receive(entry.webhook, { status: entry.status, secret: account.webhookSecret });
      break;
  }
}

function unansweredWorks(
  posts: readonly Post[],
  before: readonly HistoryEntry[],
): PromisesAt["works"] {
  const answered = before.flatMap((entry) => (entry.kind === "cancelled" ? [entry.id] : []));
  const isAnswered = new Set(answered);
  const accepted = posts.filter(({ ids }) => ids !== null);
  const cancels = accepted
    .flatMap(({ ids, tasks }) => ids?.filter((_, i) => tasks[i]?.cancelAfterMs !== null) ?? [])
    .filter((id) => !isAnswered.has(id))
    .map((id) => ({ kind: "cancel", id, dueAt: 0 }) as const);
  const unanswered = posts.filter(({ ids }) => ids === null);
  return [...unanswered, ...accepted.slice(-REPEATED_POSTS), ...cancels];
}

/** False for an entry from after the power cut. */
function isBefore(
  entry: HistoryEntry,
  {
    record,
    cut,
    cutAt,
  }: { readonly record: DiskRecord; readonly cut: number; readonly cutAt: number },
): boolean {
  if ("sentAt" in entry) return entry.sentAt <= cutAt;
  const what =
    entry.kind === "webhook"
      ? `${entry.webhook.taskId}-${entry.webhook.kind} ${entry.webhook.attempt}`
      : entry.requestId;
  const place = record.said.get(what);
  if (place === undefined) throw new Error(`strace did not see the daemon write ${what}`);
  return place < cut;
}

/**
 * When the power is cut: right after the daemon answered or sent a webhook, after one of the first of these of a start,
 * at any change of a file, in a checkpoint, or where a file is made, removed, cut short or begun anew.
 */
export type Occasion = keyof typeof OCCASIONS;

// Of each sort how often.
const OCCASIONS = { answer: 4, start: 2, any: 3, checkpoint: 2, boundary: 2 };

/** Draws moments to cut the power at, as places on the time line. */
export class CutChoice {
  readonly #places: Readonly<Record<Occasion, readonly number[]>>;

  constructor({ changes, said, lifeStarts }: DiskRecord, database: string) {
    const answers = [...said.values()].toSorted((a, b) => a - b);
    const isCheckpoint = (change: DiskChange): boolean =>
      change.kind === "written" && change.name === database;
    this.#places = {
      answer: answers.map(after),
      start: lifeStarts.flatMap((start) => firstAnswers(answers, start).map(after)),
      any: placesOf(changes),
      checkpoint: placesOf(changes.filter(isCheckpoint)),
      boundary: placesOf(changes.filter((change) => isBoundary(change, database))),
    };
  }

  draw(random: Random): { readonly occasion: Occasion; readonly cut: number } {
    const occasion = random.choose(OCCASIONS);
    const places = this.#places[occasion];
    const cut = places[random.between(0, places.length - 1)];
    if (cut === undefined) throw new Error(`nothing was recorded to cut the power at: ${occasion}`);
    return { occasion, cut };
  }
}

// They rest on the file as the daemon found it, and not on its own writes.
const FIRST_ANSWERS = 40;

function firstAnswers(answers: readonly number[], start: number): readonly number[] {
  return answers.filter((answer) => answer > start).slice(0, FIRST_ANSWERS);
}

function after(place: number): number {
  return place + 1;
}

/** In the middle of each call and right after it. */
function placesOf(changes: readonly DiskChange[]): readonly number[] {
  return changes.flatMap(({ begun, over }) => [begun + 1, over + 1]);
}

function isBoundary(change: DiskChange, database: string): boolean {
  if (change.kind === "written") return change.name === `${database}-wal` && change.offset === 0;
  return change.kind !== "synced";
}
