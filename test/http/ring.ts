import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { newSessionSecret } from "../../src/domain/account/credentials.ts";
import { newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { EMPTY_ALLOW_LIST } from "../../src/domain/address/allow-list.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import { IdGenerator } from "../../src/domain/id.ts";
import type { LogFacts } from "../../src/domain/log.ts";
import type { Task } from "../../src/domain/task/task.ts";
import { RateLimiter } from "../../src/http/admission/quota.ts";
import { createApp } from "../../src/http/app.ts";
import { toBrowserPolicy } from "../../src/http/guard/browser.ts";
import { listCursors, newCursorKey } from "../../src/http/list-cursor.ts";
import { BODY_PARSES } from "../../src/http/long-bodies.ts";
import type { ApiStore, WorkerDesk } from "../../src/http/operation-deps.ts";
import { operations } from "../../src/http/operations.ts";
import type { PageFiles } from "../../src/http/page.ts";
import { openServer } from "../../src/http/server/server.ts";
import { TaskWaiters } from "../../src/http/task-waiters.ts";
import { usageNotes } from "../../src/http/usage-notes.ts";
import type { Store } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { inlineOffload } from "../helpers/inline-parser.ts";
import { NO_OWN_LIMITS } from "../helpers/store.ts";
import { cookieLine } from "./session-requests.ts";

/** The part of the store that the ring uses. */
export type UsedStore = ApiStore &
  Pick<Store, "findKeyHolder" | "findWorkerHolder" | "findSession" | "findAccount">;

/** The task of {@link SOUND}. */
export const FINISHED: Task = {
  id: "01890a5d-ac96-774b-bcce-b302099a8057",
  state: "completed",
  statusCode: 20000,
  statusMessage: null,
  type: "echo",
  createdAt: 0,
  startedAt: 0,
  completedAt: 0,
  expiresAt: 0,
  runs: 1,
  dataText: "{}",
  inputText: null,
  resultText: "1",
  errorText: null,
};

const nothing = async () => {};
const none = async () => null;
const empty = async () => [];

/** A store in which one task is finished and everything works. */
export const SOUND: UsedStore = {
  ...{ collectTask: nothing, noteAudit: nothing, endSession: nothing },
  ...{ listKeys: none, findDatabaseHealth: none, findKeptAnswer: none, revokeKey: none },
  ...{ findOldestWaiting: none, cancelRedeliveryOrder: none },
  ...{ listNodes: empty, listDeliveries: empty, listDeliveryPauses: empty, listAudit: empty },
  ...{ redeliver: empty, listAccessRequests: empty, listTypeWork: empty, listWorkers: empty },
  listRedeliveryOrders: empty,
  findKeyHolder: async () => ({
    ...{ accountId: 1, login: "tester", keyId: "key_1" },
    ...{ keyRevoked: false, accountDisabled: false, ownLimits: NO_OWN_LIMITS },
  }),
  findWorkerHolder: async () => {
    return { workerId: 1, name: "press", types: ["print"], isRevoked: false };
  },
  insertTasks: async () => ({ kind: "inserted" }),
  findTask: async () => ({ task: FINISHED, isReady: true }),
  cancelTask: async () => "cancelled",
  cancelTasks: async () => ({ queued: [], running: [] }),
  listAttempts: async () => ({ attempts: [], next: 0, hasMore: false }),
  pauseDeliveries: async () => "paused",
  resumeDeliveries: async () => true,
  countScheduled: async () => 0,
  listReady: async () => ({ tasks: [], next: null, examinedUntil: null }),
  listTasks: async () => ({ tasks: [FINISHED], next: null, examinedUntil: null }),
  searchTasks: async () => ({ tasks: [], next: null, examinedUntil: null }),
  createKey: async () => "created",
  insertAccessRequest: async () => "stored",
  countPendingRequests: async () => 0,
  approveAccessRequest: async () => "approved",
  denyAccessRequest: async () => "denied",
  findSuspendedWork: async () => ({ queued: 0, running: 0, webhooks: 0 }),
  findAccount: async (login) => {
    const disabledAt = login === "disabled" ? 0 : null;
    return {
      ...{ accountId: 1, login, createdAt: 0, disabledAt, isRotating: false },
      ownLimits: NO_OWN_LIMITS,
    };
  },
  listAccountOverviews: async () => ({ accounts: [], next: null }),
  createAccount: async () => "created",
  setAccountDisabled: async ({ login, disabledAt }) => ({ login, createdAt: 0, disabledAt }),
  rotateSecret: async () => "rotating",
  finishRotation: async () => "finished",
  countWork: async () => ({
    ...{ queued: 0, delayed: 0, running: 0, completed: 1, failed: 0, cancelled: 0 },
    ...{ ready: 1, retrying: 0, undelivered: 0, bytes: 0 },
  }),
  findTraffic: async () => ({ steps: [], durations: [] }),
  listHostTraffic: async () => ({ hosts: [], hasMore: false }),
  findTimeline: async () => ({
    ...{ accountId: 1, login: "tester", disabledAt: null },
    ...{ webhookSecret: "whsec_SECRET", webhookSecretNext: null },
    ...{ task: FINISHED, deliveries: [], isReady: true, lease: null },
    ...{ inputBytes: null, resultBytes: 1, traceText: null },
  }),
  countEndedDeliveriesStep: async () => {
    return { deliveries: 0, hosts: [], next: null, examinedUntil: null };
  },
  orderRedelivery: async () => "busy",
  createSession: async () => "created",
  findSession: async () => {
    const now = Date.now();
    return { sessionId: 1, holder: null, createdAt: now, lastSeenAt: now };
  },
  useSignInLink: async () => "created",
  findAccountData: async () => ({
    ...{ login: "tester", webhookSecret: "whsec_SECRET", webhookSecretNext: null, keys: [] },
    taskCounts: { queued: 0, running: 0, completed: 1, failed: 0, cancelled: 0 },
    usage: { bytes: 0, openTasks: 0 },
  }),
};

/** A desk at which everything works and nothing is queued. */
const SOUND_DESK: WorkerDesk = {
  isDraining: false,
  claim: async () => [],
  heartbeat: async (_, beats) => beats.map(() => "ok"),
  complete: async (_, completions) => completions.map(() => "ok"),
  fail: async (_, failures) => failures.map(() => "ok"),
  release: async (_, leases) => leases.map(() => "ok"),
};

const LIMITS = {
  ...{ bodyBytes: 1024, resultBytes: 1024, queueDays: 30, tasksPerPost: 100 },
  account: { bytes: 0, openTasks: 0, requestsPerMinute: 0, tasksPerMinute: 0 },
  ...{ connections: 100, headerTimeoutMs: 10_000, requestTimeoutMs: 10_000, sendTimeoutMs: 10_000 },
};

/** A line of the log. */
export interface Logged {
  readonly level: string;
  readonly facts: LogFacts;
}

/** The HTTP ring alone, on a store and a state of the test's making. */
export async function startRing(
  t: TestContext,
  given: {
    readonly store?: Partial<UsedStore>;
    readonly desk?: Partial<WorkerDesk>;
    readonly notReadyReason?: () => string | null;
    readonly databaseWarnings?: readonly string[];
    readonly isAccepting?: boolean;
    readonly hasRoom?: boolean;
    readonly limits?: Partial<typeof LIMITS>;
    readonly pages?: PageFiles;
  } = {},
) {
  const limits = { ...LIMITS, ...given.limits };
  const logged: Logged[] = [];
  const write = (level: string) => (facts: LogFacts) => void logged.push({ level, facts });
  const log = {
    ...{ debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") },
  };
  const ids = new IdGenerator();
  const store = { ...SOUND, ...given.store };
  const policy = { allow: EMPTY_ALLOW_LIST, ownNames: [], ownAddresses: [] };
  const woken: string[] = [];
  const clock = systemClock;
  const steadyClock = { ...clock, steady: () => clock.now() };
  const usage = usageNotes({
    store: { touchKeys: nothing, touchWorkers: nothing, touchSessions: nothing },
    clock: createFakeClock({ now: 0 }),
    log,
  });
  const noLimit = new RateLimiter({ limit: 0, windowMs: 1000, clock });
  const refusedCredentials = { refuse() {} };
  const floods = { note() {} };
  const unused = () => assert.fail("the ring does not need this");
  const all = operations({
    ...{ dev: null, url: () => "http://127.0.0.1", store, ids, limits, log, ...usage },
    ...{ cursors: listCursors(newCursorKey()), retentionMs: 1000, retentionDays: 30 },
    ...{ servesDashboard: true, refusedCredentials, floods, waiters: new TaskWaiters(clock) },
    ...{ accessRequests: noLimit, accessNetworks: noLimit, redeliveries: noLimit },
    ...{ uncounted: noLimit, postedTasks: noLimit, marketplaces: [] },
    ...{ desk: { ...SOUND_DESK, ...given.desk }, workerTypes: new Set(["print"]) },
    ...{ clock: steadyClock, parser: inlineOffload(BODY_PARSES) },
    webhooks: { timeoutMs: 10_000, retryAfterMs: [] },
    shortage: async () => ((given.hasRoom ?? true) ? null : "the disk is full"),
    liveFeed: { open: unused, sentChanges: () => 0 },
    ...{ nodeId: () => "node", progressOf: () => null, runnerOf: () => null },
    findProgress: () => Promise.resolve(() => null),
    rules: () => ({ types: new Set(["echo"]), marketplaces: new Set(), urlPolicy: policy }),
    notReadyReason: async () => given.notReadyReason?.() ?? null,
    databaseWarnings: () => given.databaseWarnings ?? [],
    isAccepting: () => given.isAccepting ?? true,
    ...{ conditions: () => [], runnerTypes: () => [], workersWaiting: () => 0 },
    ...{ shareBytes: () => 0, posted: undefined, accountsChanged() {}, pausesChanged() {} },
    wake: (types) => void woken.push(...types),
    cancelled: (id) => void woken.push(id),
    wakeDeliveries: (lanes) => void woken.push(...lanes.map(({ host }) => host)),
    ...{ serviceStatus: unused, metricsText: unused, systemFacts: unused },
  });
  const pages = given.pages ?? null;
  const gate = {
    ...{ store, clock: steadyClock, ...usage, refusedCredentials, requests: noLimit, floods },
    proxies: { trusted: [], servesTls: false, insecureHttp: true },
    browsers: toBrowserPolicy({ host: "127.0.0.1", publicUrl: null }),
    accountLimits: limits.account,
    metricsToken: () => null,
    proxyWatch: { look() {} },
  };
  const app = createApp({ operations: all, gate, clock, ids, log, limits, pages });
  const listening = { host: "127.0.0.1", port: 0, tls: null, limits };
  const server = await openServer(app, listening);
  t.after(() => {
    server.drain();
    return server.quiet();
  });
  const { key } = newKey();
  const account = { login: "tester", key, secret: "" };
  // The store returns the operator's session for every cookie.
  const cookie = cookieLine(server.url, newSessionSecret().secret);
  return { url: server.url, account, token: newWorkerToken().key, cookie, logged, woken };
}

export type Ring = Awaited<ReturnType<typeof startRing>>;
