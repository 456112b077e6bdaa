import type { Random } from "../kit/random.ts";
import type { FileChange } from "./disk-change.ts";
import { FileContent } from "./file-content.ts";

// Nothing, everything, the first of the changes and a part of the next, some of them, or of each page or sector what it
// was after some of them.
const SURVIVALS = { nothing: 1, everything: 1, beginning: 2, writes: 2, pages: 2, sectors: 2 };

// The units that a disk and a kernel write as a whole.
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
