import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";

import { cleanAtExit } from "../exit-cleanup.ts";

/** A part of the bench in a process of its own: it answers every message with one message. */
export class HelperProcess {
  readonly #child: ChildProcess;
  readonly #kill: () => void;

  /** `file` is one of the scripts beside this one that call {@link answerMessages}. */
  constructor(file: URL) {
    // Without options of this process such as tsx: Node runs TypeScript by itself, and starts faster.
    const child = fork(file, { execArgv: [], serialization: "advanced" });
    this.#child = child;
    this.#kill = cleanAtExit(() => child.kill("SIGKILL"));
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error("a helper process did not start");
    return this.#child.pid;
  }

  /** Sends a message and waits for the answer. One at a time. Rejects when the process ends instead. */
  async ask(message: object): Promise<unknown> {
    const waiting = new AbortController();
    const { signal } = waiting;
    try {
      const answered = once(this.#child, "message", { signal });
      const ended = once(this.#child, "exit", { signal });
      this.#child.send(message);
      const [answer] = await Promise.race([answered, ended.then(refuse)]);
      return answer;
    } finally {
      waiting.abort();
    }
  }

  [Symbol.dispose](): void {
    this.#kill();
  }
}

function refuse(): never {
  throw new Error("a helper process ended before it answered");
}

/** Answers the messages of the process that started this one, and ends with it. */
export function answerMessages(answer: (message: unknown) => Promise<object> | object): void {
  process.on("message", (message) => {
    // What fails here ends this process, and so the question of the one that asked.
    void Promise.resolve(answer(message)).then((reply) => process.send?.(reply));
  });
  process.on("disconnect", () => process.exit());
}
