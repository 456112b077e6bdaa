import { closeSync, fdatasyncSync, openSync, statfsSync, writeSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { join } from "node:path";

import { median } from "./durations.ts";

const SYNCS = 100;
const PAGE = Buffer.alloc(4096, 1);
const TMPFS = 0x01021994;

/**
 * What a table of measurements needs beside it: the machine, what else it is busy with, and what its disk does
 * with an fsync. To be called before the measurements, or their own load counts.
 */
export function machineDescription(folder: string): string {
  const [cpu] = cpus();
  const [busy] = loadavg();
  const memory = (totalmem() / 1024 ** 3).toFixed(0);
  const p50Micros = syncMicrosP50(folder);
  const isMemory = statfsSync(folder).type === TMPFS;
  const disk = isMemory
    ? "The databases lie in memory (tmpfs), where fsync costs nothing: give --folder on a disk."
    : `SQLite runs with synchronous = FULL; fdatasync of 4 KiB takes ${p50Micros.toFixed(0)} µs here (p50 of ${SYNCS}).`;
  return (
    `${cpu?.model ?? "unknown CPU"}, ${availableParallelism()} cores for everything, ${memory} GB, ` +
    `load average ${busy?.toFixed(1)} before; ${type()} ${release()}; Node ${process.versions.node}. ${disk}`
  );
}

/** The median time that one page, appended to a file, takes to be on disk. */
function syncMicrosP50(folder: string): number {
  const file = openSync(join(folder, "fdatasync"), "w");
  try {
    const micros = Array.from({ length: SYNCS }, () => {
      writeSync(file, PAGE);
      const startedAt = performance.now();
      fdatasyncSync(file);
      return (performance.now() - startedAt) * 1000;
    });
    return median(micros);
  } finally {
    closeSync(file);
  }
}
