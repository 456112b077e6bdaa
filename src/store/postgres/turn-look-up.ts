/** A row that was looked for by a key. */
import { setImmediate } from "../../domain/clock/timers.ts";
export interface Keyed {
  readonly key: string;
}

/**
 * Makes a look-up of which those of one turn of the event loop share a statement: `find` is given their keys, each once,
 * and answers the rows that there are. Not a cache: each look-up reads what is committed after it was asked for.
 */
export function turnLookUp<Row extends Keyed>(
  find: (keys: readonly string[]) => Promise<readonly Row[]>,
): (key: string) => Promise<Row | undefined> {
  let asked: { readonly keys: Set<string>; readonly rows: Promise<Map<string, Row>> } | null = null;

  // Requests that came in together are all read from their sockets before the first immediate runs.
  function begin() {
    const keys = new Set<string>();
    const rows = new Promise<readonly Row[]>((resolve) => {
      setImmediate(() => {
        asked = null;
        resolve(find([...keys]));
      });
    });
    return { keys, rows: rows.then((found) => new Map(found.map((row) => [row.key, row]))) };
  }

  return async (key) => {
    asked ??= begin();
    asked.keys.add(key);
    return (await asked.rows).get(key);
  };
}
