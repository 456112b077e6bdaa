import { basename } from "node:path";
import type { TestContext } from "node:test";

import { node } from "../run/command-run.ts";
import { openHeldProcesses } from "../run/held-process.ts";

/** A command that a node has started, and that goes on until it is told to finish. */
export interface HeldRun {
  /** The task's id. */
  readonly id: string;
  /** The folder of the node, without its path. */
  readonly node: string;
  /** When it was heard of. */
  readonly startedAt: number;
  /** Has it end well, with `{ node }` for its result. */
  finish(): void;
  /** Settles when its process has ended. */
  readonly ended: Promise<unknown>;
}

/** Shows the runs of the types that {@link Runs.type} made, whichever node they are on. */
export interface Runs {
  /** The configuration of such a type, with so many runs at each node; 4 unless told. */
  type(name: string, concurrency?: number): string;
  /** The next run, as soon as it starts. */
  next(): Promise<HeldRun>;
  /** Those that have started so far, in their order; the same as {@link next} gives. */
  readonly all: readonly HeldRun[];
}

/** Opens what shows runs. */
export async function openRuns(t: TestContext): Promise<Runs> {
  const held = await openHeldProcesses(t);
  const all: HeldRun[] = [];
  const wanted: ((run: HeldRun) => void)[] = [];
  let given = 0;
  const take = async (): Promise<void> => {
    for (;;) {
      const { socket, ended, line } = await held.next();
      void line().then(
        (text) => {
          // What test/fixtures/commands/tell.mjs says.
          const { folder, id } = JSON.parse(text) as {
            readonly folder: string;
            readonly id: string;
          };
          const own = basename(folder);
          const finish = (): void => void socket.write(`${JSON.stringify({ node: own })}\n`);
          const run = { id, node: own, startedAt: Date.now(), finish, ended };
          all.push(run);
          const want = wanted.shift();
          if (want === undefined) return;
          given++;
          want(run);
        },
        // It was ended before it could say anything.
        () => {},
      );
    }
  };
  void take();
  return {
    all,
    type(name, concurrency = 4) {
      const command = JSON.stringify(node("tell.mjs", held.socketPath));
      return `\n[types.${name}]\ncommand = ${command}\nconcurrency = ${concurrency}\n`;
    },
    next: () => {
      const run = all[given];
      if (run !== undefined) {
        given++;
        return Promise.resolve(run);
      }
      return new Promise((resolve) => wanted.push(resolve));
    },
  };
}
