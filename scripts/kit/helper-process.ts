import { fork, type ChildProcess } from "node:child_process";

import { cleanAtExit } from "./scratch.ts";

/** A part of a script whose methods can be asked from another process: each takes one plain value at most. */
type Answering<Part> = { readonly [Name in keyof Part]: (question: never) => unknown };

interface Question {
  readonly number: number;
  readonly name: string;
  readonly question: unknown;
}

type Answer = { readonly number: number } & (
  | { readonly value: unknown }
  | { readonly error: string }
);

/**
 * A part of a script in its own process, where its work does not disturb the measurement. Gone when it is disposed of
 * or this process ends.
 */
class HelperProcess<Part extends Answering<Part>> {
  readonly #child: ChildProcess;
  readonly #kill: () => void;
  readonly #open = new Map<number, PromiseWithResolvers<unknown>>();
  #asked = 0;
  #hasEnded = false;

  constructor(file: string) {
    // Without options of this process such as tsx: Node runs TypeScript by itself, and starts faster.
    const child = fork(new URL(file), { execArgv: [], serialization: "advanced" });
    this.#child = child;
    this.#kill = cleanAtExit(() => child.kill("SIGKILL"));
    // Both ends run the same file of the same version, so every message has the expected type.
    child.on("message", (answer) => this.#take(answer as Answer));
    child.on("error", () => this.#end());
    child.on("exit", () => this.#end());
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error("a helper process did not start");
    return this.#child.pid;
  }

  /** Has the part answer. Rejects when the part throws, and when its process ends instead. */
  ask<Name extends keyof Part & string>(
    name: Name,
    ...[question]: Parameters<Part[Name]>
  ): Promise<Awaited<ReturnType<Part[Name]>>> {
    const number = this.#asked++;
    const waiting = Promise.withResolvers<unknown>();
    this.#open.set(number, waiting);
    if (this.#hasEnded) this.#end();
    else this.#child.send({ number, name, question } satisfies Question);
    return waiting.promise as Promise<Awaited<ReturnType<Part[Name]>>>;
  }

  [Symbol.dispose](): void {
    this.#kill();
  }

  #take(answer: Answer): void {
    const waiting = this.#open.get(answer.number);
    this.#open.delete(answer.number);
    if ("error" in answer) waiting?.reject(new Error(answer.error));
    else waiting?.resolve(answer.value);
  }

  #end(): void {
    this.#hasEnded = true;
    for (const number of [...this.#open.keys()]) {
      this.#take({ number, error: "a helper process ended before it answered" });
    }
  }
}

/**
 * A class whose instances are such a part, each in a process of its own, which runs the module that calls this: at its
 * end, when all that the part needs is there.
 */
export function helperProcess<Part extends Answering<Part>>(
  module: ImportMeta,
  type: new () => Part,
) {
  if (module.main) answerAs(new type());
  return class extends HelperProcess<Part> {
    constructor() {
      super(module.url);
    }
  };
}

/** Serves a part in the process that {@link HelperProcess} started, and ends with the calling process. */
function answerAs<Part extends Answering<Part>>(part: Part): void {
  const answer = async ({ name, question }: Question): Promise<{ readonly value: unknown }> => {
    // The names are the part's own, and each question is what its method takes.
    const method = name as keyof Part;
    return { value: await part[method](question as never) };
  };
  process.on("message", (message) => {
    const question = message as Question;
    void answer(question)
      .catch((error: unknown) => {
        return { error: error instanceof Error ? error.message : String(error) };
      })
      .then((said) => process.send?.({ ...said, number: question.number } satisfies Answer));
  });
  process.on("disconnect", () => process.exit());
}
