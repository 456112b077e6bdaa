import { randomUUID } from "node:crypto";

import { z } from "zod";

import { carefulCall, type CarefulAnswer } from "../careful-call.ts";
import type { Ledger } from "./ledger.ts";

/** Where the webhooks of a task go. */
export interface WebhookUrls {
  readonly postbackUrl: string;
  readonly pingbackUrl: string;
}

/** What a {@link CarefulClient} did. */
export interface CarefulCount {
  /** Requests with an Idempotency-Key, each answered in the end. */
  readonly posts: number;
  /** Posts that were sent again because a crash had cut off their answer. */
  readonly repeated: number;
  /** Of these, those whose tasks were on disk before the crash. */
  readonly replayed: number;
}

/** A post that is the same however often it is sent. `ids` are those of its first answer, null before it. */
interface Post {
  readonly kind: "post";
  readonly key: string;
  readonly body: string;
  readonly isToCancel: boolean;
  ids: string | null;
  wasCutOff: boolean;
}

interface Cancel {
  readonly kind: "cancel";
  readonly id: string;
}

const LANES = 16;
// Every so many posts: the tasks are cancelled; every so many others: sent again although it was answered.
const CANCEL_EVERY = 3;
const REPEAT_EVERY = 5;
const NEVER = "2099-01-01T00:00:00Z";

const answer = z.object({ tasks: z.array(z.object({ id: z.string(), status_code: z.number() })) });

/**
 * A client that outlives the crashes and does what the contract asks of one: it posts with an Idempotency-Key, cancels
 * some of its tasks, and sends again, after a crash, whatever was not answered.
 */
export class CarefulClient {
  readonly #apiKey: string;
  readonly #webhooks: WebhookUrls;
  readonly #ledger: Ledger;
  readonly #unanswered: (Post | Cancel)[] = [];
  #posts = 0;
  #repeated = 0;
  #replayed = 0;

  constructor(deps: {
    readonly apiKey: string;
    readonly webhooks: WebhookUrls;
    readonly ledger: Ledger;
  }) {
    this.#apiKey = deps.apiKey;
    this.#webhooks = deps.webhooks;
    this.#ledger = deps.ledger;
  }

  get count(): CarefulCount {
    return { posts: this.#posts, repeated: this.#repeated, replayed: this.#replayed };
  }

  /** Sends again what was not answered, then posts and cancels until the connection breaks. Rejects at a wrong answer. */
  async run(url: string): Promise<void> {
    const lane = async (): Promise<void> => {
      while (await this.#do(this.#unanswered.shift() ?? this.#newPost(), url)) continue;
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  }

  /** Sends again what was not answered, until all is. Rejects when the connection breaks. */
  async settle(url: string): Promise<void> {
    for (let work = this.#unanswered.shift(); work; work = this.#unanswered.shift()) {
      if (!(await this.#do(work, url))) throw new Error("the daemon does not answer");
    }
  }

  /** False when there was no answer: the work is kept for later. */
  async #do(work: Post | Cancel, url: string): Promise<boolean> {
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

  #newPost(): Post {
    const isToCancel = ++this.#posts % CANCEL_EVERY === 0;
    const key = `key-${randomUUID()}`;
    const { postbackUrl, pingbackUrl } = this.#webhooks;
    const urls = { postback_url: postbackUrl, pingback_url: pingbackUrl };
    const task = { type: "echo", tag: key, ...urls };
    // Cancelled before their time, in the queue or while they run, and when they run at once or have run.
    const others = [{ ...task, start_at: NEVER }, { ...task, type: "parked" }, task];
    const tasks = isToCancel ? others : [task, task];
    const body = JSON.stringify(tasks);
    return { kind: "post", key, body, isToCancel, ids: null, wasCutOff: false };
  }

  #takePost(post: Post, got: CarefulAnswer): void {
    if (got.status !== 200) throw new Error(`task_post answered ${got.status}: ${got.text}`);
    const { tasks } = answer.parse(JSON.parse(got.text));
    const ids = tasks.map(({ id }) => id);
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
  }

  #takeCancel({ id }: Cancel, { status, text }: CarefulAnswer): void {
    if (status === 200) this.#ledger.cancel(id);
    // It had run before.
    else if (status === 409) this.#ledger.acknowledge(id);
    else throw new Error(`task_cancel answered ${status}: ${text}`);
  }

  #send({ key, body }: Post, url: string): Promise<CarefulAnswer | null> {
    const headers = { "content-type": "application/json", "idempotency-key": key };
    const request = { secret: this.#apiKey, headers, body };
    return carefulCall(`${url}/v1/tasks/task_post`, request);
  }

  #cancel({ id }: Cancel, url: string): Promise<CarefulAnswer | null> {
    const request = { secret: this.#apiKey, headers: {} };
    return carefulCall(`${url}/v1/tasks/task_cancel/${id}`, request);
  }
}
