import type { KeyHolder } from "../../domain/account/credentials.ts";
import { everyStep } from "../../domain/every-step.ts";
import { StoreError, type ClaimedAttempt, type Store, type WorkerHolder } from "../store.ts";
import { onlyRef } from "./attempt-claims.ts";
import { listByTurns } from "./list-turns.ts";
import type { LongReads } from "./long-reads.ts";
import { openReader, toReadError, type Connection } from "./machine/connection.ts";
import { FileGuard } from "./machine/file-guard.ts";
import { GroupCommit } from "./machine/group-commit.ts";
import type { MigrationStart } from "./machine/migrate.ts";
import type { GiveWay, ReadOwner } from "./machine/read-turns.ts";
import { TurnMemo } from "./machine/turn-memo.ts";
import { messageOf } from "./machine/write-failure.ts";
import { newInlineReader, newThreadReader, type LongReader } from "./reader.ts";
import { allReads, type Reads } from "./reads.ts";
import { isShortRead } from "./ready-list.ts";
import { searchByTurns } from "./task-search-turns.ts";
import { toTraffic } from "./traffic.ts";
import {
  BATCH_WEIGHT_MAX,
  ENGINE_WRITE,
  OPERATOR_WRITE,
  STEP_WEIGHT,
  weightOfEnd,
  weightOfPost,
  WHOLE_TABLES,
} from "./write-weight.ts";
import { openInlineWriter, startWriterThread } from "./writer.ts";

/** How to open the store. */
export interface SqliteStoreOptions {
  /** The database file; made, with mode 0600, where there is none. */
  readonly file: string;
  /** `thread` for the daemon; `inline` for a process that writes a few steps and ends. */
  readonly writer: "thread" | "inline";
  /** Client writes are refused while this many rows wait. */
  readonly backlogMax: number;
  /** Told before a file that an older program made is migrated, which may take a while; of a `thread` only. */
  readonly migrating?: (start: MigrationStart) => void;
  /** Between two reads of the reader thread; the event loop goes round once unless given. */
  readonly giveWay?: GiveWay;
}

/**
 * Opens the store in one SQLite file: all writes go through one writer with group commit, reads use a
 * read-only connection on this thread and see every commit, of this process or another.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { file, writer, backlogMax, migrating } = options;
  const transport =
    writer === "thread" ? await startWriterThread(file, migrating) : openInlineWriter(file);
  const limits = { batchWeightMax: BATCH_WEIGHT_MAX, backlogWeightMax: backlogMax };
  try {
    const reader = openReader(file);
    const longReader = writer === "thread" ? newThreadReader(options) : newInlineReader(reader);
    const commit = new GroupCommit(transport, limits);
    return new SqliteStore({ reader, longReader, commit, guard: new FileGuard(file, commit) });
  } catch (error) {
    await transport.close();
    throw error;
  }
}

interface SqliteStoreParts {
  readonly reader: Connection;
  readonly longReader: LongReader;
  readonly commit: GroupCommit;
  readonly guard: FileGuard;
}

class SqliteStore implements Store {
  readonly #reader: Connection;
  readonly #reads: Reads;
  readonly #longReader: LongReader;
  readonly #commit: GroupCommit;
  readonly #guard: FileGuard;
  readonly #keyHolders = new TurnMemo<KeyHolder | null>();
  readonly #workerHolders = new TurnMemo<WorkerHolder | null>();
  #closing: Promise<void> | null = null;

  constructor({ reader, longReader, commit, guard }: SqliteStoreParts) {
    this.#reader = reader;
    this.#reads = allReads(reader);
    this.#longReader = longReader;
    this.#commit = commit;
    this.#guard = guard;
  }

  createAccount: Store["createAccount"] = (account) =>
    this.#changeKeys(this.#commit.submit("createAccount", account, OPERATOR_WRITE));
  setAccountDisabled: Store["setAccountDisabled"] = (change) =>
    this.#changeKeys(this.#commit.submit("setAccountDisabled", change, OPERATOR_WRITE));
  changeLimits: Store["changeLimits"] = (change) =>
    this.#changeKeys(this.#commit.submit("changeLimits", change, OPERATOR_WRITE));
  createKey: Store["createKey"] = (key) =>
    this.#changeKeys(this.#commit.submit("createKey", key, OPERATOR_WRITE));
  revokeKey: Store["revokeKey"] = (change) =>
    this.#changeKeys(this.#commit.submit("revokeKey", change, OPERATOR_WRITE));
  // Nothing of it is in a KeyHolder.
  touchKeys: Store["touchKeys"] = (uses) =>
    this.#commit.submit("touchKeys", uses, { weight: uses.length, mayShed: false });
  rotateSecret: Store["rotateSecret"] = (rotation) =>
    this.#commit.submit("rotateSecret", rotation, OPERATOR_WRITE);
  finishRotation: Store["finishRotation"] = (login) =>
    this.#commit.submit("finishRotation", login, OPERATOR_WRITE);

  listAccounts: Store["listAccounts"] = () => this.#read((reads) => reads.listAccounts());
  hasSeveralAccounts: Store["hasSeveralAccounts"] = () =>
    this.#read((reads) => reads.hasSeveralAccounts());
  findAccount: Store["findAccount"] = (login) => this.#read((reads) => reads.findAccount(login));
  listHoldChanges: Store["listHoldChanges"] = (query) =>
    this.#read((reads) => reads.listHoldChanges(query));
  findHeldWork: Store["findHeldWork"] = (query) =>
    this.#readLong("findHeldWork", query, query.accountId);
  listKeys: Store["listKeys"] = (login) => this.#read((reads) => reads.listKeys(login));
  findAccountData: Store["findAccountData"] = (query) =>
    this.#read((reads) => reads.findAccountData(query));
  findSecrets: Store["findSecrets"] = (login) => this.#read((reads) => reads.findSecrets(login));
  findKeyHolder: Store["findKeyHolder"] = (hash) =>
    this.#read((reads) => this.#keyHolders.get(hash, () => reads.findKeyHolder(hash)));

  insertAccessRequest: Store["insertAccessRequest"] = (request) =>
    this.#commit.submit("insertAccessRequest", request, { weight: 1, mayShed: true });
  approveAccessRequest: Store["approveAccessRequest"] = (approval) =>
    this.#changeKeys(this.#commit.submit("approveAccessRequest", approval, OPERATOR_WRITE));
  denyAccessRequest: Store["denyAccessRequest"] = (denial) =>
    this.#commit.submit("denyAccessRequest", denial, OPERATOR_WRITE);

  listAccessRequests: Store["listAccessRequests"] = (query) =>
    this.#read((reads) => reads.listAccessRequests(query));
  countPendingRequests: Store["countPendingRequests"] = (max) =>
    this.#read((reads) => reads.countPendingRequests(max));

  insertTasks: Store["insertTasks"] = (post) => {
    const weight = weightOfPost(post);
    return this.#commit.submit("insertTasks", post, { weight, mayShed: true });
  };
  collectTask: Store["collectTask"] = (key) =>
    this.#commit.submit("collectTask", key, { weight: 1, mayShed: true });
  cancelTask: Store["cancelTask"] = (cancel) =>
    this.#commit.submit("cancelTask", cancel, { weight: 1, mayShed: true });

  cancelTasks: Store["cancelTasks"] = (order) =>
    this.#commit.submit("cancelTasks", order, { weight: order.ids.length, mayShed: true });
  eraseTask: Store["eraseTask"] = (order) =>
    this.#commit.submit("eraseTask", order, OPERATOR_WRITE);
  eraseAccountPart: Store["eraseAccountPart"] = (order) =>
    this.#changeKeys(this.#commit.submit("eraseAccountPart", order, OPERATOR_WRITE));

  findKeptAnswer: Store["findKeptAnswer"] = (query) =>
    this.#read((reads) => reads.findKeptAnswer(query));
  findTask: Store["findTask"] = async (look) => {
    const found = await this.#read((reads) => reads.findTask(look));
    return found === "large" ? this.#readLong("findLargeTask", look, look.accountId) : found;
  };
  listReady: Store["listReady"] = (query) =>
    listByTurns(query, (turn) =>
      isShortRead(query)
        ? this.#read((reads) => reads.listReady(turn))
        : this.#readLong("listReady", turn, turn.accountId),
    );
  listTasks: Store["listTasks"] = (query) =>
    listByTurns(query, (turn) => this.#readLong("listTasks", turn, turn.accountId));
  searchTasks: Store["searchTasks"] = (query) =>
    searchByTurns(query, (turn) => this.#readLong("searchTasks", turn, turn.scope));
  // Its texts are long, and to sign them takes the main thread as long again.
  findTimeline: Store["findTimeline"] = (query) =>
    this.#readLong("findTimeline", query, query.scope);

  claimTasks: Store["claimTasks"] = (claim) =>
    this.#commit.submit("claimTasks", claim, { weight: claim.max, mayShed: false });
  finishTask: Store["finishTask"] = (finish) =>
    this.#commit.submit("finishTask", finish, ENGINE_WRITE);
  retryTask: Store["retryTask"] = (retry) => this.#commit.submit("retryTask", retry, ENGINE_WRITE);
  requeueTasks: Store["requeueTasks"] = (which) =>
    this.#commit.submit("requeueTasks", which, ENGINE_WRITE);
  releaseTask: Store["releaseTask"] = (which) =>
    this.#commit.submit("releaseTask", which, ENGINE_WRITE);
  releaseDelayed: Store["releaseDelayed"] = (due) =>
    this.#commit.submit("releaseDelayed", due, { weight: due.max, mayShed: false });

  findEndedRuns: Store["findEndedRuns"] = (query) => this.#readLong("findEndedRuns", query);
  findOldestQueued: Store["findOldestQueued"] = (types) =>
    this.#read((reads) => reads.findOldestQueued(types));
  listTypeWork: Store["listTypeWork"] = (query) => this.#readLong("listTypeWork", query);
  listQueuedTypes: Store["listQueuedTypes"] = () => this.#read((reads) => reads.listQueuedTypes());

  // Workers hold what they claimed: to refuse them would cost more than to let them in.
  claimLeases: Store["claimLeases"] = (claim) =>
    this.#commit.submit("claimLeases", claim, { weight: claim.max, mayShed: false });
  extendLeases: Store["extendLeases"] = (beat) =>
    this.#commit.submit("extendLeases", beat, { weight: beat.leases.length, mayShed: false });
  endLeases: Store["endLeases"] = (ends) => {
    const weight = ends.ends.reduce((sum, end) => sum + weightOfEnd(end), 0);
    return this.#commit.submit("endLeases", ends, { weight, mayShed: false });
  };
  resumeLeases: Store["resumeLeases"] = (start) =>
    this.#commit.submit("resumeLeases", start, { weight: BATCH_WEIGHT_MAX, mayShed: false });
  findLeases: Store["findLeases"] = (refs) => this.#read((reads) => reads.findLeases(refs));
  listDueLeases: Store["listDueLeases"] = (due) => this.#read((reads) => reads.listDueLeases(due));

  createWorker: Store["createWorker"] = (worker) =>
    this.#changeWorkers(this.#commit.submit("createWorker", worker, OPERATOR_WRITE));
  listWorkers: Store["listWorkers"] = () => this.#read((reads) => reads.listWorkers());
  revokeWorker: Store["revokeWorker"] = (change) =>
    this.#changeWorkers(this.#commit.submit("revokeWorker", change, OPERATOR_WRITE));
  // Nothing of it is in a WorkerHolder.
  touchWorkers: Store["touchWorkers"] = (uses) =>
    this.#commit.submit("touchWorkers", uses, { weight: uses.length, mayShed: false });
  findWorkerHolder: Store["findWorkerHolder"] = (hash) =>
    this.#read((reads) => this.#workerHolders.get(hash, () => reads.findWorkerHolder(hash)));

  claimAttempts: Store["claimAttempts"] = async (claim) => {
    const weight = claim.lanes.reduce((sum, lane) => sum + lane.fresh + lane.retries, 0);
    const options = { weight, mayShed: false };
    const { started, lanes, held } = await this.#commit.submit("claimAttempts", claim, options);
    const attempts = await this.#readStarted(started);
    // Whose they are the writer does not look up.
    this.#commit.tell([...new Set(attempts.map(({ accountId }) => accountId))]);
    return { attempts, lanes, held };
  };
  makeLargePostback: Store["makeLargePostback"] = (attempt) =>
    this.#readLong("makeLargePostback", onlyRef(attempt), attempt.accountId);
  recordAttempt: Store["recordAttempt"] = (record) =>
    this.#commit.submit(
      "recordAttempt",
      { ...record, attempt: onlyRef(record.attempt) },
      ENGINE_WRITE,
    );

  listLanes: Store["listLanes"] = (of) =>
    of.accountId === "all"
      ? this.#read((reads) => reads.listLanes(of))
      : this.#readLong("listLanes", of);
  listProvenLanes: Store["listProvenLanes"] = (query) =>
    this.#read((reads) => reads.listProvenLanes(query));
  listInFlight: Store["listInFlight"] = () => this.#read((reads) => reads.listInFlight());
  redeliver: Store["redeliver"] = (order) =>
    this.#commit.submit("redeliver", order, { weight: 2, mayShed: true });
  listDeliveries: Store["listDeliveries"] = (key) =>
    this.#read((reads) => reads.listDeliveries(key));
  findClockReading: Store["findClockReading"] = () =>
    this.#read((reads) => reads.findClockReading());
  keepClockReading: Store["keepClockReading"] = (reading) =>
    this.#commit.submit("keepClockReading", reading, ENGINE_WRITE);
  resumeClock: Store["resumeClock"] = (start) =>
    this.#commit.submit("resumeClock", start, WHOLE_TABLES);
  shiftTimes: Store["shiftTimes"] = (shift) =>
    this.#commit.submit("shiftTimes", shift, WHOLE_TABLES);
  hastenAttempts: Store["hastenAttempts"] = (bounds) =>
    this.#commit.submit("hastenAttempts", bounds, WHOLE_TABLES);

  findTaskDeliveries: Store["findTaskDeliveries"] = (id) =>
    this.#read((reads) => reads.findTaskDeliveries(id));
  listAllDeliveries: Store["listAllDeliveries"] = (query) =>
    this.#readLong("listAllDeliveries", query);
  countEndedDeliveries: Store["countEndedDeliveries"] = (filter) =>
    this.#readLong("countEndedDeliveries", filter);
  countEndedDeliveriesStep: Store["countEndedDeliveriesStep"] = (step) =>
    this.#readLong("countEndedDeliveriesStep", step, step.filter.login);
  orderRedelivery: Store["orderRedelivery"] = (order) =>
    this.#commit.submit("orderRedelivery", order, OPERATOR_WRITE);
  listRedeliveryOrders: Store["listRedeliveryOrders"] = (query) =>
    this.#read((reads) => reads.listRedeliveryOrders(query));
  cancelRedeliveryOrder: Store["cancelRedeliveryOrder"] = (cancel) =>
    this.#commit.submit("cancelRedeliveryOrder", cancel, OPERATOR_WRITE);
  listOpenRedeliveryOrders: Store["listOpenRedeliveryOrders"] = (query) =>
    this.#read((reads) => reads.listOpenRedeliveryOrders(query));
  stepRedeliveryOrder: Store["stepRedeliveryOrder"] = (step) =>
    this.#commit.submit("stepRedeliveryOrder", step, { weight: STEP_WEIGHT, mayShed: false });

  keepSecret: Store["keepSecret"] = (secret) =>
    this.#commit.submit("keepSecret", secret, OPERATOR_WRITE);

  createSession: Store["createSession"] = (session) =>
    this.#commit.submit("createSession", session, { weight: 1, mayShed: true });
  findSession: Store["findSession"] = (hash) => this.#read((reads) => reads.findSession(hash));
  touchSessions: Store["touchSessions"] = (uses) =>
    this.#commit.submit("touchSessions", uses, { weight: uses.length, mayShed: false });
  endSession: Store["endSession"] = (hash) =>
    this.#commit.submit("endSession", hash, OPERATOR_WRITE);
  createSignInLink: Store["createSignInLink"] = (link) =>
    this.#commit.submit("createSignInLink", link, OPERATOR_WRITE);
  useSignInLink: Store["useSignInLink"] = (use) =>
    this.#commit.submit("useSignInLink", use, OPERATOR_WRITE);

  countWork: Store["countWork"] = (scope) =>
    scope === null
      ? this.#readLong("countAllWork", scope)
      : this.#read((reads) => reads.countAccountWork(scope));
  findFirstSteps: Store["findFirstSteps"] = (scope) =>
    scope === null
      ? this.#readLong("findAnyFirstSteps", scope)
      : this.#read((reads) => reads.findAccountFirstSteps(scope));
  findOldestWaiting: Store["findOldestWaiting"] = (scope) =>
    scope === null
      ? this.#readLong("findAnyOldestWaiting", scope)
      : this.#read((reads) => reads.findAccountOldestWaiting(scope));
  findTraffic: Store["findTraffic"] = async (query) =>
    toTraffic(await this.#readLong("readTraffic", query, query.scope));
  listHostTraffic: Store["listHostTraffic"] = (query) =>
    this.#readLong("listHostTraffic", query, query.scope);
  listAccountOverviews: Store["listAccountOverviews"] = (query) =>
    this.#readLong("listAccountOverviews", query);

  sampleQueues: Store["sampleQueues"] = (sample) =>
    this.#commit.submit("sampleQueues", sample, { weight: STEP_WEIGHT, mayShed: false });
  foldTraffic: Store["foldTraffic"] = (fold) =>
    this.#commit.submit("foldTraffic", fold, { weight: STEP_WEIGHT, mayShed: false });
  markQueue: Store["markQueue"] = (served) =>
    this.#commit.submit("markQueue", served, ENGINE_WRITE);
  expireQueued: Store["expireQueued"] = (expiry) =>
    this.#commit.submit("expireQueued", expiry, { weight: STEP_WEIGHT, mayShed: false });
  eraseExpired: Store["eraseExpired"] = (due) =>
    this.#commit.submit("eraseExpired", due, { weight: due.max, mayShed: false });
  eraseStale: Store["eraseStale"] = (due) =>
    this.#commit.submit("eraseStale", due, { weight: 2 * due.max, mayShed: false });
  usedBytes: Store["usedBytes"] = () => this.#read((reads) => reads.usedBytes());
  reclaimSpace: Store["reclaimSpace"] = () =>
    this.#commit.submit("reclaimSpace", undefined, ENGINE_WRITE);

  watch: Store["watch"] = (listener) => this.#commit.watch(listener);

  fault: Store["fault"] = () => this.#commit.fault;
  shortage: Store["shortage"] = () => this.#commit.shortage;
  tryWrite: Store["tryWrite"] = () => this.#commit.submit("rewritePage", undefined, ENGINE_WRITE);
  lookAtFile: Store["lookAtFile"] = () => this.#guard.look();
  checkFile: Store["checkFile"] = async () => {
    this.#refuseWhenClosed();
    return this.#guard.check();
  };

  async #changeKeys<Value>(written: Promise<Value>): Promise<Value> {
    const value = await written;
    this.#keyHolders.forget();
    return value;
  }

  async #changeWorkers<Value>(written: Promise<Value>): Promise<Value> {
    const value = await written;
    this.#workerHolders.forget();
    return value;
  }

  async #read<Value>(read: (reads: Reads) => Value): Promise<Value> {
    this.#refuseWhenClosed();
    try {
      return read(this.#reads);
    } catch (error) {
      throw this.#guard.noted(toReadError(error));
    }
  }

  async #readStarted(seqs: readonly number[]): Promise<readonly ClaimedAttempt[]> {
    try {
      return await this.#read((reads) => reads.readStarted(seqs));
    } catch (error) {
      // The claim is committed: another one would leave these in flight for good.
      throw new StoreError("unknown", `attempts were started: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  async #readLong<Name extends keyof LongReads>(
    name: Name,
    args: Parameters<LongReads[Name]>[0],
    owner: ReadOwner = null,
  ): Promise<ReturnType<LongReads[Name]>> {
    this.#refuseWhenClosed();
    return this.#guard.reading(this.#longReader.read(name, args, owner));
  }

  #refuseWhenClosed(): void {
    if (this.#closing !== null) throw new StoreError("closed", "the store is closed");
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  // The writer goes last: a connection that may write checkpoints as the last one to leave, and takes -wal and
  // -shm with it; a read-only one leaves them behind.
  #close(): Promise<void> {
    return everyStep([
      () => this.#commit.stop(),
      () => this.#longReader.close(),
      () => this.#guard.close(),
      () => this.#reader.close(),
      () => this.#commit.close(),
    ]);
  }
}
