import { systemClock, type Clock } from "../../domain/clock/clock.ts";
import type { Observer } from "../../domain/observer.ts";
import { observedTransport } from "../common/batch.ts";
import { GroupCommit } from "../common/group-commit.ts";
import { newLoneNode } from "../common/lone-node.ts";
import type { GiveWay } from "../common/read-turns.ts";
import { BATCH_WEIGHT_MAX } from "../common/write-rule.ts";
import type { Store } from "../store.ts";
import { FileAccess } from "./file-access.ts";
import { openReader } from "./machine/connection.ts";
import { fileMethods, readMethods, writeMethods } from "./methods.ts";
import { FileGuard, newInlineReader, newThreadReader } from "./reader.ts";
import { openInlineWriter, startWriterThread } from "./writer.ts";
import type { Writes } from "./writes.ts";

/** How to open the store. */
export interface SqliteStoreOptions {
  /** The database file; created with mode 0600 if it does not exist. */
  readonly file: string;
  /** `thread` for the daemon; `inline` for a process that writes a few steps and ends. */
  readonly writer: "thread" | "inline";
  /** Client writes are refused while this many rows wait. */
  readonly backlogMax: number;
  /** The machine's clock unless given. */
  readonly clock?: Clock;
  readonly observer?: Observer | undefined;
  /** Called between two reads of the reader thread; by default the event loop goes round once. */
  readonly giveWay?: GiveWay;
  /** How many tasks a page may look at; by default the number of {@link Store.listTasks}. */
  readonly examineMax?: number | undefined;
}

/**
 * Opens the store in one SQLite file. All writes go through one writer with group commit. Reads use a read-only
 * connection on this thread and see every commit, of this process or another.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { file, writer, backlogMax, examineMax, observer, clock = systemClock } = options;
  const transport = writer === "thread" ? await startWriterThread(file) : openInlineWriter(file);
  const limits = { batchWeightMax: BATCH_WEIGHT_MAX, backlogWeightMax: backlogMax };
  try {
    const reader = openReader(file);
    const longReader = writer === "thread" ? newThreadReader(options) : newInlineReader(reader);
    const observed = observedTransport(transport, { observer, clock });
    const commit = new GroupCommit<Writes>(observed, limits);
    const guard = new FileGuard(file, commit);
    const access = new FileAccess({ reader, longReader, commit, guard });
    // Then the engine will list lanes: the thread starts while the daemon loads what serves HTTP.
    if (await access.reads.hasScheduled()) longReader.start();
    return {
      ...access.reads,
      ...writeMethods(access),
      ...readMethods(access, { examineMax }),
      ...fileMethods(access, newLoneNode(clock)),
    };
  } catch (error) {
    await transport.close();
    throw error;
  }
}
