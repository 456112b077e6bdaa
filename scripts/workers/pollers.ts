import { asError } from "../kit/as-error.ts";
import { helperProcess } from "../kit/helper-process.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import {
  claimedTasks,
  completionBody,
  requireCompleted,
  workerRequest,
} from "../kit/worker-request.ts";

/** Which workers are to wait, and how. */
export interface Polling {
  readonly port: number;
  readonly token: string;
  readonly type: string;
  readonly connections: number;
  readonly waitSeconds: number;
}

class WaitingWorkers {
  #polling: Polling | null = null;
  #empty = 0;
  #failure: Error | null = null;
  /** Called when a task has arrived, and when it is completed. */
  #arrived: (at: number) => void = () => {};
  #completed: () => void = () => {};

  /** Settles when every poll has been sent. */
  async open(polling: Polling): Promise<void> {
    const { port, connections } = polling;
    this.#polling = polling;
    const opening = Array.from({ length: connections }, () => KeptConnection.open(port));
    for (const connection of await Promise.all(opening)) {
      this.#poll(connection, polling).catch((error: unknown) => {
        this.#failure ??= asError(error);
      });
    }
  }

  /** Polls that came back empty so far. Throws when one was not answered as it should be. */
  empty(): number {
    if (this.#failure !== null) throw this.#failure;
    return this.#empty;
  }

  /**
   * Posts tasks, each when the one before has been handed out and completed: `request` is a whole request that posts one, as
   * text of ASCII characters. Answers how long each took from its sending to the arrival at a worker, in milliseconds.
   */
  async hand(order: { readonly request: string; readonly posts: number }): Promise<number[]> {
    if (this.#polling === null) throw new Error("no worker waits yet");
    using poster = await KeptConnection.open(this.#polling.port);
    const handMs: number[] = [];
    for (let post = 0; post < order.posts; post++) {
      const arrived = new Promise<number>((resolve) => (this.#arrived = resolve));
      const completed = new Promise<void>((resolve) => (this.#completed = resolve));
      const sentAt = performance.now();
      await poster.ask(order.request);
      handMs.push((await arrived) - sentAt);
      await completed;
    }
    this.empty();
    return handMs;
  }

  async #poll(connection: KeptConnection, polling: Polling): Promise<void> {
    const { token, type, waitSeconds } = polling;
    const wish = JSON.stringify({ types: [type], max: 1, wait_seconds: waitSeconds });
    const claim = Buffer.from(workerRequest("claim", { token, body: wish }));
    for (;;) {
      const tasks = claimedTasks(await connection.ask(claim));
      if (tasks.length === 0) {
        this.#empty++;
        continue;
      }
      this.#arrived(performance.now());
      const body = completionBody(tasks);
      const done = await connection.ask(workerRequest("complete", { token, body }));
      requireCompleted(done, tasks.length);
      this.#completed();
    }
  }
}

/** Workers that wait for tasks by long polls, each on a connection of its own, in a process of their own. */
export class Pollers extends helperProcess(import.meta, WaitingWorkers) {}
