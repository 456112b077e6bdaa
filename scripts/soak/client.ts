import { setTimeout as sleep } from "node:timers/promises";

import type { Answer, DaemonAddress } from "../kit/client.ts";
import type { NewAccount } from "../kit/daemon.ts";
import { acceptedIds } from "../kit/http.ts";
import type { Random } from "../kit/random.ts";
import type { WebhookUrls } from "../kit/receiver.ts";
import type { Expectation } from "./ending-judge.ts";
import type { Ledger } from "./ledger.ts";

/** A post that is the same however often it is sent. */
export interface Post {
  readonly kind: "post";
  readonly key: string;
  readonly tasks: readonly PlannedTask[];
  /** Those of its first answer; null before it. */
  ids: readonly string[] | null;
  wasCutOff: boolean;
}

/** The cancelling of a task. */
export interface Cancel {
  readonly kind: "cancel";
  readonly id: string;
  /** Not before, on the clock of `performance`. */
  readonly dueAt: number;
}

/** How a client works. */
export interface Habit {
  /** Concurrent requests. */
  readonly lanes: number;
  /** The mean time that a lane rests after a post. */
  readonly pauseMs: number;
  readonly plan: TaskPlan;
  /** Beyond so many webhooks to come it posts no more. */
  readonly missingMax: number;
  /** The share of posts that are sent again although they were answered; a fifth unless given. */
  readonly repeated?: number;
}

/** As often as requests are answered, without tasks of any weight. */
export const EAGER: Omit<Habit, "plan"> = { lanes: 16, pauseMs: 0, missingMax: Infinity };

/** The parts of a {@link Client}. */
export interface ClientDeps {
  readonly account: NewAccount;
  readonly address: DaemonAddress;
  readonly webhooks: WebhookUrls;
  readonly ledger: Ledger;
  readonly random: Random;
  readonly habit: Habit;
  /** Called before a post is sent for the first time. */
  readonly onPost?: (post: Post) => void;
  /** Called when a work is answered for the first time. */
  readonly onDone?: (work: Post | Cancel, answer: Answer) => void;
}

const RETRY_MS = 10;
const REPEATED = 0.2;

/**
 * A client that outlives the crashes and does what the contract asks of one: it posts with an Idempotency-Key, cancels
 * some of its tasks, and sends again, after a crash, whatever was not answered.
 */
export class Client {
  /** Each answered in the end. */
  posts = 0;
  /** Posts that were sent again because a crash had cut off their answer. */
  repeated = 0;
  /** Of these, those whose tasks were on disk before the crash. */
  replayed = 0;
  readonly #deps: ClientDeps;
  /** To be sent, for the first time or again. */
  readonly #works: (Post | Cancel)[];

  /** `works` is the ledger of another client: a request with a known response must get the same response again. */
  constructor(deps: ClientDeps, works: readonly (Post | Cancel)[] = []) {
    this.#deps = deps;
    this.#works = [...works];
  }

  /** The receiver of its tasks' webhooks. */
  get webhooks(): WebhookUrls {
    return this.#deps.webhooks;
  }

  /** Posts until the signal; settles when everything is answered. Rejects at a wrong answer. */
  async run(signal: AbortSignal): Promise<void> {
    const { habit, random } = this.#deps;
    const lane = async (): Promise<void> => {
      while (!signal.aborted || this.#works.length > 0) {
        const work = this.#dueWork() ?? this.#newPost(signal);
        if (work === null) await sleep(RETRY_MS);
        else if (work.kind === "cancel") await this.#cancel(work);
        else await this.#post(work);
        if (work?.kind === "post") await sleep(random.next() * 2 * habit.pauseMs);
      }
    };
    await Promise.all(Array.from({ length: habit.lanes }, lane));
  }

  #dueWork(): Post | Cancel | null {
    const now = performance.now();
    const index = this.#works.findIndex((work) => work.kind === "post" || work.dueAt <= now);
    return index === -1 ? null : (this.#works.splice(index, 1)[0] ?? null);
  }

  #newPost(signal: AbortSignal): Post | null {
    const { account, habit, ledger, random, onPost } = this.#deps;
    if (signal.aborted || ledger.missing > habit.missingMax) return null;
    const key = `${account.login}-${this.posts++}`;
    const tasks = habit.plan(random, key);
    const post: Post = { kind: "post", key, tasks, ids: null, wasCutOff: false };
    onPost?.(post);
    return post;
  }

  async #post(post: Post): Promise<void> {
    const { address, account, webhooks } = this.#deps;
    const { key, tasks } = post;
    const urls = { postback_url: webhooks.postbackUrl, pingback_url: webhooks.pingbackUrl };
    const body = JSON.stringify(tasks.map((task) => ({ ...task.body, ...urls, tag: key })));
    const request = { secret: account.key, headers: { "idempotency-key": key }, body };
    const answer = await address.ask("/v1/tasks/task_post", request, () => {
      post.wasCutOff ||= post.ids === null;
    });
    if (answer.status !== 200)
      throw new Error(`task_post answered ${answer.status}: ${answer.text}`);
    const ids = acceptedIds(answer.text);
    if (post.ids === null) this.#book(post, { ids, answer });
    else if (!answer.isReplayed || post.ids.join() !== ids.join())
      this.#deps.ledger.faults.push(`${key}: a repeated post was answered otherwise`);
  }

  #book(
    post: Post,
    { ids, answer }: { readonly ids: readonly string[]; readonly answer: Answer },
  ): void {
    const { account, ledger, random, habit, onDone } = this.#deps;
    post.ids = ids;
    if (post.wasCutOff) this.repeated++;
    if (answer.isReplayed) this.replayed++;
    bookPost(post, { ledger, apiKey: account.key });
    for (const [i, id] of ids.entries()) {
      const afterMs = post.tasks[i]?.cancelAfterMs ?? null;
      const dueAt = performance.now() + (afterMs ?? 0);
      if (afterMs !== null) this.#works.push({ kind: "cancel", id, dueAt });
    }
    if (random.chance(habit.repeated ?? REPEATED)) this.#works.push(post);
    onDone?.(post, answer);
  }

  async #cancel(cancel: Cancel): Promise<void> {
    const { account, address, ledger, onDone } = this.#deps;
    const { id } = cancel;
    const sentAt = Date.now();
    ledger.cancel(id, { sentAt, acknowledgedAt: null });
    const answer = await address.ask(`/v1/tasks/task_cancel/${id}`, { secret: account.key });
    const { status, text } = answer;
    if (status === 200) ledger.cancel(id, { sentAt, acknowledgedAt: Date.now() });
    // It had run before.
    else if (status === 409) ledger.owe(id);
    else throw new Error(`task_cancel answered ${status}: ${text}`);
    onDone?.(cancel, answer);
  }
}

/** Notes what the first answer to a post promises. */
export function bookPost(
  { key, tasks, ids }: Post,
  { ledger, apiKey }: { readonly ledger: Ledger; readonly apiKey: string },
): void {
  if (ids?.length !== tasks.length)
    throw new Error(`${key} was answered with ${ids?.length} tasks`);
  ledger.promised.set(key, tasks.length);
  for (const [i, { body, cancelAfterMs }] of tasks.entries()) {
    const id = ids[i] ?? "";
    ledger.acknowledge(id, { key: apiKey, expected: expectationOf(body) });
    if (cancelAfterMs === null) ledger.owe(id);
  }
}

/** A task to post. */
export interface PlannedTask {
  readonly body: { readonly type: string; readonly input: Readonly<Record<string, unknown>> };
  /** How long after it was accepted its client asks to cancel it; null where it does not. */
  readonly cancelAfterMs: number | null;
}

/** The tasks of one post. */
export type TaskPlan = (random: Random, nonce: string) => readonly PlannedTask[];

const KINDS = { work: 45, brief: 15, http: 16, command: 10, echo: 14 };
const COMMAND_MODES = { ok: 70, fail: 8, slow: 8, hang: 2, stubborn: 2, fork: 6, flood: 4 };
const HTTP_MODES = { ok: 60, slow: 12, busy: 12, reset: 8, huge: 4, refuse: 4 };
const TASKS_MAX = 9;
const PRIORITY_MAX = 9;
const DELAYED = 0.1;
const DELAY_MS_MAX = 8000;
const CANCELLED = 0.08;
const CANCEL_MS_MAX = 4000;

/** How many tasks {@link everyRunner} makes on average. */
export const TASKS_MEAN = (1 + TASKS_MAX) / 2;

/** Tasks of every kind of runner, some to start later, some to be cancelled at any moment. */
export const everyRunner: TaskPlan = (random, nonce) =>
  Array.from({ length: random.between(1, TASKS_MAX) }, (_, i) => {
    const type = random.choose(KINDS);
    const priority = random.chance(0.5) ? random.between(1, PRIORITY_MAX) : 0;
    const body = { type, priority, input: inputOf(type, { random, nonce: `${nonce}-${i}` }) };
    const startAt = random.chance(DELAYED) && startIn(random.between(0, DELAY_MS_MAX));
    const cancelAfterMs = random.chance(CANCELLED) ? random.between(0, CANCEL_MS_MAX) : null;
    return { body: { ...body, ...(startAt && { start_at: startAt }) }, cancelAfterMs };
  });

// Not while anything here lasts.
const NEVER_MS = 300 * 24 * 3600 * 1000;
const ALL_CANCELLED = 1 / 3;

/** Two tasks that cost least. */
export const echoTasks: TaskPlan = (_random, nonce) => {
  const body = { type: "echo", input: { nonce } };
  return [body, body].map((each) => ({ body: each, cancelAfterMs: null }));
};

/** The cheapest tasks; or tasks to cancel before their start time, in the queue, while they run, or after they ran. */
export const lightTasks: TaskPlan = (random, nonce) => {
  if (!random.chance(ALL_CANCELLED)) return echoTasks(random, nonce);
  const task = { type: "echo", input: { nonce } };
  const bodies = [{ ...task, start_at: startIn(NEVER_MS) }, { ...task, type: "parked" }, task];
  return bodies.map((body) => ({ body, cancelAfterMs: 0 }));
};

function startIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}

function inputOf(
  type: keyof typeof KINDS,
  { random, nonce }: { readonly random: Random; readonly nonce: string },
): Readonly<Record<string, unknown>> {
  if (type === "command") return { mode: random.choose(COMMAND_MODES), nonce };
  if (type === "http") return { mode: random.choose(HTTP_MODES), nonce };
  return { nonce, text: "ü ☃ 12345678901234567890", nested: [[null, true, 0.1]] };
}

const FAILURES: Readonly<Record<string, number>> = {
  ...{ fail: 50010, flood: 50010, huge: 50010, refuse: 50010 },
  ...{ hang: 50401, stubborn: 50401 },
};

/** How a task must end, unless it is cancelled; null for tasks of workers, which may do anything. */
export function expectationOf({ type, input }: PlannedTask["body"]): Expectation | null {
  if (type === "echo") return { kind: "completed", result: input };
  if (type === "parked") return { kind: "completed", result: null };
  if (type !== "command" && type !== "http") return null;
  const code = FAILURES[String(input["mode"])];
  if (code !== undefined) return { kind: "failed", code };
  return { kind: "completed", result: { done: input["nonce"] } };
}
