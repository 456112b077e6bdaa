import { resolve } from "node:path";

import { isUrlLike } from "../../domain/address/server-url.ts";
import type { TellProgress } from "../../domain/log.ts";
import { parseServerAddress } from "../postgres/machine/server-address.ts";
import { MoveError, type MoveReport } from "./sides.ts";
import { moveToFile } from "./to-file.ts";
import { moveToServer } from "./to-server.ts";

/** From where to where: one of them is a file, the other the URL of a server. */
export interface Move {
  readonly from: string;
  readonly to: string;
  readonly tell: TellProgress;
}

/** Moves a stopped database. Rejects with an error that says what to do. */
export async function moveDatabase({ from, to, tell }: Move): Promise<MoveReport> {
  if (isUrl(from) === isUrl(to)) {
    throw new MoveError("one of --from and --to is a file, the other a postgres:// URL");
  }
  return isUrl(to)
    ? moveToServer({ file: resolve(from), server: parseServerAddress(to), tell })
    : moveToFile({ server: parseServerAddress(from), file: resolve(to), tell });
}

// Anything that looks like a URL may hold a password, which no message about a file must show.
function isUrl(text: string): boolean {
  return isUrlLike(text.trim());
}
