import { basename } from "node:path";
import type { TestContext } from "node:test";

import { node, openHeldProcesses } from "../run/command-run.ts";

/** A command that a node has started and that runs until {@link finish}. */
export interface HeldRun {
  /** The task's id. */
  readonly id: string;
  /** The name of the node's folder. */
  readonly node: string;
  /** When the test got its first line. */
  readonly startedAt: number;
  /** Completes it with the result `{ node }`. */
  finish(): void;
  /** Settles when its process has ended. */
  readonly ended: Promise<unknown>;
}

/** The runs of the types that {@link Runs.type} made, of all nodes. */
export interface Runs {
  /** The configuration of such a type, with so many runs at each node; 4 by default. */
  type(name: string, concurrency?: number): string;
  /** The next run, as soon as it starts. */
  next(): Promise<HeldRun>;
}

/** Opens the socket to which such runs connect. */
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
          // The line of test/fixtures/commands/tell.mjs.
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
        // It was ended before it could send its line.
        () => {},
      );
    }
  };
  void take();
  return {
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
