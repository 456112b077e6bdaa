import { readFileSync } from "node:fs";

import { descriptorCount, processUsage } from "../kit/processes.ts";

const EVERY_MS = 100;
const RSS_BYTES_MAX = 4e9;
const AVAILABLE_BYTES_MIN = 1.5e9;
const KIB = 1024;
const PAGE_BYTES = 4096;

/** The highest values since the last reset. Of the kernel: the memory of all TCP sockets of the machine. */
export interface Vitals {
  readonly rssBytesMax: number;
  readonly kernelBytesMax: number;
  readonly descriptorsMax: number;
  /** The daemon's present resident memory; 0 when it is gone. */
  readonly rssBytes: number;
}

const NOTHING_SEEN = { rssBytesMax: 0, kernelBytesMax: 0, descriptorsMax: 0, rssBytes: 0 };

/** Looks at a daemon ten times a second, and reports when the machine's memory is in danger. */
export class VitalsWatch {
  readonly #timer: NodeJS.Timeout;
  readonly #onDanger: (why: string) => void;
  /** A daemon that was started again is another process. */
  pid: number;
  seen: Vitals = NOTHING_SEEN;

  /** `onDanger` is called again and again while more than 4 GB are resident or less than 1.5 GB available. */
  constructor(pid: number, onDanger: (why: string) => void) {
    this.pid = pid;
    this.#onDanger = onDanger;
    this.#timer = setInterval(() => this.#look(), EVERY_MS);
  }

  reset(): void {
    this.seen = NOTHING_SEEN;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const rssBytes = orNothing(() => processUsage(this.pid).rssBytes);
    const descriptors = orNothing(() => descriptorCount(this.pid));
    const { rssBytesMax, kernelBytesMax, descriptorsMax } = this.seen;
    this.seen = {
      rssBytes,
      rssBytesMax: Math.max(rssBytesMax, rssBytes),
      kernelBytesMax: Math.max(kernelBytesMax, tcpBytes()),
      descriptorsMax: Math.max(descriptorsMax, descriptors),
    };
    if (rssBytes > RSS_BYTES_MAX) this.#onDanger("4 GB resident");
    else if (availableBytes() < AVAILABLE_BYTES_MIN) this.#onDanger("1.5 GB available");
  }
}

/** 0 when the daemon is gone, which others report. */
function orNothing(look: () => number): number {
  try {
    return look();
  } catch {
    return 0;
  }
}

function tcpBytes(): number {
  const text = readFileSync("/proc/net/sockstat", "latin1");
  return Number(/^TCP:.* mem (\d+)$/m.exec(text)?.[1] ?? 0) * PAGE_BYTES;
}

function availableBytes(): number {
  const text = readFileSync("/proc/meminfo", "latin1");
  return Number(/^MemAvailable:\s+(\d+) kB$/m.exec(text)?.[1] ?? Infinity) * KIB;
}
