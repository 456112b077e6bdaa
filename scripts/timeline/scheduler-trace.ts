import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { cleanAtExit } from "../kit/exit-cleanup.ts";

const INSTANCES = "/sys/kernel/tracing/instances";
// Of each core: some ten seconds of a busy machine.
const BUFFER_KB = 32_768;

/** What Linux tells of its scheduler, by a trace of its own beside whatever else is traced. It takes root. */
export class SchedulerTrace implements Disposable {
  readonly #folder = join(INSTANCES, `postbackd-${process.pid}`);
  readonly #remove: () => void;

  constructor() {
    if (process.getuid?.() !== 0 || !existsSync(INSTANCES)) {
      throw new Error(
        `the scheduler cannot be watched: that takes Linux, root, and tracefs at ${INSTANCES}`,
      );
    }
    mkdirSync(this.#folder);
    this.#remove = cleanAtExit(() => rmdirSync(this.#folder));
    this.#set("tracing_on", 0);
    this.#set("buffer_size_kb", BUFFER_KB);
    this.#set("trace_clock", "mono");
    for (const event of ["sched_switch", "sched_wakeup"]) {
      this.#set(`events/sched/${event}/enable`, 1);
    }
  }

  start(): void {
    this.#set("tracing_on", 1);
  }

  /** Answers what was told since the start, one event a line; nothing is told any more. */
  stop(): string {
    this.#set("tracing_on", 0);
    return readFileSync(join(this.#folder, "trace"), "utf8");
  }

  [Symbol.dispose](): void {
    this.#remove();
  }

  #set(file: string, value: string | number): void {
    writeFileSync(join(this.#folder, file), String(value));
  }
}
