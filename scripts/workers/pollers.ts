import { z } from "zod";

import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import {
  claimedTasks,
  completionBody,
  requireCompleted,
  workerRequest,
} from "../kit/worker-request.ts";

const openOrder = z.object({
  kind: z.literal("open"),
  port: z.number(),
  token: z.string(),
  type: z.string(),
  connections: z.number(),
  waitSeconds: z.number(),
});

const handOrder = z.object({
  kind: z.literal("hand"),
  /** A whole request that posts one task, as text of ASCII characters. */
  request: z.string(),
  posts: z.number(),
});

const pollersOrder = z.discriminatedUnion("kind", [
  openOrder,
  handOrder,
  z.object({ kind: z.literal("count") }),
]);

const pollersReport = z.object({
  /** Polls that came back empty so far. */
  empty: z.number(),
  /** Of each post of a `hand` order, from its sending to the arrival of the task at a worker, in milliseconds. */
  handMs: z.array(z.number()),
});

/** What waiting workers have seen. */
export type PollersReport = Readonly<z.infer<typeof pollersReport>>;

/** Workers that wait for tasks by long polls, each on a connection of its own, in a process of their own. */
export class Pollers {
  readonly #helper = new HelperProcess(new URL(import.meta.url));

  /** Settles when every poll has been sent. */
  async open(order: Omit<z.infer<typeof openOrder>, "kind">): Promise<void> {
    await this.#ask({ kind: "open", ...order });
  }

  /** Rejects when a poll was not answered as it should be. */
  count(): Promise<PollersReport> {
    return this.#ask({ kind: "count" });
  }

  /** Posts tasks, each when the one before has been handed out and completed. */
  hand(order: Omit<z.infer<typeof handOrder>, "kind">): Promise<PollersReport> {
    return this.#ask({ kind: "hand", ...order });
  }

  async #ask(order: z.infer<typeof pollersOrder>): Promise<PollersReport> {
    const answer = z.union([pollersReport, z.object({ error: z.string() })]);
    const report = answer.parse(await this.#helper.ask(order));
    if ("error" in report) throw new Error(report.error);
    return report;
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

class WaitingWorkers {
  readonly #token: string;
  readonly #port: number;
  readonly #claim: Buffer;
  #empty = 0;
  #failure: Error | null = null;
  /** Told when a task has arrived, and when it is completed. */
  #arrived: (at: number) => void = () => {};
  #completed: () => void = () => {};

  constructor(order: z.infer<typeof openOrder>) {
    this.#token = order.token;
    this.#port = order.port;
    const wish = { types: [order.type], max: 1, wait_seconds: order.waitSeconds };
    const body = JSON.stringify(wish);
    this.#claim = Buffer.from(workerRequest("claim", { token: order.token, body }));
  }

  async open(connections: number): Promise<void> {
    const opening = Array.from({ length: connections }, () => KeptConnection.open(this.#port));
    for (const connection of await Promise.all(opening)) {
      this.#poll(connection).catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error));
      });
    }
  }

  get report(): PollersReport {
    if (this.#failure !== null) throw this.#failure;
    return { empty: this.#empty, handMs: [] };
  }

  async hand({ request, posts }: z.infer<typeof handOrder>): Promise<PollersReport> {
    using poster = await KeptConnection.open(this.#port);
    const bytes = Buffer.from(request, "latin1");
    const handMs: number[] = [];
    for (let post = 0; post < posts; post++) {
      const arrived = new Promise<number>((resolve) => (this.#arrived = resolve));
      const completed = new Promise<void>((resolve) => (this.#completed = resolve));
      const sentAt = performance.now();
      await poster.ask(bytes);
      handMs.push((await arrived) - sentAt);
      await completed;
    }
    return { ...this.report, handMs };
  }

  async #poll(connection: KeptConnection): Promise<void> {
    for (;;) {
      const answer = await connection.ask(this.#claim);
      const tasks = claimedTasks(answer);
      if (tasks.length === 0) {
        this.#empty++;
        continue;
      }
      this.#arrived(performance.now());
      const body = completionBody(tasks);
      const done = await connection.ask(workerRequest("complete", { token: this.#token, body }));
      requireCompleted(done, tasks.length);
      this.#completed();
    }
  }
}

function answerOrders(): void {
  let workers: WaitingWorkers | null = null;
  const answer = async (message: unknown): Promise<PollersReport> => {
    const order = pollersOrder.parse(message);
    if (order.kind === "open") {
      workers = new WaitingWorkers(order);
      await workers.open(order.connections);
    }
    if (workers === null) throw new Error("no worker waits yet");
    return order.kind === "hand" ? workers.hand(order) : workers.report;
  };
  answerMessages((message) => answer(message).catch((error) => ({ error: String(error) })));
}

if (import.meta.main) answerOrders();
