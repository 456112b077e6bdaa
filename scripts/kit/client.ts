import { setTimeout as sleep } from "node:timers/promises";

import type { DaemonProcess } from "./daemon.ts";
import { acceptedIds, claimedTasks, type LeasedTask } from "./http.ts";

export interface Ask {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

export interface Answer {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly text: string;
  /** `X-Request-Id`. */
  readonly requestId: string;
}

const JSON_TYPE = { "content-type": "application/json" } as const;

/** A client of the daemon, with the headers that identify it. */
export class Caller {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.#url = url;
    this.#headers = headers;
  }

  static withKey(url: string, key: string): Caller {
    return new Caller(url, { authorization: `Bearer ${key}` });
  }

  get(path: string): Ask {
    return { method: "GET", path, headers: this.#headers };
  }

  delete(path: string): Ask {
    return { method: "DELETE", path, headers: this.#headers };
  }

  /** Text is sent as it is. */
  post(path: string, body: string | object, headers: Readonly<Record<string, string>> = {}): Ask {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return {
      method: "POST",
      path,
      body: text,
      headers: { ...this.#headers, ...JSON_TYPE, ...headers },
    };
  }

  /** Sends a request and reads the whole response. */
  async send({ method, path, headers = {}, body }: Ask): Promise<Answer> {
    const init = { method, headers, ...(body !== undefined && { body }) };
    const response = await fetch(`${this.#url}${path}`, init);
    return {
      status: response.status,
      isReplayed: response.headers.get("idempotent-replayed") === "true",
      requestId: response.headers.get("x-request-id") ?? "",
      text: Buffer.from(await response.arrayBuffer()).toString(),
    };
  }

  /** Sends a request and reads the beginning of an endless response. */
  async peek({ path, headers = {} }: Ask): Promise<Pick<Answer, "status" | "text">> {
    const gone = new AbortController();
    const response = await fetch(`${this.#url}${path}`, { signal: gone.signal, headers });
    const first = await response.body?.getReader().read();
    gone.abort();
    return { status: response.status, text: Buffer.from(first?.value ?? []).toString() };
  }

  /** Sends a request and returns the body. Rejects unless the response is 200. */
  async done(ask: Ask): Promise<string> {
    const { status, text } = await this.send(ask);
    if (status !== 200) throw new Error(`${ask.path} responded ${status}: ${text.slice(0, 500)}`);
    return text;
  }

  /** Posts equal tasks; returns their ids. */
  postTasks(task: object, count = 1): Promise<readonly string[]> {
    return this.postAll(Array<object>(count).fill(task));
  }

  /** Posts tasks by 100; returns their ids. Rejects unless all are accepted. */
  async postAll(tasks: readonly object[]): Promise<readonly string[]> {
    const ids: string[] = [];
    for (let i = 0; i < tasks.length; i += 100) {
      const ask = this.post("/v1/tasks/task_post", tasks.slice(i, i + 100));
      ids.push(...acceptedIds(await this.done(ask)));
    }
    return ids;
  }

  /** Claims `count` tasks of a type, which must exist. */
  async claim(type: string, count: number): Promise<readonly LeasedTask[]> {
    const leases: LeasedTask[] = [];
    while (leases.length < count) {
      const order = { types: [type], max: Math.min(100, count - leases.length), wait_seconds: 10 };
      const text = await this.done(this.post("/v1/worker/claim", order));
      leases.push(...claimedTasks(text));
    }
    return leases;
  }
}

/** A request of an account or a worker. */
export interface CarefulRequest {
  /** Its key or token. */
  readonly secret: string;
  /** POST unless given. */
  readonly method?: Ask["method"];
  readonly headers?: Ask["headers"];
  /** JSON. */
  readonly body?: string;
}

/** Sends a request. Null if the connection broke before the whole response was there, as if the daemon is killed. */
export async function carefulCall(
  url: string,
  { secret, method = "POST", headers, body }: CarefulRequest,
): Promise<Answer | null> {
  const type = body === undefined ? {} : JSON_TYPE;
  const all = { ...type, ...headers, authorization: `Bearer ${secret}` };
  // fetch rejects only if a connection breaks.
  return new Caller(url).send({ method, path: "", headers: all, body }).catch(() => null);
}

const RETRY_MS = 20;

/** The address of the daemon, for clients that outlive it and go on with the next one. */
export class DaemonAddress {
  /** Null while no daemon runs. */
  url: string | null = null;
  /** True if no daemon will run again: waiting clients give up. */
  isOver = false;

  /** Sends requests to this daemon. If it ends and `url` was not cleared before, it was the last one. */
  moveTo(daemon: DaemonProcess): void {
    this.url = daemon.url;
    void daemon.ended.then(() => {
      if (this.url === daemon.url) this.isOver = true;
    });
  }

  /** Waits for work that sends requests here; requests without a response in time are not sent again. */
  async within(ms: number, work: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => (this.isOver = true), ms);
    await work.finally(() => clearTimeout(timer));
  }

  /** One attempt. Null if there was no response, or a 503, as during a start: then nothing was done. */
  async try(path: string, request: CarefulRequest): Promise<Answer | null> {
    const answer = this.url === null ? null : await carefulCall(`${this.url}${path}`, request);
    return answer?.status === 503 ? null : answer;
  }

  /**
   * Sends a request until it has a response; `onCutOff` is called if a response was awaited and did not come. Rejects
   * when it is over.
   */
  async ask(
    path: string,
    request: CarefulRequest,
    onCutOff: () => void = () => {},
  ): Promise<Answer> {
    while (!this.isOver) {
      const isAsked = this.url !== null;
      const answer = await this.try(path, request);
      if (answer !== null) return answer;
      if (isAsked) onCutOff();
      await sleep(RETRY_MS);
    }
    throw new Error(`${path} never had a response`);
  }
}
