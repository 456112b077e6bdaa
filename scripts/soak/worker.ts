import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { type Answer, DaemonAddress } from "../kit/client.ts";
import { Random } from "../kit/random.ts";
import type { AskItem, AskKind, ClaimedTask, Outcome, WorkerEvent, WorkerOrder } from "./fleet.ts";
import { LEASE_TYPES } from "./services.ts";

/** A worker process of the soak. It works like one that has every fault a worker can have. */

const BEHAVIOURS = {
  complete: 44,
  long: 12,
  late: 8,
  twice: 8,
  wrong: 5,
  fail: 12,
  release: 6,
  vanish: 3,
  stuck: 1,
  garbage: 1,
};
const MAXIMA = { 1: 50, 5: 25, 20: 15, 100: 10 };
const HELD_MAX = 150;
const PAUSE_MS = 100;
const BEAT_MS = 500;
const FLUSH_MS = 30;
const FLUSH_MAX = 50;
// How often a worker asks again that got no answer.
const TRIES = 40;
const STUCK_MS_MAX = 40_000;
const WAIT_SECONDS_MAX = 3;

const OFFENCES: readonly (readonly [path: string, body: string])[] = [
  ["complete", "{"],
  ["complete", '{"tasks":"all"}'],
  ["complete", '{"tasks":[]}'],
  ["heartbeat", '{"leases":{}}'],
  ["fail", "[]"],
  ["claim", '{"types":["work"],"max":1000}'],
  ["claim", '{"types":["echo"],"max":1}'],
  ["claims", "{}"],
];

class Worker {
  /** From now on every task is completed immediately. */
  isHonest = false;
  readonly #api: WorkerApi;
  readonly #random: Random;
  readonly #types: readonly string[];
  /** Leases that are kept by heartbeats. */
  readonly #beating = new Map<string, ClaimedTask>();
  #outbox: { readonly item: AskItem; readonly sent: () => void }[] = [];
  #held = 0;

  constructor(api: WorkerApi, { seed, types, loops }: WorkerOrder) {
    this.#api = api;
    this.#random = new Random(seed);
    this.#types = types;
    setInterval(() => void this.#beat(), BEAT_MS);
    setInterval(() => void this.#flush(), FLUSH_MS);
    for (let loop = 0; loop < loops; loop++) void this.#loop();
  }

  async #loop(): Promise<never> {
    for (;;) {
      const tasks = this.#held < HELD_MAX ? await this.#api.claim(this.#wish()) : null;
      if (tasks === null) await sleep(PAUSE_MS);
      for (const task of tasks ?? []) {
        this.#held++;
        void this.#run(task).finally(() => this.#held--);
      }
    }
  }

  #wish() {
    const random = this.#random;
    const types = this.#types.filter(() => random.chance(0.7));
    const max = Number(random.choose(MAXIMA));
    const wait = random.between(0, WAIT_SECONDS_MAX * 10) / 10;
    return { types: types.length > 0 ? types : this.#types, max, wait_seconds: wait };
  }

  async #run(task: ClaimedTask): Promise<void> {
    const behaviour = this.isHonest ? "complete" : this.#random.choose(BEHAVIOURS);
    const { leaseMs } = LEASE_TYPES[task.type] ?? { leaseMs: 0 };
    switch (behaviour) {
      case "complete":
        await this.#rest(200);
        return this.#complete(task);
      case "long":
        return this.#long(task, this.#random.between(1000, 5000));
      case "late":
        await sleep(leaseMs + this.#random.between(0, 3000));
        return this.#complete(task);
      case "twice":
        return this.#twice(task);
      case "wrong":
        return this.#wrong(task);
      case "fail":
        return this.#fail(task);
      case "release":
        await this.#rest(500);
        await this.#api.ask("release", [refOf(task)]);
        return;
      case "stuck":
        return this.#stuck(task);
      case "garbage":
        await this.#offend();
        return this.#complete(task);
      case "vanish":
        return;
    }
  }

  #rest(msMax: number): Promise<void> {
    return sleep(this.isHonest ? 0 : this.#random.between(0, msMax));
  }

  async #long(task: ClaimedTask, ms: number): Promise<void> {
    this.#beating.set(task.leaseId, task);
    await sleep(ms);
    this.#beating.delete(task.leaseId);
    await this.#complete(task);
  }

  async #twice(task: ClaimedTask): Promise<void> {
    if (this.#random.chance(0.5)) {
      await Promise.all([this.#send(completionOf(task)), this.#send(completionOf(task))]);
      return;
    }
    await this.#send(completionOf(task));
    await this.#rest(1500);
    await this.#send(completionOf(task));
  }

  // In one batch with correct items, which must nevertheless count.
  async #wrong(task: ClaimedTask): Promise<void> {
    const wrong = { ...completionOf(task), leaseId: `not-${this.#random.fork()}` };
    const unknown = { id: "nobody's", leaseId: "nobody's", result: "1" };
    await this.#rest(200);
    await this.#api.ask("complete", [wrong, unknown, completionOf(task)]);
    await this.#api.ask(this.#random.chance(0.5) ? "release" : "heartbeat", [wrong]);
  }

  async #fail(task: ClaimedTask): Promise<void> {
    const retry = this.#random.choose({ true: 2, false: 1, absent: 2 });
    await this.#rest(500);
    await this.#api.ask("fail", [
      {
        ...refOf(task),
        message: `It went wrong with lease ${task.leaseId}.`,
        ...(retry !== "absent" && { retry: retry === "true" }),
      },
    ]);
  }

  // Until the type's timeout: its heartbeats keep the lease, and it never ends the run.
  async #stuck(task: ClaimedTask): Promise<void> {
    this.#beating.set(task.leaseId, task);
    for (let waited = 0; waited < STUCK_MS_MAX; waited += BEAT_MS) {
      await sleep(BEAT_MS);
      if (!this.#beating.has(task.leaseId)) return;
    }
    this.#beating.delete(task.leaseId);
  }

  async #offend(): Promise<void> {
    const [path, body] = OFFENCES[this.#random.between(0, OFFENCES.length - 1)] ?? ["claims", ""];
    await this.#api.offend(path, body);
  }

  /** Alone, or with others in one request. */
  async #complete(task: ClaimedTask): Promise<void> {
    const item = completionOf(task);
    if (this.#random.chance(0.5)) return this.#send(item);
    await new Promise<void>((resolve) => this.#outbox.push({ item, sent: resolve }));
  }

  async #flush(): Promise<void> {
    const batch = this.#outbox.splice(0, FLUSH_MAX);
    if (batch.length > 0) await this.#send(...batch.map(({ item }) => item));
    for (const { sent } of batch) sent();
  }

  // A worker that gets no answer asks again: what counted before is ok again.
  async #send(...items: readonly AskItem[]): Promise<void> {
    for (let tries = 0; tries < TRIES; tries++) {
      if ((await this.#api.ask("complete", items)) !== null) return;
      await sleep(PAUSE_MS);
    }
  }

  async #beat(): Promise<void> {
    const leases = [...this.#beating.values()];
    if (leases.length === 0) return;
    const outcomes = await this.#api.ask("heartbeat", leases.map(refOf));
    for (const [i, outcome] of (outcomes ?? []).entries()) {
      if (outcome !== "ok") this.#beating.delete(leases[i]?.leaseId ?? "");
    }
  }
}

function refOf({ id, leaseId }: ClaimedTask): AskItem {
  return { id, leaseId };
}

/** The result has the id of the lease, so that the stored result shows its worker. */
function completionOf(task: ClaimedTask): AskItem {
  return { ...refOf(task), result: JSON.stringify({ lease: task.leaseId, pages: [1, 2, 3] }) };
}

function obey(): void {
  let api: WorkerApi | null = null;
  let worker: Worker | null = null;
  process.on("message", (message) => {
    // The fleet sends nothing else.
    const order = message as WorkerOrder;
    api ??= new WorkerApi(order.token, (event) => process.send?.(event));
    api.address.url = order.url;
    worker ??= new Worker(api, order);
    worker.isHonest = order.isHonest;
  });
  process.on("disconnect", () => process.exit());
}

if (import.meta.main) obey();

const claimed = z.object({
  tasks: z.array(
    z.object({
      id: z.string(),
      type: z.string(),
      lease_id: z.string(),
      lease_expires_at: z.iso.datetime(),
      run: z.number(),
    }),
  ),
});

const answered = z.object({
  tasks: z.array(z.object({ id: z.unknown(), outcome: z.enum(["ok", "lost", "cancelled"]) })),
});

/** The worker protocol of the soak's worker processes: they report every request before and after. */
export class WorkerApi {
  readonly address = new DaemonAddress();
  readonly #token: string;
  readonly #report: (event: WorkerEvent) => void;
  #number = 0;

  constructor(token: string, report: (event: WorkerEvent) => void) {
    this.#token = token;
    this.#report = report;
  }

  /** Null without a response, or if the daemon accepts nothing now. */
  async claim(wish: {
    readonly types: readonly string[];
    readonly max: number;
    readonly wait_seconds: number;
  }): Promise<readonly ClaimedTask[] | null> {
    const number = this.#number++;
    this.#report({ kind: "claiming", number, at: Date.now(), types: wish.types });
    const answer = await this.#served("claim", wish);
    if (answer === null) {
      this.#report({ kind: "unclaimed", number, at: Date.now() });
      return null;
    }
    const tasks = claimed.parse(JSON.parse(answer)).tasks.map((task) => {
      const { id, type, lease_id: leaseId, lease_expires_at: expiresAt } = task;
      return { id, type, leaseId, expiresAt: Date.parse(expiresAt) };
    });
    this.#report({ kind: "claimed", number, at: Date.now(), tasks });
    return tasks;
  }

  /** As {@link claim}; outcomes in the order of the items. */
  async ask(what: AskKind, items: readonly AskItem[]): Promise<readonly Outcome[] | null> {
    const number = this.#number++;
    this.#report({ kind: "asking", number, at: Date.now(), what, items });
    const list = what === "heartbeat" ? "leases" : "tasks";
    const answer = await this.#served(what, { [list]: items.map(toJson) });
    if (answer === null) return null;
    const { tasks } = answered.parse(JSON.parse(answer));
    const isInOrder = items.every(({ id }, i) => tasks[i]?.id === id);
    if (!isInOrder || tasks.length !== items.length) {
      const text = `${what} was not answered in the order asked: ${answer}`;
      this.#report({ kind: "fault", text });
      return null;
    }
    const outcomes = tasks.map(({ outcome }) => outcome);
    this.#report({ kind: "answered", number, at: Date.now(), outcomes });
    return outcomes;
  }

  async offend(path: string, body: string): Promise<void> {
    const answer = await this.#send(path, body);
    if (answer === null) return;
    const isRefused = answer.status >= 400 && answer.status < 500;
    if (isRefused) this.#report({ kind: "refused" });
    else this.#report({ kind: "fault", text: `${path} ${body}: ${answer.status} ${answer.text}` });
  }

  async #served(operation: string, body: unknown): Promise<string | null> {
    const answer = await this.#send(operation, JSON.stringify(body));
    if (answer === null) return null;
    if (answer.status === 200) return answer.text;
    this.#report({ kind: "fault", text: `${operation}: ${answer.status} ${answer.text}` });
    return null;
  }

  #send(operation: string, body: string): Promise<Answer | null> {
    return this.address.try(`/v1/worker/${operation}`, { secret: this.#token, body });
  }
}

function toJson({ id, leaseId, result, message, retry }: AskItem): object {
  return {
    id,
    lease_id: leaseId,
    ...(result !== undefined && { result: JSON.parse(result) }),
    ...(message !== undefined && { message }),
    ...(retry !== undefined && { retry }),
  };
}
