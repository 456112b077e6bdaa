import { copyFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

import type { Program } from "../kit/daemon.ts";
import type { TracedLife } from "./disk-record.ts";
import { traceEnd, tracedProgram } from "./strace.ts";

/** One process that was recorded: the command that made the account, then one daemon after the other. */
export interface RecordedLife extends TracedLife {
  /** When it was killed, in epoch milliseconds; null for those that ended by themselves. */
  readonly killedAt: number | null;
}

const TRACE_MS_MAX = 20_000;

/** Gives each process a trace of its own, and copies the database's files when it has ended. */
export class LifeRecorder {
  readonly all: RecordedLife[] = [];
  readonly #program: Program;
  readonly #folder: string;

  constructor(program: Program, folder: string) {
    this.#program = program;
    this.#folder = folder;
  }

  /** The program for the next process. */
  program(): Program {
    return tracedProgram(this.#program, this.#traceFile);
  }

  /** Call it when the process has ended, with the folder of the database. */
  async end(daemonFolder: string, killedAt: number | null): Promise<void> {
    const traceFile = this.#traceFile;
    await traceEnd(traceFile, TRACE_MS_MAX);
    const snapshot = join(this.#folder, `life-${this.all.length}`);
    mkdirSync(snapshot);
    for (const name of readdirSync(daemonFolder))
      copyFileSync(join(daemonFolder, name), join(snapshot, name));
    this.all.push({ traceFile, snapshot, killedAt });
  }

  get #traceFile(): string {
    return join(this.#folder, `life-${this.all.length}.strace`);
  }
}
