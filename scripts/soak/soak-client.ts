import { setTimeout as sleep } from "node:timers/promises";

import { asError } from "../kit/as-error.ts";
import { carefulCall, type CarefulAnswer, type CarefulRequest } from "../kit/careful-call.ts";
import type { NewAccount } from "../kit/daemon-process.ts";
import type { Random } from "../kit/random.ts";
import { acceptedIds } from "../kit/request.ts";
import type { WebhookUrls } from "../kit/webhook-receiver.ts";
import type { Expectation } from "./ending-judge.ts";
import type { SeenCancel } from "./lease-judge.ts";
import type { LeaseLedger } from "./lease-ledger.ts";
import type { Ledger } from "./ledger.ts";
import { planTask, type PlannedTask } from "./task-plan.ts";

/** The daemon's address. */
export interface DaemonAddress {
  /** Null while there is none. */
  url: string | null;
  /** True when there will be none any more. */
  isOver: boolean;
}

/** A task that the daemon acknowledged. */
export interface BookedTask {
  readonly account: string;
  /** Null for tasks of workers. */
  readonly expected: Expectation | null;
  cancel: SeenCancel | null;
}

export interface SoakClientDeps {
  readonly account: NewAccount;
  readonly address: DaemonAddress;
  readonly webhooks: WebhookUrls;
  /** The account's own. */
  readonly ledger: Ledger;
  readonly leases: LeaseLedger;
  /** Every acknowledged task, of all accounts. */
  readonly book: Map<string, BookedTask>;
  readonly random: Random;
  readonly tasksPerSecond: number;
}

const RETRY_MS = 50;
const TASKS_PER_POST_MAX = 9;
const CANCELLED = 0.08;
const CANCEL_MS_MAX = 4000;
// Beyond so many webhooks to come it posts no more: a soak is about faults, not about a growing queue.
const BACKLOG_MAX = 3000;
const BACKLOG_MS = 200;

/** A client of one account: posts, cancels some of its tasks, and repeats unanswered posts with the same key. */
export class SoakClient {
  readonly #deps: SoakClientDeps;
  #posts = 0;
  #failure: Error | null = null;

  constructor(deps: SoakClientDeps) {
    this.#deps = deps;
  }

  /** Posts until the signal; settles when everything is answered. Rejects at a wrong answer. */
  async run(signal: AbortSignal): Promise<void> {
    const { random, ledger, tasksPerSecond } = this.#deps;
    const cancels: Promise<void>[] = [];
    const meanMs = (1000 * (1 + TASKS_PER_POST_MAX)) / 2 / tasksPerSecond;
    while (!signal.aborted && this.#failure === null) {
      if (ledger.count.missing > BACKLOG_MAX) await sleep(BACKLOG_MS);
      else cancels.push(...(await this.#post()));
      await sleep(random.next() * 2 * meanMs);
    }
    await Promise.all(cancels);
    if (this.#failure !== null) throw this.#failure;
  }

  /** Answers the cancellings that follow. */
  async #post(): Promise<readonly Promise<void>[]> {
    const { account, random, webhooks } = this.#deps;
    const key = `${account.login}-${this.#posts++}`;
    const urls = { postback_url: webhooks.postbackUrl, pingback_url: webhooks.pingbackUrl };
    const count = random.between(1, TASKS_PER_POST_MAX);
    const planned = Array.from({ length: count }, (_, i) => {
      return planTask(random, { now: Date.now(), nonce: `${key}-${i}` });
    });
    const body = JSON.stringify(planned.map((task) => ({ ...task.body, ...urls, tag: key })));
    const headers = { "idempotency-key": key };
    const { status, text } = await this.#ask("task_post", { headers, body });
    if (status !== 200) throw new Error(`task_post answered ${status}: ${text}`);
    return this.#book(key, planned, text);
  }

  #book(key: string, planned: readonly PlannedTask[], text: string): readonly Promise<void>[] {
    const { account, book, ledger, random } = this.#deps;
    const ids = acceptedIds(text);
    ledger.promise(key, ids.length);
    return planned.flatMap(({ expected }, i) => {
      const id = ids[i];
      if (id === undefined) throw new Error(`task_post took ${ids.length} tasks: ${text}`);
      if (book.has(id)) ledger.blame(`${id} was acknowledged twice`);
      const booked: BookedTask = { account: account.login, expected, cancel: null };
      book.set(id, booked);
      if (random.chance(CANCELLED)) return [this.#cancelLater(id, booked)];
      ledger.acknowledge(id);
      return [];
    });
  }

  /** Never rejects: what fails ends the run. */
  async #cancelLater(id: string, booked: BookedTask): Promise<void> {
    await sleep(this.#deps.random.between(0, CANCEL_MS_MAX));
    await this.#cancel(id, booked).catch((error: unknown) => {
      this.#failure ??= asError(error);
    });
  }

  async #cancel(id: string, booked: BookedTask): Promise<void> {
    const { ledger, leases } = this.#deps;
    const note = (cancel: SeenCancel): void => {
      booked.cancel = cancel;
      leases.cancel(id, cancel);
    };
    const sentAt = Date.now();
    note({ sentAt, acknowledgedAt: null });
    const { status, text } = await this.#ask(`task_cancel/${id}`);
    if (status === 200) {
      note({ sentAt, acknowledgedAt: Date.now() });
      ledger.cancel(id);
    } else if (status === 409) ledger.acknowledge(id);
    else throw new Error(`task_cancel answered ${status}: ${text}`);
  }

  /** Asks until there is an answer. */
  async #ask(
    operation: string,
    request: Omit<CarefulRequest, "secret"> = {},
  ): Promise<CarefulAnswer> {
    const { account, address } = this.#deps;
    while (!address.isOver) {
      const url = `${address.url}/v1/tasks/${operation}`;
      const got =
        address.url === null ? null : await carefulCall(url, { ...request, secret: account.key });
      // 503 while it starts: nothing was done.
      if (got !== null && got.status !== 503) return got;
      await sleep(RETRY_MS);
    }
    throw new Error(`${operation} was never answered`);
  }
}
