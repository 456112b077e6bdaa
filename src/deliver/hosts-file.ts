import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";

import type { Clock } from "../domain/clock/clock.ts";

/**
 * Makes a function that answers the addresses that the hosts file lists for a host (lower case), in the file's order;
 * none when it lists none, or cannot be read. It reads the file at its first call, and again within 100 ms of a change.
 */
export function openHostsFile(path: string, clock: Clock): (host: string) => readonly string[] {
  const hasChanged = watchFile(path, clock);
  let names: ReadonlyMap<string, readonly string[]> = new Map();
  return (host) => {
    if (hasChanged()) names = readNames(path);
    return names.get(host) ?? [];
  };
}

// A look at the file costs 8 µs: looking every time would take a twelfth of a core at 10,000 attempts/s.
const LOOK_MS = 100;

/**
 * Makes a function that says whether a file has changed since the function last said so. The first call says true. It
 * looks at the file every 100 ms at most, so a change may go unnoticed for that long.
 */
export function watchFile(path: string, clock: Clock): () => boolean {
  let seen: string | null = null;
  let lookAt = -Infinity;
  return () => {
    const now = clock.monotonic();
    if (now < lookAt) return false;
    lookAt = now + LOOK_MS;
    const stamp = stampOf(path);
    if (stamp === seen) return false;
    seen = stamp;
    return true;
  };
}

// Compares size and inode too: a tool that renames a new file into place may keep the old time.
function stampOf(path: string): string {
  try {
    const { mtimeNs, size, ino } = statSync(path, { bigint: true });
    return `${mtimeNs} ${size} ${ino}`;
  } catch {
    // A file that is missing or out of reach counts as empty until it appears.
    return "";
  }
}

function readNames(path: string): ReadonlyMap<string, readonly string[]> {
  const names = new Map<string, readonly string[]>();
  for (const line of readLines(path)) {
    const [address = "", ...hosts] = (line.split("#", 1)[0] ?? "").trim().split(/\s+/);
    // macOS has the line "fe80::1%lo0 localhost": an address with a zone is never dialled.
    if (isIP(address) === 0 || address.includes("%")) continue;
    for (const host of hosts.map((name) => name.toLowerCase())) {
      const others = names.get(host) ?? [];
      if (!others.includes(address)) names.set(host, [...others, address]);
    }
  }
  return names;
}

function readLines(path: string): readonly string[] {
  try {
    return readFileSync(path, "utf8").split("\n");
  } catch {
    // The file is missing, a folder or not readable: only the name servers know names then.
    return [];
  }
}
