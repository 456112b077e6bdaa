import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";

import type { Clock } from "../domain/clock/clock.ts";

/** The names that this machine's hosts file gives addresses to. */
export interface HostsFile {
  /**
   * The addresses listed for `host` (lower case), in the file's order; empty when it lists none. Reads
   * the file again within 100 ms of a change. A file that cannot be read lists nothing.
   */
  addressesOf(host: string): readonly string[];
}

/** Opens the hosts file at `path`; nothing is read before the first question. */
export function openHostsFile(path: string, clock: Clock): HostsFile {
  const hasChanged = watchFile(path, clock);
  let names: ReadonlyMap<string, readonly string[]> = new Map();

  return {
    addressesOf(host) {
      if (hasChanged()) names = readNames(path);
      return names.get(host) ?? [];
    },
  };
}

// One look at a file costs 8 µs; at 10,000 attempts/s, looking every time would be a twelfth of a core.
const LOOK_MS = 100;

/**
 * Makes a question for a file: has it changed since the question was last answered with yes? True the
 * first time. The file is looked at every 100 ms at most, so a change may go unnoticed for that long.
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

// Size and inode as well: tools that rename a new file into place may keep the old time.
function stampOf(path: string): string {
  try {
    const { mtimeNs, size, ino } = statSync(path, { bigint: true });
    return `${mtimeNs} ${size} ${ino}`;
  } catch {
    // Missing or out of reach: the same as empty, until it appears.
    return "";
  }
}

function readNames(path: string): ReadonlyMap<string, readonly string[]> {
  const names = new Map<string, string[]>();
  for (const line of readLines(path)) {
    const [address = "", ...hosts] = (line.split("#", 1)[0] ?? "").trim().split(/\s+/);
    // "fe80::1%lo0 localhost" is a line of macOS: an address with a zone is never dialled.
    if (isIP(address) === 0 || address.includes("%")) continue;
    for (const host of hosts) add(names, { host: host.toLowerCase(), address });
  }
  return names;
}

function add(
  names: Map<string, string[]>,
  { host, address }: { readonly host: string; readonly address: string },
): void {
  const addresses = names.get(host);
  if (addresses === undefined) names.set(host, [address]);
  else if (!addresses.includes(address)) addresses.push(address);
}

function readLines(path: string): readonly string[] {
  try {
    return readFileSync(path, "utf8").split("\n");
  } catch {
    // Missing, a folder or not readable: names are then the name servers' alone.
    return [];
  }
}
