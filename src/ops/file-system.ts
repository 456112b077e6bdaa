import { statfsSync } from "node:fs";
import { dirname } from "node:path";

/** The kind of a file system, as far as it matters to a database. */
export interface FileSystem {
  /** As `mount` names it, or its number. */
  readonly name: string;
  readonly kind: "local" | "network" | "memory" | "overlay";
}

// The numbers of statfs(2). SQLite's locks and its shared memory do not reach other machines: two daemons on a network
// file system would each believe that they are alone.
const KINDS: ReadonlyMap<number, FileSystem> = new Map([
  [0x6969, { name: "nfs", kind: "network" }],
  [0x517b, { name: "smb", kind: "network" }],
  [0xff534d42, { name: "cifs", kind: "network" }],
  [0xfe534d42, { name: "smb2", kind: "network" }],
  [0x01021997, { name: "9p", kind: "network" }],
  [0x00c36400, { name: "ceph", kind: "network" }],
  [0x5346414f, { name: "afs", kind: "network" }],
  [0x01161970, { name: "gfs2", kind: "network" }],
  [0x7461636f, { name: "ocfs2", kind: "network" }],
  [0x0bd00bd0, { name: "lustre", kind: "network" }],
  [0x01021994, { name: "tmpfs", kind: "memory" }],
  [0x858458f6, { name: "ramfs", kind: "memory" }],
  [0x794c7630, { name: "overlay", kind: "overlay" }],
]);

/** The file system that a file lies on, or would. Throws when its folder cannot be asked. */
export function fileSystemOf(file: string): FileSystem {
  return fileSystemOfType(statfsSync(dirname(file)).type);
}

/** The file system of this number of statfs(2), which is signed on some machines. */
export function fileSystemOfType(type: number): FileSystem {
  const number = type >>> 0;
  return KINDS.get(number) ?? { name: `0x${number.toString(16)}`, kind: "local" };
}
