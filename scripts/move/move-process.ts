import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";

import type { DaemonPlace } from "../kit/daemon-file.ts";
import { cleanAtExit } from "../kit/exit-cleanup.ts";

/** What is moved where, and when the program is killed, if it is. */
export interface MoveRun {
  readonly from: string;
  readonly to: string;
  readonly killAfterMs?: number;
}

/** How a run of `postbackd move` ended, and what it took. */
export interface MoveEnd {
  readonly isKilled: boolean;
  readonly ms: number;
  /** The most memory that it had at once. */
  readonly memoryBytes: number;
  /** The largest that the `-wal` of the file it made was found. */
  readonly walBytes: number;
}

const LOOK_MS = 20;

/** Runs `postbackd move`. Rejects, with what it said, when it fails by itself. */
export async function runMove(
  { program, folder }: DaemonPlace,
  { from, to, killAfterMs }: MoveRun,
): Promise<MoveEnd> {
  const [file, ...args] = program.command;
  const startedAt = performance.now();
  const child = spawn(file, [...args, "move", "--from", from, "--to", to], {
    cwd: folder,
    env: { PATH: process.env["PATH"] },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const kill = cleanAtExit(() => child.kill("SIGKILL"));
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const timer = killAfterMs === undefined ? undefined : setTimeout(kill, killAfterMs);
  let [memoryBytes, walBytes] = [0, 0];
  const look = setInterval(() => {
    memoryBytes = Math.max(memoryBytes, peakMemoryOf(child.pid));
    walBytes = Math.max(walBytes, sizeOf(`${to}.moving-wal`));
  }, LOOK_MS);
  await once(child, "close");
  clearInterval(look);
  clearTimeout(timer);
  const isKilled = child.signalCode === "SIGKILL";
  if (!isKilled && child.exitCode !== 0) throw new Error(`the move failed: ${said}`);
  return { isKilled, ms: performance.now() - startedAt, memoryBytes, walBytes };
}

function peakMemoryOf(pid: number | undefined): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    // It has just ended.
    return 0;
  }
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
