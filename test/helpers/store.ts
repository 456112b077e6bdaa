import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import Database from "better-sqlite3";

import { hashKey, newKeyId } from "../../src/domain/account/key.ts";
import type { OwnLimits, PostQuota } from "../../src/domain/account/quota.ts";
import type { ClockReading, RetentionEnd } from "../../src/domain/clock/service-clock.ts";
import { IdGenerator } from "../../src/domain/id.ts";
import type { LeaseRef } from "../../src/domain/lease/lease.ts";
import { ANY_TASK, type TaskSearch } from "../../src/domain/task/task-search.ts";
import type { NewTask, RefusedTask, TaskWebhook } from "../../src/domain/task/task.ts";
import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { TASK_OVERHEAD_BYTES } from "../../src/store/common/large-task.ts";
import { openSqliteStore, type SqliteStoreOptions } from "../../src/store/sqlite/sqlite-store.ts";
import type {
  AttemptRecord,
  ClaimedAttempt,
  ClaimedTask,
  KeyToStore,
  LeaseClaim,
  LeasedTask,
  LeaseEnd,
  LeaseEndResult,
  LeaseType,
  NewAccessRequest,
  NewAccount,
  NewWorker,
  QueueExpiry,
  ReadyQuery,
  RunEnd,
  StaleBefore,
  Store,
  TaskFinish,
  TaskCancels,
  TaskPost,
  TaskQuery,
} from "../../src/store/store.ts";

/** The default time of everything that a helper makes. */
export const T0 = Date.parse("2030-01-31T09:00:00.000Z");

/** How long seeded tasks are kept. */
export const RETENTION_MS = 30 * 24 * 3600 * 1000;

/** The path of a database file that does not exist yet, in a folder that is removed after the test. */
export function newDatabaseFile(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-store-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "test.db");
}

/** Makes an empty database file. */
export async function makeDatabase(file: string): Promise<void> {
  const store = await openSqliteStore({ file, writer: "inline", backlogMax: 1 });
  await store.close();
}

/** Deletes a database file, and leaves its -wal with a commit. Returns the bytes of the -wal. */
export function leaveOnlyWal(file: string): Uint8Array {
  const connection = new Database(file);
  connection.exec("CREATE TABLE other (a); DROP TABLE other");
  const wal = readFileSync(`${file}-wal`);
  connection.close();
  rmSync(file);
  writeFileSync(`${file}-wal`, wal);
  return wal;
}

/**
 * The bytes of an empty file: copied, because making a file takes several fsyncs.
 */
let empty: Uint8Array | null = null;

/** The path of an empty database file, in a folder that is removed after the test. */
export async function newEmptyDatabase(t: TestContext): Promise<string> {
  const file = newDatabaseFile(t);
  if (empty === null) {
    await makeDatabase(file);
    empty = readFileSync(file);
  } else {
    writeFileSync(file, empty, { mode: 0o600 });
  }
  return file;
}

/** Opens a store, by default on its own file, and closes it after the test. */
export async function openTestStore(
  t: TestContext,
  options: Partial<SqliteStoreOptions> = {},
): Promise<Store> {
  const store = await openSqliteStore({
    file: options.file ?? (await newEmptyDatabase(t)),
    writer: options.writer ?? "inline",
    backlogMax: options.backlogMax ?? 10_000,
    examineMax: options.examineMax,
  });
  t.after(() => store.close());
  return store;
}

/** An id that no other task of the test has. */
export function newTaskId(timeMs = T0): string {
  return new IdGenerator().next(timeMs);
}

/** A new key. */
export function newKeyToStore(overrides: Partial<KeyToStore> = {}): KeyToStore {
  const hash = hashKey(randomBytes(16).toString("hex"));
  return { keyId: newKeyId(newTaskId()), hash, lastFour: "wxyz", label: null, ...overrides };
}

/** An account as createAccount takes it. */
export function newAccount(overrides: Partial<NewAccount> = {}): NewAccount {
  return {
    login: "ada",
    webhookSecret: "whsec_test",
    createdAt: T0,
    firstKey: newKeyToStore(),
    ...overrides,
  };
}

/** Makes an account and returns its id. */
export async function seedAccount(store: Store, login = "ada"): Promise<number> {
  const account = newAccount({ login });
  assert.equal(await store.createAccount(account), "created");
  const holder = await store.findKeyHolder(account.firstKey.hash);
  assert(holder !== null);
  return holder.accountId;
}

/** A store that is being opened, with an account; its name is ada. */
export async function withAccount<Opened extends { readonly store: Store }>(
  opening: Promise<Opened>,
): Promise<Opened & { readonly accountId: number }> {
  const opened = await opening;
  return { ...opened, accountId: await seedAccount(opened.store) };
}

/** A store that is being opened, with the accounts ada and bob. */
export async function withAccounts<Opened extends { readonly store: Store }>(
  opening: Promise<Opened>,
): Promise<Opened & { readonly ada: number; readonly bob: number }> {
  const opened = await opening;
  const ada = await seedAccount(opened.store);
  return { ...opened, ada, bob: await seedAccount(opened.store, "bob") };
}

/** A field of each item, or several fields of each item in the given order. */
export function pluck<Item, Key extends keyof Item>(
  items: Iterable<Item> | null | undefined,
  key: Key,
): Item[Key][];
export function pluck<Item, const Keys extends readonly (keyof Item)[]>(
  items: Iterable<Item> | null | undefined,
  ...keys: Keys
): { -readonly [Place in keyof Keys]: Item[Keys[Place]] }[];
export function pluck<Item>(
  items: Iterable<Item> | null | undefined,
  ...keys: readonly (keyof Item)[]
): unknown[] {
  const [first] = keys;
  assert(items !== null && items !== undefined && first !== undefined);
  return Array.from(items, (item) =>
    keys.length === 1 ? item[first] : keys.map((key) => item[key]),
  );
}

/** A new request for access; nine others may be pending. */
export function newAccessRequest(overrides: Partial<NewAccessRequest> = {}): NewAccessRequest {
  const fields = { email: "eve@example.org", name: "Eve", company: null, message: "Please." };
  return { id: newTaskId(), fields, createdAt: T0, pendingMax: 10, ...overrides };
}

/** An accepted task of type `echo`, without webhooks. */
export function newTask(overrides: Partial<NewTask> = {}): NewTask {
  return {
    id: newTaskId(),
    type: "echo",
    tag: null,
    marketplace: null,
    priority: 0,
    startAt: null,
    postback: null,
    pingback: null,
    dataText: `{"type":"echo"}`,
    inputText: null,
    ...overrides,
  };
}

/** The bytes of {@link newTask}. */
export const NEW_TASK_BYTES = TASK_OVERHEAD_BYTES + newTask().dataText.length;

/** A task that was refused for an unknown field. */
export function newRefusedTask(overrides: Partial<RefusedTask> = {}): RefusedTask {
  return {
    id: newTaskId(),
    type: "echo",
    tag: null,
    code: 40506,
    message: "Unknown Field: 'colour'.",
    errorText: `{"message":"Unknown Field: 'colour'.","detail":{"field":"colour"}}`,
    dataText: `{"type":"echo","colour":"red"}`,
    inputText: null,
    ...overrides,
  };
}

/** The quota of an account without limits. */
export const NO_QUOTA: PostQuota = { bytes: 0, openTasks: 0, shareBytes: 0 };

/** The limits of an account without own limits. */
export const NO_OWN_LIMITS: OwnLimits = {
  ...{ bytes: null, openTasks: null },
  ...{ requestsPerMinute: null, tasksPerMinute: null },
};

/** A post of accepted tasks at {@link T0}. */
export function newPost(
  accountId: number,
  accepted: readonly NewTask[],
  overrides: Partial<TaskPost> = {},
): TaskPost {
  return {
    accountId,
    createdAt: T0,
    accepted,
    refused: [],
    refusedUntil: retainedUntil(T0 + RETENTION_MS),
    idempotency: null,
    quota: NO_QUOTA,
    traceText: null,
    ...overrides,
  };
}

/** Posts a task of {@link newTask}. */
export async function postTask(
  store: Store,
  accountId: number,
  overrides: Partial<NewTask> = {},
): Promise<NewTask> {
  const task = newTask(overrides);
  await store.insertTasks(newPost(accountId, [task]));
  return task;
}

/** The clock reading of a machine at {@link T0}, an hour after its boot. */
export function newReading(overrides: Partial<ClockReading> = {}): ClockReading {
  return { wallAt: T0, steadyAt: T0, uptimeMs: 3_600_000, bootId: "boot", ...overrides };
}

/** The end of a retention on a machine whose clock was never set. */
export function retainedUntil(at: number): RetentionEnd {
  return { expiresAt: at, eraseAt: at };
}

/** A webhook on a host, which is the lane of its deliveries. */
export function webhook(host: string, path = "/hook"): TaskWebhook {
  return { url: `https://${host}${path}`, host };
}

/** How a run of a claimed task ended: completed one second after {@link T0} with the result 1. */
export function newFinish(
  { seq }: { readonly seq: number },
  overrides: Partial<TaskFinish> = {},
): TaskFinish {
  const endedAt = overrides.endedAt ?? T0 + 1000;
  return {
    seq,
    state: "completed",
    code: 20000,
    resultText: "1",
    errorText: null,
    endedAt,
    ...retainedUntil(endedAt + RETENTION_MS),
    ...overrides,
  };
}

/** A page of a walk through the queue, from its beginning. */
export function newExpiry(mark: number, overrides: Partial<QueueExpiry> = {}): QueueExpiry {
  const { seq: _seq, ...end } = newFinish(
    { seq: 0 },
    { state: "failed", code: 50402, resultText: null },
  );
  return { mark, after: null, max: 100, end, ...overrides };
}

/** Cancels those of these tasks that wait or run. */
export function newTaskCancels(
  accountId: number,
  overrides: Partial<TaskCancels> = {},
): TaskCancels {
  const end = { cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) };
  return { accountId, ids: [], states: ["queued", "running"], ...end, ...overrides };
}

/** Claims the one task that is queued. */
export async function claimOne(store: Store, type = "echo"): Promise<ClaimedTask> {
  const [task, ...others] = await store.claimTasks({ type, max: 2, now: T0 });
  assert(task !== undefined && others.length === 0, "not exactly one task is queued");
  return task;
}

/** A worker for tasks of type `echo`, with a new token. */
export function newWorker(overrides: Partial<NewWorker> = {}): NewWorker {
  const hash = hashKey(randomBytes(16).toString("hex"));
  return { name: "w", hash, lastFour: "wxyz", types: ["echo"], createdAt: T0, ...overrides };
}

/** Makes a worker and returns its id. */
export async function seedWorker(store: Store, name = "w"): Promise<number> {
  const worker = newWorker({ name });
  assert.equal(await store.createWorker(worker), "created");
  const holder = await store.findWorkerHolder(worker.hash);
  assert(holder !== null);
  return holder.workerId;
}

/** How long a lease of {@link newLeaseType} holds without a heartbeat. */
export const LEASE_MS = 30_000;

/** The timeout of {@link newLeaseType}. */
export const TIMEOUT_MS = 100_000;

/** Up to 100 tasks of type `echo`. */
export function newLeaseType(overrides: Partial<LeaseType> = {}): LeaseType {
  const times = { leaseMs: LEASE_MS, timeoutMs: TIMEOUT_MS };
  return { type: "echo", max: 100, concurrency: 1000, ...times, ...overrides };
}

/** Claims up to 100 tasks of type `echo` at {@link T0}. */
export function newLeaseClaim(workerId: number, overrides: Partial<LeaseClaim> = {}): LeaseClaim {
  return { workerId, types: [newLeaseType()], max: 100, now: T0, ...overrides };
}

/** Claims the one task of type `echo` that is queued for a worker. */
export async function leaseOne(store: Store, workerId: number, now = T0): Promise<LeasedTask> {
  const [task, ...others] = await store.claimLeases(newLeaseClaim(workerId, { now }));
  assert(task !== undefined && others.length === 0, "not exactly one task is queued");
  return task;
}

/** How a run ends that was its task's last: completed at `endedAt` with the result 1. */
export function newRunEnd(overrides: Partial<RunEnd> = {}): RunEnd {
  const { seq: _, ...end } = newFinish({ seq: 0 }, overrides);
  return end;
}

/** The end of a lease whose worker completed its task a second after {@link T0}, with the result 1. */
export function newLeaseEnd(
  { id, leaseId }: LeaseRef,
  overrides: Partial<Omit<LeaseEnd, keyof LeaseRef>> = {},
): LeaseEnd {
  return {
    id,
    leaseId,
    how: "completed",
    sequel: { kind: "finish", ...newRunEnd() },
    ...overrides,
  };
}

/** Ends one lease of any worker. */
export async function endLease(
  store: Store,
  end: LeaseEnd,
  now = T0 + 1000,
): Promise<LeaseEndResult> {
  const [result, ...others] = await store.endLeases({ ends: [end], workerId: null, now });
  assert(result !== undefined && others.length === 0);
  return result;
}

/** Posts tasks, runs each and ends it, in the given order. */
export async function seedFinished(
  store: Store,
  accountId: number,
  { tasks, endedAt }: { readonly tasks: readonly NewTask[]; readonly endedAt?: number },
): Promise<void> {
  for (const task of tasks) {
    await store.insertTasks(newPost(accountId, [task]));
    const claimed = await claimOne(store, task.type);
    await store.finishTask(newFinish(claimed, endedAt === undefined ? {} : { endedAt }));
  }
}

/** Makes one finished task with a postback to the host; its first attempt is due at `dueAt`. */
export async function seedDelivery(
  store: Store,
  accountId: number,
  {
    host = "a.example",
    dueAt = T0 + 1000,
  }: { readonly host?: string; readonly dueAt?: number } = {},
): Promise<NewTask> {
  const task = newTask({ postback: webhook(host) });
  await seedFinished(store, accountId, { tasks: [task], endedAt: dueAt });
  return task;
}

/** Starts attempts to these hosts, of all accounts: in each lane up to `max` of each class. */
export async function claimLanes(
  store: Store,
  hosts: readonly string[],
  { max = 100, now = T0 + 1000 }: { readonly max?: number; readonly now?: number } = {},
): Promise<readonly ClaimedAttempt[]> {
  const all = await store.listLanes({ accountId: "all" });
  const lanes = hosts
    .flatMap((host) => all.filter((lane) => lane.host === host))
    .map(({ accountId, host }) => ({ accountId, host, fresh: max, retries: max }));
  return (await store.claimAttempts({ lanes, now })).attempts;
}

/** Gives up every webhook that is still to be sent, due or not. */
export async function giveUpAll(store: Store): Promise<void> {
  const now = Number.MAX_SAFE_INTEGER;
  const decision = { state: "given_up" } as const;
  // The only outcome that is recorded for an ended node.
  const result = newAttemptResult({ outcome: "interrupted" });
  for (;;) {
    const lanes = await store.listLanes({ accountId: "all" });
    await claimLanes(store, [...new Set(lanes.map(({ host }) => host))], { now });
    const flying = await store.listInFlight({ of: "earlier life" });
    if (flying.length === 0) return;
    for (const attempt of flying) {
      await store.recordAttempt({ attempt, result, endedAt: T0, decision });
    }
  }
}

/** Starts the one attempt that is due on a host. */
export async function claimAttempt(
  store: Store,
  host = "a.example",
  now = T0 + 1000,
): Promise<ClaimedAttempt> {
  const [attempt, ...others] = await claimLanes(store, [host], { now });
  assert(attempt !== undefined && others.length === 0, "not exactly one attempt is due");
  return attempt;
}

/** The result of an attempt without a connection. */
export function newAttemptResult(overrides: Partial<AttemptResult> = {}): AttemptResult {
  return {
    outcome: "failed",
    httpStatus: null,
    error: "connection refused",
    retryAfter: null,
    address: null,
    phases: { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null },
    responseExcerpt: null,
    refusal: null,
    ...overrides,
  };
}

/** The record of an attempt that failed and is tried again a minute after its end. */
export function newAttemptRecord(
  attempt: ClaimedAttempt,
  overrides: Partial<AttemptRecord> = {},
): AttemptRecord {
  const endedAt = overrides.endedAt ?? T0 + 2000;
  return {
    attempt,
    result: newAttemptResult(),
    endedAt,
    decision: { state: "scheduled", dueAt: endedAt + 60_000, retry: attempt.retry + 1 },
    ...overrides,
  };
}

/** Erases nothing by default; up to 100 rows of each kind. */
export function newStale(
  overrides: Partial<StaleBefore & { max: number }> = {},
): StaleBefore & { max: number } {
  return {
    ...{
      answersBefore: 0,
      decidedBefore: 0,
      pendingBefore: 0,
      sessionsBefore: 0,
      linksBefore: 0,
      trafficBefore: 0,
      auditBefore: 0,
    },
    ...{ recordsAfter: Number.MAX_SAFE_INTEGER, max: 100, ...overrides },
  };
}

/** The parameters of a list: parts of its search, and the page. */
export type ListOverrides = Partial<TaskSearch & Pick<TaskQuery, "limit" | "after">>;

/** The first page of all tasks of an account. */
export function taskQuery(accountId: number, overrides: ListOverrides = {}): ReadyQuery {
  const { limit = 100, after = null, ...search } = overrides;
  return { scope: accountId, search: { ...ANY_TASK, ...search }, limit, after };
}
