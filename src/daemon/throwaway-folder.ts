import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// One listener for all folders: with one each, Node would take a dozen daemons for a leak.
const folders = new Set<string>();

/** Makes a folder of mode 0700. It is removed at the exit of the process at the latest, except after a signal. */
export function makeThrowawayFolder(): string {
  // mkdtemp gives it mode 0700 with any umask.
  const folder = mkdtempSync(join(tmpdir(), "postbackd-"));
  if (folders.size === 0) process.on("exit", removeAll);
  folders.add(folder);
  return folder;
}

export function removeThrowawayFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
  if (folders.size === 0) process.off("exit", removeAll);
}

function removeAll(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
