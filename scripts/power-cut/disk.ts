import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

import { Random } from "../kit/random.ts";
import type { TracedCall } from "./disk-record.ts";

export type Moment = Pick<TracedCall, "begun" | "over" | "at">;

/** A change of the files of a database; `file` identifies a file permanently, also after it was renamed. */
export type DiskChange = NameChange | FileChange | Sync;

interface OfFile extends Moment {
  readonly file: number;
  /** Under which name. */
  readonly name: string;
}

export type NameChange = OfFile & { readonly kind: "made" | "removed" };

export type FileChange = OfFile &
  (
    | { readonly kind: "written"; readonly offset: number; readonly data: Buffer }
    | { readonly kind: "resized"; readonly size: number }
  );

/** An event that makes all earlier changes of a file, or of the folder, survive a power cut. */
export type Sync =
  | (OfFile & { readonly kind: "synced" })
  | (Moment & { readonly kind: "folder-synced" });

/** A file's content as it grows and is written over. */
export class FileContent {
  #buffer: Buffer;
  #size: number;

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.#buffer = Buffer.from(bytes);
    this.#size = bytes.length;
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  apply(change: FileChange): void {
    if (change.kind === "written") this.write(change.offset, change.data);
    else this.resize(change.size);
  }

  write(offset: number, data: Buffer): void {
    if (offset + data.length > this.#size) this.resize(offset + data.length);
    data.copy(this.#buffer, offset);
  }

  /** It grows by zeros. */
  resize(size: number): void {
    if (size > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(size, 2 * this.#buffer.length));
      this.bytes.copy(larger);
      this.#buffer = larger;
    }
    if (size < this.#size) this.#buffer.fill(0, size, this.#size);
    this.#size = size;
  }
}

/** The files that a power cut leaves, by name. */
export type DiskImage = ReadonlyMap<string, Buffer>;

export interface PowerCut {
  /** The position on the time line: everything begun before it has happened, in whole or in part. */
  readonly cut: number;
  /** The seed that decides how much is left of unsynced changes. */
  readonly seed: number;
  /**
   * Plants a fault, to see that it is found: the last sync of each file before the cut did nothing, as with a disk that
   * says too early that it is done.
   */
  readonly forgetsSyncs: boolean;
}

/** The content of the disk after a power cut: everything synced, and a random part of the rest. */
export function imageAt(changes: readonly DiskChange[], power: PowerCut): DiskImage {
  const random = new Random(power.seed);
  const before = changes.filter(({ begun }) => begun < power.cut);
  const forgotten = power.forgetsSyncs ? lastSyncs(before, power.cut) : new Set<DiskChange>();
  const disk = new Disk();
  for (const change of before) {
    if (change.kind !== "synced" && change.kind !== "folder-synced") disk.change(change);
    // A sync that was not over has promised nothing.
    else if (change.over < power.cut && !forgotten.has(change)) disk.sync(change);
  }
  const image = disk.afterPowerCut(random);
  for (const name of [...image.keys()].filter((name) => name.endsWith("-wal"))) {
    if (random.chance(0.5)) image.set(name.replace(/-wal$/, "-shm"), garbage(random));
  }
  return image;
}

const INDEX_BYTES = 32_768;

/** An invalid index of the WAL: an index from before a power cut must not be trusted. */
function garbage(random: Random): Buffer {
  return Buffer.from(Array.from({ length: INDEX_BYTES }, () => random.between(0, 255)));
}

/** Writes the files, and what else a daemon needs to start on them, into a folder that it makes. */
export function writeImage(
  image: DiskImage,
  { folder, configuration }: { readonly folder: string; readonly configuration: string },
): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, bytes] of image) writeFileSync(join(folder, name), bytes, { mode: 0o600 });
  copyFileSync(configuration, join(folder, basename(configuration)));
}

function lastSyncs(changes: readonly DiskChange[], cut: number): ReadonlySet<DiskChange> {
  const last = new Map<number, DiskChange>();
  for (const change of changes)
    if (change.kind === "synced" && change.over < cut) last.set(change.file, change);
  return new Set(last.values());
}

/** The durable content of each file, and the changes since. */
class Disk {
  readonly #files = new Map<number, { readonly synced: FileContent; unsynced: FileChange[] }>();
  readonly #names = new Map<string, number>();
  #nameChanges: NameChange[] = [];

  change(change: FileChange | NameChange): void {
    if (change.kind === "written" || change.kind === "resized")
      this.#file(change.file).unsynced.push(change);
    else this.#nameChanges.push(change);
  }

  sync(sync: Sync): void {
    const isCovered = ({ over }: FileChange | NameChange): boolean => over < sync.begun;
    const isLeft = (change: FileChange | NameChange): boolean => !isCovered(change);
    if (sync.kind === "folder-synced") {
      for (const change of this.#nameChanges.filter(isCovered)) rename(this.#names, change);
      this.#nameChanges = this.#nameChanges.filter(isLeft);
      return;
    }
    const file = this.#file(sync.file);
    for (const change of file.unsynced.filter(isCovered)) file.synced.apply(change);
    file.unsynced = file.unsynced.filter(isLeft);
  }

  afterPowerCut(random: Random): Map<string, Buffer> {
    const names = new Map(this.#names);
    const share = random.next();
    for (const change of this.#nameChanges) if (random.chance(share)) rename(names, change);
    const image = new Map<string, Buffer>();
    for (const [name, number] of names) {
      const { synced, unsynced } = this.#file(number);
      image.set(name, survivingContent(synced.bytes, { unsynced, random }));
    }
    return image;
  }

  #file(number: number): { readonly synced: FileContent; unsynced: FileChange[] } {
    const file = this.#files.get(number) ?? { synced: new FileContent(), unsynced: [] };
    this.#files.set(number, file);
    return file;
  }
}

function rename(names: Map<string, number>, { kind, name, file }: NameChange): void {
  if (kind === "made") names.set(name, file);
  // Under that name there may be another file by now.
  else if (names.get(name) === file) names.delete(name);
}

// Nothing, everything, the first of the changes and a part of the next, some of them, or of each page or sector what it
// was after some of them.
const SURVIVALS = { nothing: 1, everything: 1, beginning: 2, writes: 2, pages: 2, sectors: 2 };

// The units that a disk and a kernel write atomically.
const SECTOR_BYTES = 512;
const PAGE_BYTES = 4096;

/** The content of a file after a power cut: the synced part, and a part of later changes that is drawn. */
export function survivingContent(
  synced: Buffer,
  { unsynced, random }: { readonly unsynced: readonly FileChange[]; readonly random: Random },
): Buffer {
  switch (random.choose(SURVIVALS)) {
    case "nothing":
      return synced;
    case "everything":
      return contentAfter(synced, unsynced);
    case "beginning": {
      const whole = random.between(0, unsynced.length);
      const content = contentAfter(synced, unsynced.slice(0, whole));
      const torn = unsynced.slice(whole, whole + 1);
      return mixedContent(content, { changes: torn, unitBytes: SECTOR_BYTES, random });
    }
    case "writes": {
      const share = random.next();
      const left = unsynced.filter(() => random.chance(share));
      return contentAfter(synced, left);
    }
    case "pages":
      return mixedContent(synced, { changes: unsynced, unitBytes: PAGE_BYTES, random });
    case "sectors":
      return mixedContent(synced, { changes: unsynced, unitBytes: SECTOR_BYTES, random });
  }
}

function contentAfter(before: Buffer, changes: readonly FileChange[]): Buffer {
  const content = new FileContent(before);
  for (const change of changes) content.apply(change);
  return content.bytes;
}

/**
 * Of each unit what it was after so many of the changes, the number drawn for each; and a size that the file had. The
 * kernel keeps one version of a page, the newest, and may have written any of them at any time.
 */
function mixedContent(
  before: Buffer,
  of: {
    readonly changes: readonly FileChange[];
    readonly unitBytes: number;
    readonly random: Random;
  },
): Buffer {
  const { changes, unitBytes, random } = of;
  const versions = new Map<number, Buffer[]>();
  const sizes = [before.length];
  const content = new FileContent(before);
  for (const change of changes) {
    const [from, to] = rangeOf(change, content.size);
    content.apply(change);
    sizes.push(content.size);
    for (let unit = Math.floor(from / unitBytes); unit * unitBytes < to; unit++) {
      const known = versions.get(unit) ?? [unitOf(before, { unit, unitBytes })];
      known.push(unitOf(content.bytes, { unit, unitBytes }));
      versions.set(unit, known);
    }
  }
  const mixed = new FileContent(before);
  for (const [unit, known] of versions) {
    const left = known[random.between(0, known.length - 1)];
    if (left !== undefined) mixed.write(unit * unitBytes, left);
  }
  mixed.resize(sizes[random.between(0, sizes.length - 1)] ?? before.length);
  return mixed.bytes;
}

/** The bytes that a change of a file of that size concerns. */
function rangeOf(change: FileChange, size: number): readonly [from: number, to: number] {
  if (change.kind === "written") return [change.offset, change.offset + change.data.length];
  return [Math.min(size, change.size), Math.max(size, change.size)];
}

/** A unit, with zeros where the file has ended. */
function unitOf(
  bytes: Buffer,
  { unit, unitBytes }: { readonly unit: number; readonly unitBytes: number },
): Buffer {
  const whole = Buffer.alloc(unitBytes);
  bytes.subarray(unit * unitBytes, (unit + 1) * unitBytes).copy(whole);
  return whole;
}
