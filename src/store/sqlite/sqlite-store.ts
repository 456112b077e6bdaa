import type { KeyHolder } from "../../domain/credentials.ts";
import { StoreError, type Store } from "../store.ts";
import { accountReads } from "./accounts.ts";
import { codeOf, isBusy, openReader, type Connection } from "./connection.ts";
import { deliveryReads } from "./deliveries.ts";
import { GroupCommit, type BatchTransport } from "./group-commit.ts";
import { taskReads } from "./tasks.ts";
import { openInlineWriter, startWriterThread } from "./writer.ts";

/** How to open the store. */
export interface SqliteStoreOptions {
  /** The database file; made, with mode 0600, where there is none. */
  readonly file: string;
  /** `thread` for the daemon; `inline` for a process that writes a few steps and ends. */
  readonly writer: "thread" | "inline";
  /** Client writes are refused while this many rows wait. */
  readonly backlogMax: number;
}

const BATCH_WEIGHT_MAX = 256;

/**
 * Opens the store in one SQLite file: all writes go through one writer with group commit, reads use a
 * read-only connection on this thread and see every commit, of this process or another.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { file, writer, backlogMax } = options;
  const transport = writer === "thread" ? await startWriterThread(file) : openInlineWriter(file);
  const limits = { batchWeightMax: BATCH_WEIGHT_MAX, backlogWeightMax: backlogMax };
  try {
    return new SqliteStore(openReader(file), transport, limits);
  } catch (error) {
    await transport.close();
    throw error;
  }
}

const ENGINE_WRITE = { weight: 1, mayShed: false };
const OPERATOR_WRITE = { weight: 1, mayShed: false };

class SqliteStore implements Store {
  readonly #reader: Connection;
  readonly #reads: Reads;
  readonly #commit: GroupCommit;
  readonly #keyHolders = new TurnMemo<KeyHolder | null>();
  #closing: Promise<void> | null = null;

  constructor(
    reader: Connection,
    transport: BatchTransport,
    limits: ConstructorParameters<typeof GroupCommit>[1],
  ) {
    this.#reader = reader;
    this.#reads = allReads(reader);
    this.#commit = new GroupCommit(transport, limits);
  }

  createAccount: Store["createAccount"] = (account) =>
    this.#commit.submit("createAccount", account, OPERATOR_WRITE);
  setAccountDisabled: Store["setAccountDisabled"] = (change) =>
    this.#changeKeys(this.#commit.submit("setAccountDisabled", change, OPERATOR_WRITE));
  createKey: Store["createKey"] = (key) => this.#commit.submit("createKey", key, OPERATOR_WRITE);
  revokeKey: Store["revokeKey"] = (change) =>
    this.#changeKeys(this.#commit.submit("revokeKey", change, OPERATOR_WRITE));

  listAccounts: Store["listAccounts"] = () => this.#read((reads) => reads.listAccounts());
  listKeys: Store["listKeys"] = (login) => this.#read((reads) => reads.listKeys(login));
  findKeyHolder: Store["findKeyHolder"] = (hash) =>
    this.#read((reads) => this.#keyHolders.get(hash, () => reads.findKeyHolder(hash)));

  insertTasks: Store["insertTasks"] = (post) => {
    let weight = 0;
    for (const task of post.accepted) weight += weightOf(task);
    for (const task of post.refused) weight += weightOf(task);
    return this.#commit.submit("insertTasks", post, { weight, mayShed: true });
  };
  collectTask: Store["collectTask"] = (key) =>
    this.#commit.submit("collectTask", key, { weight: 1, mayShed: true });

  findTask: Store["findTask"] = (key) => this.#read((reads) => reads.findTask(key));
  listReady: Store["listReady"] = (query) => this.#read((reads) => reads.listReady(query));

  claimTasks: Store["claimTasks"] = (claim) =>
    this.#commit.submit("claimTasks", claim, { weight: claim.max, mayShed: false });
  finishTask: Store["finishTask"] = (finish) =>
    this.#commit.submit("finishTask", finish, ENGINE_WRITE);
  retryTask: Store["retryTask"] = (retry) => this.#commit.submit("retryTask", retry, ENGINE_WRITE);
  requeueTasks: Store["requeueTasks"] = (which) =>
    this.#commit.submit("requeueTasks", which, ENGINE_WRITE);
  releaseDelayed: Store["releaseDelayed"] = (due) =>
    this.#commit.submit("releaseDelayed", due, { weight: due.max, mayShed: false });

  claimAttempts: Store["claimAttempts"] = (claim) => {
    const weight = claim.lanes.reduce((sum, lane) => sum + lane.max, 0);
    return this.#commit.submit("claimAttempts", claim, { weight, mayShed: false });
  };
  recordAttempt: Store["recordAttempt"] = (record) =>
    this.#commit.submit("recordAttempt", record, ENGINE_WRITE);

  listLanes: Store["listLanes"] = () => this.#read((reads) => reads.listLanes());
  listInFlight: Store["listInFlight"] = () => this.#read((reads) => reads.listInFlight());
  listDeliveries: Store["listDeliveries"] = (key) =>
    this.#read((reads) => reads.listDeliveries(key));

  eraseExpired: Store["eraseExpired"] = (due) =>
    this.#commit.submit("eraseExpired", due, { weight: due.max, mayShed: false });
  reclaimSpace: Store["reclaimSpace"] = () =>
    this.#commit.submit("reclaimSpace", undefined, ENGINE_WRITE);

  fault: Store["fault"] = () => this.#commit.fault;

  async #changeKeys<Value>(written: Promise<Value>): Promise<Value> {
    const value = await written;
    this.#keyHolders.forget();
    return value;
  }

  async #read<Value>(read: (reads: Reads) => Value): Promise<Value> {
    if (this.#closing !== null) throw new StoreError("closed", "the store is closed");
    try {
      return read(this.#reads);
    } catch (error) {
      throw toReadError(error);
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  // The writer goes last: a connection that may write checkpoints as the last one to leave, and takes -wal and
  // -shm with it; a read-only one leaves them behind.
  async #close(): Promise<void> {
    await this.#commit.stop();
    this.#reader.close();
    await this.#commit.close();
  }
}

// A page of text weighs as much as a row, so that the limits of batch and backlog bound their bytes too.
function weightOf(task: { readonly dataText: string; readonly inputText: string | null }): number {
  return 1 + Math.floor((task.dataText.length + (task.inputText?.length ?? 0)) / 4096);
}

// A file that cannot be read is the store's trouble; any other error is a bug and stays what it is.
function toReadError(error: unknown): unknown {
  if (codeOf(error) === "") return error;
  const kind = isBusy(error) ? "busy" : "failed";
  return new StoreError(kind, "the database cannot be read", { cause: error });
}

/**
 * Shares a read among callers in one turn of the event loop, and forgets it before the next turn takes in
 * anything from a socket. Not a cache: a request that is sent after a change was committed comes in with a
 * later turn. It is here because the first read after any commit costs SQLite its page cache (measured:
 * 58 µs against 15 µs), and 64 busy connections of one client bring some twenty requests a turn.
 */
class TurnMemo<Value> {
  readonly #values = new Map<string, { readonly value: Value }>();

  get(key: string, read: () => Value): Value {
    const known = this.#values.get(key);
    if (known !== undefined) return known.value;
    const value = read();
    if (this.#values.size === 0) setImmediate(() => this.forget());
    this.#values.set(key, { value });
    return value;
  }

  forget(): void {
    this.#values.clear();
  }
}

type Reads = ReturnType<typeof allReads>;

function allReads(reader: Connection) {
  return { ...accountReads(reader), ...taskReads(reader), ...deliveryReads(reader) };
}
