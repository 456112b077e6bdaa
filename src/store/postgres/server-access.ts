import type { GroupCommit } from "../common/group-commit.ts";
import { ReadTurns, type ReadOwner } from "../common/read-turns.ts";
import { submitOptionsOf } from "../sql/writes.ts";
import { StoreError, type Store } from "../store.ts";
import type { ReadingNode } from "./attempts.ts";
import type { Reader, SnapshotReader } from "./machine/reader.ts";
import type { ClientWaits } from "./machine/writer.ts";
import type { LongReads } from "./reads.ts";
import { longReads, shortReads } from "./reads.ts";
import type { NodeMemory } from "./scan-starts.ts";
import type { ArgsOf, ValueOf } from "./steps.ts";
import type { Writes } from "./writes.ts";

/** The parts of an open database. */
export interface ServerParts {
  readonly reader: Reader;
  readonly longReader: SnapshotReader;
  readonly commit: GroupCommit<Writes>;
  readonly node: ReadingNode;
  readonly memory: NodeMemory;
  readonly clients: ClientWaits;
}

type LongName = keyof LongReads;

/** The arguments of a long read; of a list, the arguments of one turn. */
type LongArgs<Name extends LongName> =
  Parameters<LongReads[Name]> extends readonly [infer Args]
    ? Args
    : Name extends keyof Store
      ? ArgsOf<Name>
      : never;

type LongValue<Name extends LongName> = Awaited<ReturnType<LongReads[Name]>>;

/** An open database. Makes methods of a store from its reads and writes, until it is closed. */
export class ServerAccess {
  /** The reads of one statement or a few quick ones. */
  readonly reads: ReturnType<typeof shortReads>;
  readonly commit: GroupCommit<Writes>;
  readonly #longReader: SnapshotReader;
  readonly #clients: ClientWaits;
  readonly #turns = new ReadTurns();
  #isClosed = false;

  constructor({ reader, longReader, commit, node, memory, clients }: ServerParts) {
    this.#clients = clients;
    this.reads = shortReads(reader, node, memory);
    this.commit = commit;
    this.#longReader = longReader;
  }

  /** A read that may take long, in its owner's turn; it has an owner only if `ownerOf` names one. */
  readonly readLong =
    <Name extends LongName>(
      name: Name,
      ownerOf: (args: LongArgs<Name>) => ReadOwner = () => null,
    ) =>
    async (args: LongArgs<Name>): Promise<LongValue<Name>> => {
      if (this.#isClosed) throw new StoreError("closed", "the store is closed");
      return this.#turns.take(ownerOf(args), () =>
        this.#longReader.read((sql) => {
          // Each keeps its name, its arguments and its answer.
          const read = longReads(sql)[name] as (args: LongArgs<Name>) => Promise<LongValue<Name>>;
          return read(args);
        }),
      );
    };

  /** A write that weighs what its name and its arguments say. */
  readonly write = <Name extends keyof Writes>(
    name: Name,
  ): ((args: ArgsOf<Name>) => Promise<ValueOf<Name>>) => {
    const optionsOf = submitOptionsOf("postgres", name);
    return (args) => {
      const options = optionsOf(args);
      // The value has the type of the same name.
      const submit = (own: ArgsOf<Name>): Promise<ValueOf<Name>> =>
        this.commit.submit(name, own, options) as Promise<ValueOf<Name>>;
      if (!options.mayShed || !isObject(args)) return submit(args);
      // The same post may be asked for twice: each waits for itself.
      const own = { ...args };
      return this.#clients.wait(own, () => submit(own));
    };
  };

  /** Begins no more long reads; settles once those that were asked for have been answered. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#turns.idle();
  }
}

function isObject<Args>(args: Args): args is Args & object {
  return typeof args === "object" && args !== null;
}
