import type { TestContext } from "node:test";

import type { ServiceAnswer } from "../../src/deliver/service-client.ts";
import { newWorkerToken } from "../../src/domain/account/key.ts";
import { createLogger } from "../../src/log.ts";
import type { Runner, RunOptions, RunOutcome, RunRequest } from "../../src/run/runner.ts";
import { Link, type LinkOptions } from "../../src/worker/link.ts";
import { Worker, type WorkerEnd } from "../../src/worker/worker.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";

/** When the tests' clock begins. */
export const NOW = Date.parse("2030-01-31T09:00:00.000Z");

/** A request that a worker made. */
export interface Asked {
  readonly operation: string;
  readonly body: {
    readonly tasks: readonly Readonly<Record<string, unknown>>[];
    readonly leases: readonly Readonly<Record<string, unknown>>[];
    readonly max: number;
    readonly wait_seconds: number;
  };
  /** The body as it was sent. */
  readonly text: string;
  /** By the clock's monotonic time. */
  readonly at: number;
}

/** Stands for the daemon: responds to each request, immediately or later. */
export type Answering = (asked: Asked) => ServiceAnswer | Promise<ServiceAnswer>;

/** A run that the test ends. */
export interface OpenRun {
  readonly request: RunRequest;
  readonly options: RunOptions;
  end(outcome: RunOutcome): void;
}

/** A list that a test can await. */
export class Series<Item> {
  readonly items: Item[] = [];
  #waiting: (() => void)[] = [];

  add(item: Item): void {
    this.items.push(item);
    for (const look of this.#waiting.splice(0)) look();
  }

  async nth(count: number, isMeant: (item: Item) => boolean = () => true): Promise<Item> {
    for (;;) {
      const found = this.items.filter(isMeant)[count - 1];
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
}

/** A response of the daemon with this body. */
export function answer(value: unknown, headers: Record<string, string> = {}): ServiceAnswer {
  return { kind: "answered", status: 200, headers, body: Buffer.from(JSON.stringify(value)) };
}

/** An error response. */
export function faultAnswer(
  status: number,
  value: unknown = "",
  headers: Record<string, string> = {},
): ServiceAnswer {
  return { kind: "answered", status, headers, body: Buffer.from(JSON.stringify(value)) };
}

/** A claimed task in the daemon's form, with a lease of 30 s. */
export function claimedTask(id: string, now = NOW) {
  const lease_expires_at = new Date(now + 30_000).toISOString();
  const lease = { lease_id: `lease-${id}`, lease_expires_at, run: 1 };
  return { id, type: "x", tag: null, marketplace: null, input: { n: 1 }, ...lease };
}

/** A daemon that returns these tasks at the first claim, and ok for everything. */
export function giving(ids: readonly string[]): Answering {
  const left = [...ids];
  return ({ operation, body }) => {
    if (operation === "heartbeat") return outcomes(body.leases, "ok");
    if (operation !== "claim") return outcomes(body.tasks, "ok");
    const tasks = left.splice(0, body.max).map((id) => claimedTask(id));
    return tasks.length > 0 || body.wait_seconds === 0 ? answer({ tasks }) : never();
  };
}

/** The same outcome for every item of the request. */
export function outcomes(
  asked: readonly Readonly<Record<string, unknown>>[],
  outcome: string,
  more: Readonly<Record<string, unknown>> = {},
): ServiceAnswer {
  return answer({ tasks: asked.map(({ id }) => ({ id, outcome })), ...more });
}

/** A request without a response; the worker ends it. */
export function never(): Promise<ServiceAnswer> {
  return new Promise(() => {});
}

export interface WorkerSetup {
  readonly answering: Answering;
  readonly concurrency?: number;
  readonly clock?: FakeClock;
  /** Whether runs ignore their signal. */
  readonly isStubborn?: boolean;
}

/** Starts a worker with a daemon and runs of the test; stopped after the test. */
export function setUpWorker(
  t: TestContext,
  { answering, concurrency = 1, clock, isStubborn = false }: WorkerSetup,
) {
  const time = clock ?? createFakeClock({ now: NOW });
  const asked = new Series<Asked>();
  const runs = new Series<OpenRun>();
  const logged = new Series<string>();
  const client = scriptedClient({ answering, asked, clock: time });
  const daemon = { url: "http://127.0.0.1:1/base/", token: newWorkerToken().key };
  const parts = { client, runs, logged, concurrency, clock: time, isStubborn };
  const { end, stop, isReady } = startWorker(t, daemon, parts);
  return {
    clock: time,
    end,
    stop,
    isReady,
    asked: (operation: string) => asked.items.filter((each) => each.operation === operation),
    whenAsked: (operation: string, count = 1) =>
      asked.nth(count, (each) => each.operation === operation),
    running: (count: number) => runs.nth(count),
    whenLogged: (text: string, count = 1) => logged.nth(count, (line) => line.includes(text)),
    logged: logged.items,
  };
}

function startWorker(
  t: TestContext,
  daemon: { readonly url: string; readonly token: string },
  parts: {
    readonly client: LinkOptions["client"];
    readonly runs: Series<OpenRun>;
    readonly logged: Series<string>;
    readonly concurrency: number;
    readonly clock: FakeClock;
    readonly isStubborn: boolean;
  },
) {
  const { client, logged, clock } = parts;
  const write = (line: string): void => logged.add(line);
  const log = createLogger({ level: "debug", format: "json", write });
  const url = new URL(daemon.url);
  const link = new Link({ client, url, token: daemon.token, clock, log });
  let readyCount = 0;
  const worker = new Worker({
    link,
    pools: [{ types: ["x"], runner: openRunner(parts) }],
    clock,
    log,
    onReady: () => readyCount++,
  });
  const end: Promise<WorkerEnd> = worker.work();
  const stop = (): void => worker.stop({ graceMs: 25_000 });
  t.after(stop);
  return { end, stop, isReady: () => readyCount === 1 };
}

function scriptedClient(parts: {
  readonly answering: Answering;
  readonly asked: Series<Asked>;
  readonly clock: FakeClock;
}): LinkOptions["client"] {
  return {
    async post(url, { body, signal }) {
      const operation = /^\/base\/v1\/worker\/(\w+)$/.exec(url.pathname)?.[1] ?? url.pathname;
      const parsed = JSON.parse(String(body)) as Asked["body"];
      const item = { operation, body: parsed, text: String(body), at: parts.clock.monotonic() };
      const given = Promise.resolve(parts.answering(item));
      parts.asked.add(item);
      const gone = new Promise<ServiceAnswer>((resolve) => {
        signal.addEventListener("abort", () => resolve({ kind: "aborted" }), { once: true });
      });
      return signal.aborted ? { kind: "aborted" } : Promise.race([given, gone]);
    },
  };
}

function openRunner({
  runs,
  concurrency,
  isStubborn,
}: {
  readonly runs: Series<OpenRun>;
  readonly concurrency: number;
  readonly isStubborn: boolean;
}): Runner {
  return {
    concurrency,
    run: (request, options) =>
      new Promise((resolve) => {
        const stop = (): void => resolve({ kind: "aborted" });
        if (!isStubborn) options.signal.addEventListener("abort", stop, { once: true });
        runs.add({ request, options, end: resolve });
      }),
  };
}

/** Waits for the effects of settled promises. */
export function settled(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
