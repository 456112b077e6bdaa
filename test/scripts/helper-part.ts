import { helperProcess } from "../../scripts/kit/helper-process.ts";

/** What the tests of helper processes ask. */
class Part {
  readonly #open = Promise.withResolvers<string>();

  echo(value: unknown): unknown {
    return value;
  }

  fail(why: string): never {
    throw new Error(why);
  }

  /** Settles when somebody says what with. */
  wait(): Promise<string> {
    return this.#open.promise;
  }

  say(what: string): void {
    this.#open.resolve(what);
  }

  end(): void {
    process.exit(3);
  }
}

export class PartProcess extends helperProcess(import.meta, Part) {}
