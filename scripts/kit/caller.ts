import { acceptedIds, claimedTasks, type LeasedTask } from "./request.ts";

/** One request. */
export interface Ask {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface CallAnswer {
  readonly status: number;
  readonly text: string;
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

  /** A `body` that is text is sent as it is. */
  post(path: string, body: string | object, headers: Readonly<Record<string, string>> = {}): Ask {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return {
      method: "POST",
      path,
      body: text,
      headers: { ...this.#headers, ...JSON_TYPE, ...headers },
    };
  }

  /** Sends it and reads the answer to its end. */
  async send({ method, path, headers, body }: Ask): Promise<CallAnswer> {
    const init = { method, ...(headers && { headers }), ...(body !== undefined && { body }) };
    const answer = await fetch(`${this.#url}${path}`, init);
    return { status: answer.status, text: Buffer.from(await answer.arrayBuffer()).toString() };
  }

  /** Sends it and reads the beginning of an endless answer. */
  async peek({ path, headers }: Ask): Promise<CallAnswer> {
    const gone = new AbortController();
    const init = { signal: gone.signal, ...(headers && { headers }) };
    const answer = await fetch(`${this.#url}${path}`, init);
    const first = await answer.body?.getReader().read();
    gone.abort();
    return { status: answer.status, text: Buffer.from(first?.value ?? []).toString() };
  }

  /** Like {@link send}, for a request whose answer must be 200. */
  async done(ask: Ask): Promise<string> {
    const { status, text } = await this.send(ask);
    if (status !== 200) throw new Error(`${ask.path} answered ${status}: ${text.slice(0, 500)}`);
    return text;
  }

  /** Posts so many equal tasks; returns their ids. */
  postTasks(task: object, count = 1): Promise<readonly string[]> {
    return this.postAll(Array<object>(count).fill(task));
  }

  /** Posts tasks, by 100; returns their ids. Rejects unless all are accepted. */
  async postAll(tasks: readonly object[]): Promise<readonly string[]> {
    const ids: string[] = [];
    for (let i = 0; i < tasks.length; i += 100) {
      const ask = this.post("/v1/tasks/task_post", tasks.slice(i, i + 100));
      ids.push(...acceptedIds(await this.done(ask)));
    }
    return ids;
  }

  /** Claims so many tasks of a type, which must exist. */
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
