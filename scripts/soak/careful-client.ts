import { randomUUID } from "node:crypto";

import { carefulCall, type CarefulAnswer } from "../kit/careful-call.ts";
import { acceptedIds } from "../kit/request.ts";
import type { WebhookUrls } from "../kit/webhook-receiver.ts";
import type { Ledger } from "./ledger.ts";

/** The counts of a {@link CarefulClient}. */
export interface CarefulCount {
  /** Requests with an Idempotency-Key, each answered in the end. */
  readonly posts: number;
  /** Posts that were sent again because a crash had cut off their answer. */
  readonly repeated: number;
  /** Of these, those whose tasks were on disk before the crash. */
  readonly replayed: number;
}

/** A post that is the same however often it is sent. `ids` are those of its first answer, null before it. */
export interface CarefulPost {
  readonly kind: "post";
  readonly key: string;
  readonly body: string;
  readonly isToCancel: boolean;
  ids: string | null;
  wasCutOff: boolean;
}

/** The cancelling of a task. */
export interface CarefulCancel {
  readonly kind: "cancel";
  readonly id: string;
}

/** The work of a {@link CarefulClient}. */
export type CarefulWork = CarefulPost | CarefulCancel;

/** Called with the actions of a {@link CarefulClient}. */
export interface CarefulListener {
  /** A post is sent for the first time. */
  readonly onPost: (post: CarefulPost) => void;
  /** A work was answered for the first time. */
  readonly onDone: (work: CarefulWork, answer: CarefulAnswer) => void;
}

const LANES = 16;
// Every so many posts: the tasks are cancelled; every so many others: sent again although it was answered.
const CANCEL_EVERY = 3;
const REPEAT_EVERY = 5;
// Not while a crash run lasts.
const NEVER = new Date(Date.now() + 300 * 24 * 3600 * 1000).toISOString();

/**
 * A client that outlives the crashes and does what the contract asks of one: it posts with an Idempotency-Key, cancels
 * some of its tasks, and sends again, after a crash, whatever was not answered.
 */
export class CarefulClient {
  readonly #apiKey: string;
  readonly #webhooks: WebhookUrls;
  readonly #ledger: Ledger;
  readonly #listener: CarefulListener | null;
  readonly #unanswered: CarefulWork[] = [];
  #posts = 0;
  #repeated = 0;
  #replayed = 0;

  constructor(deps: {
    readonly apiKey: string;
    readonly webhooks: WebhookUrls;
    readonly ledger: Ledger;
    readonly listener?: CarefulListener;
  }) {
    this.#apiKey = deps.apiKey;
    this.#webhooks = deps.webhooks;
    this.#ledger = deps.ledger;
    this.#listener = deps.listener ?? null;
  }

  get count(): CarefulCount {
    return { posts: this.#posts, repeated: this.#repeated, replayed: this.#replayed };
  }

  /** Takes over what another client has left: posts without an answer are sent again, those with one must be answered the same. */
  resume(works: readonly CarefulWork[]): void {
    this.#unanswered.push(...works);
  }

  /**
   * Repeats unanswered requests, then posts and cancels until `goesOn` says no or the connection breaks. Rejects at a
   * wrong answer.
   */
  async run(url: string, goesOn: () => boolean = () => true): Promise<void> {
    const lane = async (): Promise<void> => {
      while (goesOn() && (await this.#do(this.#unanswered.shift() ?? this.#newPost(), url)))
        continue;
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  }

  /** Repeats unanswered requests, until all are answered. Rejects when the connection breaks. */
  async settle(url: string): Promise<void> {
    for (let work = this.#unanswered.shift(); work; work = this.#unanswered.shift()) {
      if (!(await this.#do(work, url))) throw new Error("the daemon does not answer");
    }
  }

  /** False when there was no answer: the work is kept for later. */
  async #do(work: CarefulWork, url: string): Promise<boolean> {
    const got = await (work.kind === "post" ? this.#send(work, url) : this.#cancel(work, url));
    if (got === null) {
      if (work.kind === "post" && work.ids === null) work.wasCutOff = true;
      this.#unanswered.push(work);
      return false;
    }
    if (work.kind === "post") this.#takePost(work, got);
    else this.#takeCancel(work, got);
    return true;
  }

  #newPost(): CarefulPost {
    const isToCancel = ++this.#posts % CANCEL_EVERY === 0;
    const key = `key-${randomUUID()}`;
    const { postbackUrl, pingbackUrl } = this.#webhooks;
    const urls = { postback_url: postbackUrl, pingback_url: pingbackUrl };
    const task = { type: "echo", tag: key, ...urls };
    // Cancelled before their time, in the queue or while they run, and when they run at once or have run.
    const others = [{ ...task, start_at: NEVER }, { ...task, type: "parked" }, task];
    const tasks = isToCancel ? others : [task, task];
    const body = JSON.stringify(tasks);
    const post: CarefulPost = { kind: "post", key, body, isToCancel, ids: null, wasCutOff: false };
    this.#listener?.onPost(post);
    return post;
  }

  #takePost(post: CarefulPost, got: CarefulAnswer): void {
    if (got.status !== 200) throw new Error(`task_post answered ${got.status}: ${got.text}`);
    const ids = acceptedIds(got.text);
    if (post.ids !== null) {
      const isSame = got.isReplayed && post.ids === ids.join();
      if (!isSame) this.#ledger.blame(`${post.key}: a repeated post was answered otherwise`);
      return;
    }
    post.ids = ids.join();
    if (post.wasCutOff) this.#repeated++;
    if (got.isReplayed) this.#replayed++;
    this.#ledger.promise(post.key, ids.length);
    if (post.isToCancel) for (const id of ids) this.#unanswered.push({ kind: "cancel", id });
    else for (const id of ids) this.#ledger.acknowledge(id);
    if (this.#posts % REPEAT_EVERY === 0) this.#unanswered.push(post);
    this.#listener?.onDone(post, got);
  }

  #takeCancel(cancel: CarefulCancel, got: CarefulAnswer): void {
    const { status, text } = got;
    if (status === 200) this.#ledger.cancel(cancel.id);
    // It had run before.
    else if (status === 409) this.#ledger.acknowledge(cancel.id);
    else throw new Error(`task_cancel answered ${status}: ${text}`);
    this.#listener?.onDone(cancel, got);
  }

  #send({ key, body }: CarefulPost, url: string): Promise<CarefulAnswer | null> {
    const headers = { "idempotency-key": key };
    const request = { secret: this.#apiKey, headers, body };
    return carefulCall(`${url}/v1/tasks/task_post`, request);
  }

  #cancel({ id }: CarefulCancel, url: string): Promise<CarefulAnswer | null> {
    return carefulCall(`${url}/v1/tasks/task_cancel/${id}`, { secret: this.#apiKey });
  }
}
