import type { Socket } from "node:net";

import { idTimeMs } from "../../src/domain/id.ts";
import { helperProcess } from "../kit/helper-process.ts";
import type { HttpMessage } from "../kit/http.ts";
import type { LoadGenerator } from "../kit/load.ts";
import { spreadOf, type Spread } from "../kit/measure.ts";
import {
  EMPTY_ANSWERS,
  isSignedWith,
  MessageServer,
  toWebhook,
  type ReceivedWebhook,
} from "../kit/receiver.ts";

/** How the receiver responds: 200 immediately, except to these. */
export interface Behaviour {
  /** Addresses that respond 500. */
  readonly failing?: readonly string[];
  /** Addresses that accept requests and never respond. */
  readonly hanging?: readonly string[];
  /** Addresses whose webhooks are not counted. */
  readonly ignored?: readonly string[];
  /** By path: the whole response, or null for none; after so many milliseconds. */
  readonly paths?: Readonly<
    Record<string, { readonly response: string | null; readonly afterMs?: number }>
  >;
}

/**
 * Which webhooks are counted. With a `window` only tasks with a tag of {@link tagText}: fresh tasks that were due to be
 * posted in the window, and retries.
 */
export interface Counting {
  /** Signs the webhooks. */
  readonly secret: string;
  readonly window?: {
    readonly from: number;
    readonly to: number;
    /** When the first of the retries in the database is due. Times are epoch milliseconds. */
    readonly retriesFrom: number;
  };
}

/** The counted webhooks; durations end at their arrival. */
export interface Arrivals {
  /** Different tasks. */
  readonly tasks: number;
  /** Webhooks of a task that had arrived before. */
  readonly repeated: number;
  /** One signature in 50 is verified: each takes 10 µs of a core that the daemon could use. */
  readonly verified: number;
  readonly badSignatures: number;
  /** From the creation of the task's id. */
  readonly fromCreation: Spread;
  readonly fromCompletion: Spread;
  /** From the moment at which a fresh task was to be posted. */
  readonly fromPost: Spread;
  /** From the time at which a retry was due. */
  readonly retries: Spread;
}

/** The tag of a task: when it was to be posted, or how long after the first retry its retry is due. */
export function tagText(kind: "fresh" | "retry", at: number): string {
  return `${kind} ${at}`;
}

const TAG = /"tag":"(fresh|retry) (\d+(?:\.\d+)?)"/;
const COMPLETED_AT = /"completed_at":"([^"]+)"/;
const VERIFIED_EVERY = 50;
// A retry that was put into the database: its first attempt failed before.
const RETRY_ATTEMPT = 2;

class Count {
  readonly all = Promise.withResolvers<void>();
  expected = Infinity;
  readonly #counting: Counting;
  /** From completion to arrival, by task. */
  readonly latencies = new Map<string, number>();
  readonly #ms: Record<"creation" | "post" | "retries", number[]> = {
    creation: [],
    post: [],
    retries: [],
  };
  #webhooks = 0;
  #repeated = 0;
  #badSignatures = 0;

  constructor(counting: Counting) {
    this.#counting = counting;
  }

  take(webhook: ReceivedWebhook, arrivedAt: number): void {
    const { secret, window } = this.#counting;
    if (++this.#webhooks % VERIFIED_EVERY === 0 && !isSignedWith(secret, webhook))
      this.#badSignatures++;
    const envelope = webhook.body.toString("latin1");
    if (window !== undefined) {
      const { from, to, retriesFrom } = window;
      const [, kind, atText] = TAG.exec(envelope) ?? [];
      const at = Number(atText);
      if (kind === "retry" && webhook.attempt === RETRY_ATTEMPT)
        this.#ms.retries.push(arrivedAt - retriesFrom - at);
      if (kind !== "fresh" || at < from || at >= to) return;
      if (!this.latencies.has(webhook.taskId)) this.#ms.post.push(arrivedAt - at);
    }
    if (this.latencies.has(webhook.taskId)) {
      this.#repeated++;
      return;
    }
    const completedAt = Date.parse(COMPLETED_AT.exec(envelope)?.[1] ?? "");
    this.latencies.set(webhook.taskId, arrivedAt - completedAt);
    this.#ms.creation.push(arrivedAt - idTimeMs(webhook.taskId));
    if (this.latencies.size >= this.expected) this.all.resolve();
  }

  get counts(): { readonly tasks: number; readonly retries: number } {
    return { tasks: this.latencies.size, retries: this.#ms.retries.length };
  }

  get arrivals(): Arrivals {
    return {
      tasks: this.latencies.size,
      repeated: this.#repeated,
      verified: Math.floor(this.#webhooks / VERIFIED_EVERY),
      badSignatures: this.#badSignatures,
      fromCreation: spreadOf(this.#ms.creation),
      fromCompletion: spreadOf([...this.latencies.values()]),
      fromPost: spreadOf(this.#ms.post),
      retries: spreadOf(this.#ms.retries),
    };
  }
}

class Receiver {
  #behaviour: Behaviour = {};
  #count = new Count({ secret: "" });
  readonly #requests = new Map<string, number>();

  /** Listens on all loopback addresses, each of which is a host. Returns the port. */
  async open(): Promise<number> {
    const where = { host: "0.0.0.0", backlog: 4096 };
    const { port } = await MessageServer.open((message, { socket, firstByteAt }) => {
      this.#take(message, socket, firstByteAt);
    }, where);
    return port;
  }

  /** From now on; an attempt that already hangs stays so. */
  behave(behaviour: Behaviour): void {
    this.#behaviour = behaviour;
  }

  count(counting: Counting): void {
    this.#count = new Count(counting);
  }

  /** As {@link count}; settles when webhooks of so many tasks have arrived, or when the time is over. */
  async expect(wish: Counting & { readonly tasks: number; readonly withinMs: number }) {
    const count = new Count(wish);
    count.expected = wish.tasks;
    this.#count = count;
    const timer = setTimeout(() => count.all.resolve(), wish.withinMs);
    await count.all.promise;
    clearTimeout(timer);
    return count.arrivals;
  }

  counts(): Count["counts"] {
    return this.#count.counts;
  }

  arrivals(): Arrivals {
    return this.#count.arrivals;
  }

  /** How many requests have come to a path. */
  requests(path: string): number {
    return this.#requests.get(path) ?? 0;
  }

  /** From completion to arrival of each task's webhook, in milliseconds; null if it has not arrived. */
  latencies(taskIds: readonly string[]): readonly (number | null)[] {
    return taskIds.map((id) => this.#count.latencies.get(id) ?? null);
  }

  #take(message: HttpMessage, socket: Socket, arrivedAt: number): void {
    const path = message.head.split(" ", 2)[1] ?? "";
    this.#requests.set(path, this.requests(path) + 1);
    const { failing, hanging, ignored, paths } = this.#behaviour;
    const host = socket.localAddress ?? "";
    const webhook = toWebhook(message);
    if (webhook !== null && ignored?.includes(host) !== true) this.#count.take(webhook, arrivedAt);
    if (hanging?.includes(host)) return;
    const rule = paths?.[path];
    const response =
      rule === undefined ? EMPTY_ANSWERS[failing?.includes(host) ? 500 : 200] : rule.response;
    if (response === null) return;
    if (rule?.afterMs === undefined) socket.write(response);
    else setTimeout(() => socket.write(response), rule.afterMs);
  }
}

export class BenchReceiver extends helperProcess(import.meta, Receiver) {}

/** Longer than any measurement takes, on a slow disk too. */
export const DELIVERED_MS_MAX = 300_000;

/** Equal tasks whose webhooks go to a receiver. */
export interface Delivery {
  readonly port: number;
  readonly connections: number;
  /** A task_post request. */
  readonly request: string;
  readonly tasksPerRequest: number;
  readonly generator: LoadGenerator;
  /** How many; the last request may post more. */
  readonly tasks: number;
  /** Signs their webhooks. */
  readonly secret: string;
  readonly receiver: BenchReceiver;
}

/** Posts the tasks, and settles when each webhook has arrived. Rejects unless each arrived once, rightly signed. */
export async function deliverAll(delivery: Delivery): Promise<Arrivals> {
  const { tasksPerRequest, secret, generator, receiver, port, connections, request } = delivery;
  const answers = Math.ceil(delivery.tasks / tasksPerRequest);
  const tasks = answers * tasksPerRequest;
  const arrived = receiver.ask("expect", { tasks, secret, withinMs: DELIVERED_MS_MAX });
  await generator.ask("run", { port, connections, request, warmUpMs: 0, until: { answers } });
  const arrivals = await arrived;
  if (arrivals.tasks < tasks)
    throw new Error(`only ${arrivals.tasks} of ${tasks} postbacks arrived`);
  requireSound(arrivals);
  return arrivals;
}

/** Throws if a webhook arrived twice or had a wrong signature. */
export function requireSound({ repeated, badSignatures, verified }: Arrivals): void {
  if (repeated > 0) throw new Error(`${repeated} postbacks arrived twice, without a crash`);
  if (badSignatures > 0) throw new Error(`${badSignatures} of ${verified} signatures were wrong`);
}
