/** A page of a list, and where the list goes on. */
interface Page {
  readonly next_cursor: string | null;
}

/** All items of a list, whose pages are asked for as they are needed. */
export async function* itemsOf<Of extends Page, Item>(
  ask: (cursor: string | undefined) => Promise<Of>,
  itemsIn: (page: Of) => readonly Item[],
): AsyncGenerator<Item, void, undefined> {
  for (let cursor: string | undefined | null; cursor !== null;) {
    const page = await ask(cursor);
    yield* itemsIn(page);
    cursor = page.next_cursor;
  }
}
