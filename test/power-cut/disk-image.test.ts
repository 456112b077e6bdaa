import assert from "node:assert/strict";
import { test } from "node:test";

import { type DiskChange, imageAt } from "../../scripts/power-cut/disk.ts";

const SEEDS = Array.from({ length: 300 }, (_, seed) => seed);
const SECTOR = 512;

/** The part of a change that says what was done, and to which file. */
type Step = DiskChange extends infer Change
  ? Change extends DiskChange
    ? Omit<Change, "begun" | "over" | "at" | "file" | "name"> & {
        readonly file?: number;
        readonly name?: string;
      }
    : never
  : never;

/** Changes of the file `db` one after the other: the nth begins at 10 n and is over at 10 n + 5. */
function timeLine(...steps: readonly Step[]): readonly DiskChange[] {
  return steps.map((step, i) => {
    const moment = { begun: 10 * i, over: 10 * i + 5, at: i };
    // A step is a change without what is added here.
    return { file: 0, name: "db", ...step, ...moment } as DiskChange;
  });
}

function written(letter: string, { sectors = 1, offset = 0 } = {}): Step {
  return { kind: "written", offset, data: Buffer.alloc(sectors * SECTOR, letter) };
}

const MADE: Step = { kind: "made" };
const SYNCED: Step = { kind: "synced" };
const FOLDER_SYNCED: Step = { kind: "folder-synced" };

/** What the file is after a power cut at that moment, for each of many seeds; null where it is missing. */
function contents(
  changes: readonly DiskChange[],
  { cut = 1000, forgetsSyncs = false } = {},
): readonly (string | null)[] {
  return SEEDS.map((seed) => {
    const image = imageAt(changes, { cut, seed, forgetsSyncs });
    return image.get("db")?.toString("latin1") ?? null;
  });
}

/** Which letters the sectors of a file hold, a dot where they are zeros. */
function sectorsOf(content: string | null): string | null {
  if (content === null) return null;
  const sectors = content.match(new RegExp(`[^]{1,${SECTOR}}`, "g")) ?? [];
  for (const sector of sectors) assert.equal(new Set(sector).size, 1, "a sector is torn");
  return sectors.map((sector) => sector[0]?.replace("\0", ".")).join("");
}

function outcomes(...line: Parameters<typeof contents>): ReadonlySet<string | null> {
  return new Set(contents(...line).map(sectorsOf));
}

test("what was synced is there after every power cut", () => {
  const changes = timeLine(MADE, written("a", { sectors: 3 }), SYNCED, FOLDER_SYNCED);

  assert.deepEqual(outcomes(changes), new Set(["aaa"]));
});

test("what was written after the last sync is there, is not, or is there in part", () => {
  const next = written("b", { sectors: 2, offset: SECTOR });
  const changes = timeLine(MADE, written("a", { sectors: 2 }), SYNCED, FOLDER_SYNCED, next);

  const found = outcomes(changes);

  for (const wanted of ["aa", "aab", "abb", "aa.", "ab.", "ab"]) assert(found.has(wanted), wanted);
  for (const each of found) assert.match(each ?? "missing", /^a[ab][b.]?$/);
});

test("a sector is what it was after one of its writes, and later ones may be there without earlier ones", () => {
  const at = (letter: string, sector: number) => written(letter, { offset: sector * SECTOR });
  const changes = timeLine(
    ...[MADE, written("a", { sectors: 2 }), SYNCED, FOLDER_SYNCED],
    ...[at("b", 0), at("c", 0), at("d", 1)],
  );

  const found = outcomes(changes);

  assert.deepEqual(found, new Set(["aa", "ba", "ca", "ad", "bd", "cd"]));
});

test("a sync that was not over when the power was cut has promised nothing", () => {
  const changes = timeLine(MADE, FOLDER_SYNCED, written("a"), SYNCED);

  assert(outcomes(changes, { cut: 32 }).has(""));
  assert(!outcomes(changes, { cut: 36 }).has(""));
});

test("what began after the power cut has not happened", () => {
  const changes = timeLine(MADE, FOLDER_SYNCED, written("a"), written("b"));

  assert(!outcomes(changes, { cut: 30 }).has("b"));
  assert(outcomes(changes, { cut: 31 }).has("b"));
});

test("a file whose folder was not synced may be missing, though it was synced itself", () => {
  const changes = timeLine(MADE, written("a"), SYNCED);

  assert.deepEqual(outcomes(changes), new Set(["a", null]));
});

test("a file that was removed may be back until its folder is synced", () => {
  const steps = [MADE, written("a"), SYNCED, FOLDER_SYNCED, { kind: "removed" }] as const;

  assert.deepEqual(outcomes(timeLine(...steps)), new Set(["a", null]));
  assert.deepEqual(outcomes(timeLine(...steps, FOLDER_SYNCED)), new Set([null]));
});

test("a file that was cut short may have its old size until it is synced", () => {
  const steps = [MADE, written("a", { sectors: 2 }), SYNCED, FOLDER_SYNCED] as const;
  const short = { kind: "resized", size: SECTOR } as const;

  assert.deepEqual(outcomes(timeLine(...steps, short)), new Set(["aa", "a", "a."]));
  assert.deepEqual(outcomes(timeLine(...steps, short, SYNCED)), new Set(["a"]));
});

test("a seed leaves the same of everything, another seed something else", () => {
  const changes = timeLine(MADE, FOLDER_SYNCED, written("a", { sectors: 20 }));

  assert.deepEqual(contents(changes), contents(changes));
  assert(outcomes(changes).size > 20);
});

test("a forgotten sync leaves what it should have kept to chance, and only the last one does", () => {
  const next = written("b", { offset: SECTOR });
  const changes = timeLine(MADE, FOLDER_SYNCED, written("a"), SYNCED, next, SYNCED);

  const found = outcomes(changes, { forgetsSyncs: true });

  assert.deepEqual(found, new Set(["a", "a.", "ab"]));
});
