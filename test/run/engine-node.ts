import assert from "node:assert/strict";
import { type TestContext } from "node:test";

import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import type { LogFacts, Logger } from "../../src/domain/log.ts";
import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { Engine } from "../../src/run/engine.ts";
import type { RunOutcome } from "../../src/run/runner.ts";
import { type Store } from "../../src/store/store.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  claimOne,
  LEASE_MS,
  newAttemptResult,
  newFinish,
  newPost,
  newTask,
  openTestStore,
  RETENTION_MS,
  seedAccount,
  T0,
} from "../helpers/store.ts";

export const HOST = "127.0.0.1";
export const WORKER_TYPE = { concurrency: 9, retries: 0, leaseMs: LEASE_MS, timeoutMs: 600_000 };

interface Run {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly end: (outcome: RunOutcome) => void;
}

/** One node of a cluster that the test controls. Its store is a file that the other nodes use too. */
export class Node {
  readonly clock = createFakeClock({ now: T0 });
  readonly cluster = new FakeCluster(this.clock);
  readonly engine: Engine;
  readonly sent: string[] = [];
  /** The facts of its warnings. */
  readonly warnings: LogFacts[] = [];
  readonly runs: Run[] = [];
  /** The ids of tasks whose end it reported. */
  readonly ended: string[] = [];
  awaited: readonly string[] = [];
  /** Overrides the results of its attempts. */
  result: Partial<AttemptResult> = {};
  /** Ends the attempts in progress. */
  endSends: () => void = () => {};
  abortedSends = 0;
  /** True while runs ignore their signal. */
  areDeaf = false;

  constructor(
    store: Store,
    {
      overrides = {},
      inFlightPerHostMax = 2,
    }: { readonly overrides?: Partial<Store>; readonly inFlightPerHostMax?: number } = {},
  ) {
    const warn = (facts: LogFacts): void => void this.warnings.push(facts);
    const log: Logger = { debug() {}, info() {}, warn, error() {} };
    const allow = parseAllowList([HOST]);
    assert(allow.kind === "allow-list");
    const gate = Promise.withResolvers<void>();
    this.endSends = gate.resolve;
    this.engine = new Engine({
      ...{ store: this.cluster.share(store, overrides), clock: this.clock, log, resources: [] },
      ...{ retentionMs: RETENTION_MS, queueDays: 30, retryAfterMs: [60_000] },
      taskEnded: (id) => void this.ended.push(id),
      ...{ awaited: () => this.awaited, accountsDisabled() {} },
      types: new Map([
        [
          "echo",
          {
            retries: 0,
            runner: {
              concurrency: 9,
              run: ({ id }, { signal }) =>
                new Promise<RunOutcome>((resolve) => {
                  const stop = (): void => {
                    if (!this.areDeaf) resolve({ kind: "aborted" });
                  };
                  if (signal.aborted) return stop();
                  signal.addEventListener("abort", stop);
                  this.runs.push({ id, signal, end: resolve });
                }),
            },
          },
        ],
      ]),
      workerTypes: new Map([["print", WORKER_TYPE]]),
      sender: {
        send: async ({ headers }) => {
          this.sent.push(headers["x-attempt"] ?? "");
          await gate.promise;
          const delivered = { outcome: "delivered", httpStatus: 200, error: null } as const;
          return newAttemptResult({ ...delivered, ...this.result });
        },
        abort: () => void this.abortedSends++,
      },
      urlPolicy: () => ({ allow: allow.list, ownNames: [], ownAddresses: [] }),
      limits: { inFlightMax: 8, inFlightPerHostMax },
    });
  }

  /** Advances the clock second by second, and waits for the effects. */
  async pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      this.clock.advance(1000);
      await turns();
    }
  }
}

export async function turns(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise<void>((resolve) => setImmediate(resolve));
}

export async function startNode(
  t: TestContext,
  options: ConstructorParameters<typeof Node>[1] & {
    readonly store?: Store;
    /** Other nodes at its start. */
    readonly others?: number;
    /** By default true. */
    readonly isStarted?: boolean;
  } = {},
) {
  const store = options.store ?? (await openTestStore(t));
  const node = new Node(store, options);
  const accountId = await seedAccount(store);
  const { others = 0, isStarted = true } = options;
  node.cluster.members = ["node-1", ...Array.from({ length: others }, (_, i) => `other-${i}`)];
  if (isStarted) await node.engine.start();
  await turns();
  t.after(async () => {
    for (const run of node.runs) run.end({ kind: "aborted" });
    node.endSends();
    node.engine.drain();
    node.engine.abort();
    await node.engine.quiet();
  });
  return {
    ...{ node, store, accountId },
    /** Posts a task at another node. */
    async post(task = newTask()) {
      await store.insertTasks(newPost(accountId, [task]));
      return task;
    },
    /** Posts a task and ends it at another node, so that its postback is due. */
    async postDue(endedAt = T0) {
      const postback = { url: `http://${HOST}/hook`, host: HOST };
      const task = newTask({ type: "x", postback });
      await store.insertTasks(newPost(accountId, [task]));
      await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt }));
      return task;
    },
    lanes: [{ accountId, host: HOST }],
    counts: () => [node.runs.length, node.sent.length],
  };
}

/** A gate before the result of each claim. */
export function gateOf() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
