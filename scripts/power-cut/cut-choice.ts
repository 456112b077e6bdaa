import type { Random } from "../kit/random.ts";
import type { DiskChange } from "./disk-change.ts";
import type { DiskRecord } from "./disk-record.ts";

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
