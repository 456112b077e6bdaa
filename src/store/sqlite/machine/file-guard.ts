import { damage, FileFault, type FileTrouble } from "../../file-fault.ts";
import { BackgroundCheck, type TableReader } from "./background-check.ts";
import { OpenFiles } from "./open-files.ts";

/** The parts that a {@link FileGuard} needs. */
export interface FileGuardDeps {
  readonly commit: { condemn(trouble: FileTrouble): void };
  readonly newReader: () => TableReader;
}

/** Ends all writing when the file cannot be written to, or no longer. */
export class FileGuard {
  readonly #commit: FileGuardDeps["commit"];
  readonly #files: OpenFiles;
  readonly #check: BackgroundCheck;

  /** To be made once the file is open. */
  constructor(file: string, { commit, newReader }: FileGuardDeps) {
    this.#commit = commit;
    this.#files = new OpenFiles(file);
    this.#check = new BackgroundCheck(newReader);
  }

  /** Checks that the files are still the ones that were opened. */
  look(): void {
    const trouble = this.#files.trouble();
    if (trouble !== null) this.#commit.condemn(trouble);
  }

  /** Looks for damage in the next table. */
  async check(): Promise<"more" | "done"> {
    const step = await this.reading(this.#check.step());
    if (step.kind !== "damaged") return step.kind;
    this.#commit.condemn(damage(step.detail));
    return "done";
  }

  /** Waits for a read that may meet damage. */
  async reading<Value>(read: Promise<Value>): Promise<Value> {
    try {
      return await read;
    } catch (error) {
      throw this.noted(error);
    }
  }

  /** Makes of an error of a read what it says about the file. */
  noted(error: unknown): unknown {
    if (error instanceof FileFault) this.#commit.condemn(error.trouble);
    return error;
  }

  /** Waits for the read that is under way. */
  close(): Promise<void> {
    return this.#check.close();
  }
}
