import { open, rm, unlink, type FileHandle } from "node:fs/promises";

import { codeOf } from "../../../domain/error.ts";
import { MIB_BYTES } from "./copy-pace.ts";

// ext4 gives the room of a removed file back within one commit of its journal, and every fsync meanwhile waits: 46 to
// 84 ms for 845 MB, 2 to 3 ms with steps of this size that are on disk one by one (measured with `discard`).
const STEP_BYTES = 8 * MIB_BYTES;

/** True once nobody has the time to remove anything in small steps. */
export type IsHurried = () => boolean;

/**
 * Removes a file, however large, so that nobody who writes to the same file system has to wait for it: the name is gone
 * at once, the room comes back in small steps. What breaks it off leaves nothing. A file that is not there is removed.
 */
export async function removeGradually(file: string, isHurried: IsHurried): Promise<void> {
  const handle = await openToRemove(file);
  if (handle === null) return rm(file, { force: true });
  try {
    await unlink(file);
  } catch (error) {
    await handle.close();
    throw error;
  }
  await freeGradually(handle, isHurried);
}

/**
 * Opens a file that is about to lose its name, for {@link freeGradually}. Null where there is none, or none that this
 * user may shorten.
 */
export async function openToRemove(file: string): Promise<FileHandle | null> {
  try {
    return await open(file, "r+");
  } catch (error) {
    if (["ENOENT", "EACCES", "EPERM", "EROFS"].includes(codeOf(error) ?? "")) return null;
    throw error;
  }
}

/** Closes a file, whose room comes back in small steps where it has no name left: under another it is somebody's still. */
export async function freeGradually(handle: FileHandle, isHurried: IsHurried): Promise<void> {
  try {
    const { nlink, size } = await handle.stat();
    for (let left = nlink === 0 ? size : 0; left > STEP_BYTES && !isHurried();) {
      left -= STEP_BYTES;
      await handle.truncate(left);
      await handle.sync();
    }
  } finally {
    await handle.close();
  }
}
