import assert from "node:assert/strict";

import {
  DeliveryDispatcher,
  type DeliveryDispatcherDeps,
  type DeliveryQueue,
} from "../../src/deliver/delivery-dispatcher.ts";
import type { SlotLimits } from "../../src/deliver/slots.ts";
import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import { ClockWatch } from "../../src/domain/clock/service-clock.ts";
import type { Logger } from "../../src/domain/log.ts";
import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import type {
  AttemptRecord,
  ClaimedAttempt,
  ClaimedAttempts,
  Lane,
  LaneRef,
  LaneShare,
} from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

export const NOW = Date.parse("2030-01-31T09:00:00.000Z");
export const MINUTE = 60_000;
export const HOST = "127.0.0.1";
export const LANE = { accountId: 1, host: HOST };
export const EMPTY: ClaimedAttempts = { attempts: [], lanes: [lane()], suspended: [] };
const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** A lane; by default nothing is scheduled. */
export function lane(overrides: Partial<Lane> = {}): Lane {
  return { accountId: 1, host: HOST, freshDueAt: null, retryDueAt: null, ...overrides };
}

/** An attempt; by default the first of a pingback. */
export function attempt(overrides: Partial<ClaimedAttempt> = {}): ClaimedAttempt {
  return {
    ...{
      seq: 1,
      taskSeq: 1,
      accountId: 1,
      taskId: "t",
      kind: "pingback",
      number: 1,
      retry: 0,
      host: HOST,
      dueAt: NOW,
    },
    ...{ startedAt: NOW, url: `http://${HOST}/`, webhookSecret: "whsec_AAAA" },
    webhookSecretNext: null,
    largeBytes: null,
    traceText: null,
    task: {
      ...{ id: "018e2f1c-0a00-7abc-8def-0123456789ab", state: "completed", statusCode: 20000 },
      ...{ statusMessage: null, type: "echo", createdAt: NOW, startedAt: NOW, completedAt: NOW },
      ...{ expiresAt: NOW, runs: 1, dataText: "{}", inputText: null, resultText: "1" },
      errorText: null,
    },
    ...overrides,
  };
}

type Own = "claimAttempts" | "recordAttempt" | "listLanes";

/** A dispatcher on a store of the test; by default nothing else is in the store. */
export function newDispatcher({
  store,
  send,
  ...others
}: {
  readonly store: Pick<DeliveryQueue, Own> & Partial<DeliveryQueue>;
  readonly send: DeliveryDispatcherDeps["sender"]["send"];
} & Pick<DeliveryDispatcherDeps, "clock"> &
  Partial<Omit<DeliveryDispatcherDeps, "store">>): DeliveryDispatcher {
  const allow = parseAllowList(["127.0.0.0/8"]);
  assert.ok(allow.kind === "allow-list");
  return new DeliveryDispatcher({
    ...{ log, giveUp: new AbortController().signal, cluster: newLoneNode(others.clock) },
    ...{ limits: { inFlightMax: 64, inFlightPerHostMax: 8 }, retryAfterMs: [MINUTE] },
    store: {
      makeLargePostback: () => Promise.resolve(null),
      shiftTimes: () => Promise.resolve(0),
      hastenAttempts: () => Promise.resolve(0),
      listDueLanes: () => Promise.resolve([]),
      listProvenLanes: () => Promise.resolve([]),
      listInFlight: () => Promise.resolve([]),
      ...store,
    },
    sender: { send, abort() {} },
    urlPolicy: () => ({ allow: allow.list, ownNames: [], ownAddresses: [] }),
    health: { noteAttempt() {} },
    failed(error) {
      throw error;
    },
    ...others,
  });
}

/** A dispatcher whose store and sender wait for the test to settle each call. */
export function setUp(
  healthy: readonly LaneRef[] = [],
  limits: SlotLimits = { inFlightMax: 64, inFlightPerHostMax: 8 },
) {
  const clock = createFakeClock({ now: NOW });
  const watch = new ClockWatch(clock);
  const claims = calls<number, ClaimedAttempts>();
  const records = calls<AttemptRecord, void>();
  const shifts = calls<{ after: number; by: number }, number>();
  const sends = calls<string, AttemptResult>();
  const shares: LaneShare[] = [];
  const reads = calls<number | "all", readonly Lane[]>();
  const hastened: unknown[] = [];
  const proven: number[] = [];
  const store = {
    claimAttempts({ lanes, now }) {
      shares.push(...lanes);
      return claims.call(now);
    },
    recordAttempt: (record) => records.call(record),
    shiftTimes: (shift) => shifts.call(shift),
    hastenAttempts: async (bounds) => hastened.push(bounds),
    listLanes: ({ accountId }) => reads.call(accountId),
    async listProvenLanes({ since }) {
      proven.push(since);
      return healthy;
    },
  } satisfies Partial<DeliveryQueue>;
  const faults: unknown[] = [];
  const health: boolean[] = [];
  const others: string[] = [];
  const dispatcher = newDispatcher({
    ...{ store, limits, clock: watch },
    send: ({ headers }) => sends.call(headers["x-attempt"] ?? ""),
    cluster: { ...newLoneNode(watch), self: "own", membership: () => ["own", ...others] },
    health: { noteAttempt: (_host, isFine) => void health.push(isFine) },
    failed: (error) => faults.push(error),
  });
  watch.watch((byMs) => void dispatcher.clockWasSet(byMs));
  return {
    ...{ clock, watch, dispatcher, claims, records, shifts, sends, reads, shares },
    ...{ hastened, proven, faults, health, others },
  };
}

/** As {@link setUp}, with a healthy lane of account 1. */
export async function setUpHealthy(): Promise<ReturnType<typeof setUp>> {
  const parts = setUp([LANE]);
  const recovered = parts.dispatcher.recover();
  (await parts.reads.next()).resolve([]);
  await recovered;
  return parts;
}

interface Call<Argument, Value> {
  readonly argument: Argument;
  resolve(value: Value): void;
  reject(error: Error): void;
}

/** Calls that wait for the test to settle them. */
function calls<Argument, Value>() {
  const made: Call<Argument, Value>[] = [];
  const wanted: ((call: Call<Argument, Value>) => void)[] = [];
  return {
    get waiting() {
      return made.length;
    },
    call(argument: Argument): Promise<Value> {
      const { promise, resolve, reject } = Promise.withResolvers<Value>();
      const call = { argument, resolve, reject };
      const want = wanted.shift();
      if (want === undefined) made.push(call);
      else want(call);
      return promise;
    },
    /** Resolves once so many calls wait. */
    async waitFor(count: number): Promise<void> {
      while (made.length < count) await new Promise((resolve) => setImmediate(resolve));
    },
    next(): Promise<Call<Argument, Value>> {
      const call = made.shift();
      if (call !== undefined) return Promise.resolve(call);
      return new Promise((resolve) => wanted.push(resolve));
    },
  };
}
