import { everyStep } from "../../domain/error.ts";
import type { GroupCommit } from "../common/group-commit.ts";
import type { ReadOwner } from "../common/read-turns.ts";
import { submitOptionsOf } from "../sql/writes.ts";
import { StoreError } from "../store.ts";
import { toReadError, type Connection } from "./machine/connection.ts";
import type { FileGuard, LongReader } from "./reader.ts";
import { shortReads, type LongReads } from "./reads.ts";
import type { Writes } from "./writes.ts";

/** The parts of an open file. */
export interface FileParts {
  readonly reader: Connection;
  readonly longReader: LongReader;
  readonly commit: GroupCommit<Writes>;
  readonly guard: FileGuard;
}

type Read = (...args: readonly unknown[]) => unknown;
type ShortReads = ReturnType<typeof shortReads>;
type ArgsOf<Name extends keyof Writes> = Parameters<Writes[Name]>[0];
type LongArgsOf<Name extends keyof LongReads> = Parameters<LongReads[Name]>[0];

type Asked<Step> = Step extends (...args: infer Args) => infer Value
  ? (...args: Args) => Promise<Value>
  : never;

/** An open file. Makes methods of a store from its reads and writes, until it is closed. */
export class FileAccess {
  /** The reads that run immediately, on this thread. */
  readonly reads: { readonly [Name in keyof ShortReads]: Asked<ShortReads[Name]> };
  readonly commit: GroupCommit<Writes>;
  readonly guard: FileGuard;
  readonly #parts: FileParts;
  #closing: Promise<void> | null = null;

  constructor(parts: FileParts) {
    const reads = Object.entries(shortReads(parts.reader));
    // Each keeps its name, its arguments and its answer.
    this.reads = Object.fromEntries(
      reads.map(([name, read]) => [name, this.#asked(read as Read)]),
    ) as typeof this.reads;
    this.commit = parts.commit;
    this.guard = parts.guard;
    this.#parts = parts;
  }

  #asked(read: Read): Asked<Read> {
    return async (...args) => {
      this.refuseWhenClosed();
      try {
        return read(...args);
      } catch (error) {
        throw this.guard.noted(toReadError(error));
      }
    };
  }

  /** A read that may take long, in its owner's turn; it has an owner only if `ownerOf` names one. */
  readonly readLong =
    <Name extends keyof LongReads>(
      name: Name,
      ownerOf: (args: LongArgsOf<Name>) => ReadOwner = () => null,
    ) =>
    async (args: LongArgsOf<Name>): Promise<ReturnType<LongReads[Name]>> => {
      this.refuseWhenClosed();
      return this.guard.reading(this.#parts.longReader.read(name, args, ownerOf(args)));
    };

  /** A write that weighs what its name and its arguments say. */
  readonly write = <Name extends keyof Writes>(
    name: Name,
  ): ((args: ArgsOf<Name>) => Promise<ReturnType<Writes[Name]>>) => {
    const optionsOf = submitOptionsOf("sqlite", name);
    return (args) => this.commit.submit(name, args, optionsOf(args));
  };

  /** Throws once the store is closed. */
  refuseWhenClosed(): void {
    if (this.#closing !== null) throw new StoreError("closed", "the store is closed");
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  // The writer goes last. The last connection to leave checkpoints and removes -wal and -shm if it may write; a
  // read-only one would leave them behind.
  #close(): Promise<void> {
    const { reader, longReader } = this.#parts;
    return everyStep([
      () => this.commit.stop(),
      () => longReader.close(),
      () => this.guard.close(),
      () => reader.close(),
      () => this.commit.close(),
    ]);
  }
}
