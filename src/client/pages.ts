import { PostbackdError } from "./error.ts";

const GOES_ROUND =
  "The list does not end: a page repeats the cursor of an earlier one. Is there a cache in between?";

/** A page of a list, and where the list goes on. */
interface Page {
  readonly next_cursor: string | null;
}

/** All items of a list, whose pages are asked for as they are needed. */
export async function* itemsOf<Of extends Page, Item>(
  ask: (cursor: string | undefined) => Promise<Of>,
  itemsIn: (page: Of) => readonly Item[],
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | null | undefined;
  let earlier: string | null | undefined;
  for (let pages = 1; cursor !== null; pages++) {
    const page = await ask(cursor);
    yield* itemsIn(page);
    cursor = page.next_cursor;
    if (cursor !== null && cursor === earlier) throw new PostbackdError(GOES_ROUND);
    // Kept after 1, 2, 4, 8, … pages, so a circle of any length is found.
    if ((pages & (pages - 1)) === 0) earlier = cursor;
  }
}
