import type { DevMode } from "../dev/dev-mode.ts";
import { readServedFile } from "../store/sqlite/served-file.ts";
import type { Store } from "../store/store.ts";
import { DatabaseError } from "./database.ts";

/** The command that serves a database: `postbackd start`, or `postbackd dev` for tests. Whoever was first has it. */
export type ServedMode = "start" | "dev";

export function modeOf({ dev }: { readonly dev?: DevMode | undefined }): ServedMode {
  return dev === undefined ? "start" : "dev";
}

/** Throws a {@link DatabaseError} for a file that `start` has served, before anything in it is changed. */
export function refuseServedFile(file: string): void {
  const { mode, hasAccounts } = readServedFile(file);
  // A program that knew no mode has served it.
  const first = mode ?? (hasAccounts ? "start" : "dev");
  if (first !== "dev") throw otherMode(file, "dev");
}

/** Marks a database that is open as served so. Rejects with a {@link DatabaseError} when it is served otherwise. */
export async function keepServedMode(
  store: Pick<Store, "keepSecret">,
  { database, mode }: { readonly database: string; readonly mode: ServedMode },
): Promise<void> {
  const kept = await store.keepSecret({ name: "mode", fresh: mode });
  if (kept !== mode) throw otherMode(database, mode);
}

function otherMode(database: string, mode: ServedMode): DatabaseError {
  return new DatabaseError(
    mode === "start"
      ? `${database} was made by 'postbackd dev', for tests: serve it with 'postbackd dev --db', or name another file with --db`
      : `${database} is the database of 'postbackd start': tests would send its webhooks and erase its tasks; name another ` +
          "file with --db, or leave it out for a throwaway one",
  );
}
