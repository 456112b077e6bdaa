import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

import { Random } from "../kit/random.ts";
import type { DiskChange, FileChange, NameChange, Sync } from "./disk-change.ts";
import { FileContent } from "./file-content.ts";
import { survivingContent } from "./survivors.ts";

/** The files that a power cut leaves, by name. */
export type DiskImage = ReadonlyMap<string, Buffer>;

/** A power cut. */
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

/** An index of the WAL as no daemon has left it: nobody may trust one from before a power cut. */
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
