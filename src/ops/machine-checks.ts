import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

import type { Config } from "../config/config.ts";
import { failure, skipped, sound, warning, type Finding } from "./finding.ts";
import { filesWanted } from "./open-files.ts";

/** Looks at the clock of the machine, and at the limits that the system sets to the daemon. */

/** Files whose presence says that somebody keeps the clock right. */
const SYNCHRONIZED = ["/run/systemd/timesync/synchronized", "/run/chrony/chronyd.pid"];

export function checkClock(now: number): Finding {
  // Nothing is made after now.
  const made = statSync(process.execPath).mtimeMs;
  if (now < made) {
    return failure(
      "clock",
      `the clock says ${new Date(now).toISOString()}, which is before this program was made`,
      "set the clock, and let NTP keep it: retries, retention and signatures go by it",
    );
  }
  return SYNCHRONIZED.some((file) => existsSync(file))
    ? sound("clock", "it is kept right by NTP")
    : sound("clock", "it is plausible; nothing on this machine tells whether NTP keeps it right");
}

/** The process whose limits count: the daemon's, or where none runs this one, which was started in the same way at best. */
export interface LimitedProcess {
  readonly pid: number;
  readonly isDaemon: boolean;
  /** Where /proc and /sys are; the machine's own root unless given. */
  readonly root?: string;
}

export function checkLimits(
  config: Pick<Config, "limits" | "webhooks">,
  { pid, isDaemon, root = "/" }: LimitedProcess,
): Finding[] {
  const limits = readText(join(root, `proc/${pid}/limits`));
  if (limits === null) return [skipped("limits", `/proc/${pid}/limits cannot be read`)];
  const whose = isDaemon ? `the daemon (process ${pid})` : "a process started from here";
  return [checkOpenFiles(config, { limits, whose }), ...checkFileSize(limits, whose)].concat(
    checkControlGroup(pid, { root, whose }),
  );
}

function checkOpenFiles(
  config: Pick<Config, "limits" | "webhooks">,
  { limits, whose }: { readonly limits: string; readonly whose: string },
): Finding {
  // Node raises the soft limit to the hard one.
  const most = limitOf(limits, "Max open files");
  const wanted = filesWanted(config);
  if (most === null || most >= wanted) {
    return sound("open files", `${whose} may open ${most ?? "any number of"} files`);
  }
  return warning(
    "open files",
    `${whose} may open ${most} files; limits.connections and webhooks.max_in_flight together need ${wanted}`,
    `set LimitNOFILE=${wanted} in the unit, or ulimit -n, or lower limits.connections`,
  );
}

function checkFileSize(limits: string, whose: string): Finding[] {
  const most = limitOf(limits, "Max file size");
  if (most === null) return [];
  return [
    warning(
      "file size",
      `${whose} may write files of ${most} bytes at most: then tasks are refused (50700)`,
      "take LimitFSIZE out of the unit, or ulimit -f out of the script",
    ),
  ];
}

// With a million tasks the daemon is at 220 MB resident.
const MEMORY_BYTES_MIN = 256 * 1024 ** 2;
const PROCESSES_MIN = 64;

function checkControlGroup(
  pid: number,
  { root, whose }: { readonly root: string; readonly whose: string },
): Finding[] {
  // Only version 2 of control groups has one line, `0::/PATH`.
  const path = /^0::(\/.*)$/mu.exec(readText(join(root, `proc/${pid}/cgroup`)) ?? "")?.[1];
  if (path === undefined) return [];
  const valueOf = (name: string): number => {
    return Number.parseInt(readText(join(root, "sys/fs/cgroup", path, name)) ?? "", 10);
  };
  const [memory, processes] = [valueOf("memory.max"), valueOf("pids.max")];
  const isShort = memory < MEMORY_BYTES_MIN || processes < PROCESSES_MIN;
  if (!isShort) return [];
  return [
    warning(
      "control group",
      `${whose} has ${memory} bytes of memory and ${processes} processes at most`,
      "raise MemoryMax to 256M and TasksMax to 64 at least, or the limits of the container; commands count too",
    ),
  ];
}

/** A hard limit of /proc/PID/limits; null for none. */
function limitOf(limits: string, name: string): number | null {
  const line = limits.split("\n").find((each) => each.startsWith(name)) ?? "";
  const [, hard = "unlimited"] = line.slice(name.length).trim().split(/\s+/u);
  return hard === "unlimited" ? null : Number(hard);
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // Not on Linux, or another user's: the caller says that it was not looked at.
    return null;
  }
}
