import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { TestDaemon } from "../helpers/daemon.ts";

/** A message of a stream, or a comment (`event` is ":" then). */
export interface StreamMessage {
  readonly event: string;
  readonly id: string | null;
  readonly data: string | null;
}

// A missing event fails the test instead of blocking the run.
const WAIT_MS_MAX = 30_000;

/** The messages of a stream, one after the other. */
export class EventReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = "";

  constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader();
  }

  /** Waits for the next block; null at the end. */
  async block(): Promise<string | null> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return block;
      }
      const { done, value } = await this.#read();
      if (done) {
        assert.equal(this.#text, "", "a stream ends with a whole message");
        return null;
      }
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }

  async #read(): ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]> {
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<never>((_, reject) => {
      const fail = (): void => reject(new Error(`no event in ${WAIT_MS_MAX} ms`));
      timer = setTimeout(fail, WAIT_MS_MAX);
    });
    try {
      return await Promise.race([this.#reader.read(), silence]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The next message or comment; null at the end. */
  async next(): Promise<StreamMessage | null> {
    const block = await this.block();
    if (block === null) return null;
    const fields = new Map(block.split("\n").map((line) => splitField(line)));
    if (fields.has("retry")) return this.next();
    if (fields.has("")) return { event: ":", id: null, data: null };
    return {
      event: fields.get("event") ?? "message",
      id: fields.get("id") ?? null,
      data: fields.get("data") ?? null,
    };
  }

  /** The next message, which is a change: its id and its counts. */
  async change(): Promise<{ readonly id: string; readonly tasks: unknown }> {
    const message = await this.next();
    assert.equal(message?.event, "change");
    const { tasks } = JSON.parse(message.data ?? "") as { readonly tasks: unknown };
    return { id: message.id ?? "", tasks };
  }

  /** Closes the stream. */
  async cancel(): Promise<void> {
    await this.#reader.cancel();
  }
}

function splitField(line: string): [string, string] {
  const [name = "", ...rest] = line.split(": ");
  return line.startsWith(":") ? ["", line] : [name, rest.join(": ")];
}

/** Opens a stream of a daemon until the end of the test. */
export async function openEvents(
  t: TestContext,
  daemon: Pick<TestDaemon, "call">,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly response: Response; readonly events: EventReader }> {
  const end = new AbortController();
  t.after(() => end.abort());
  const response = await daemon.call("/v1/events", { headers, signal: end.signal });
  assert.equal(response.status, 200);
  assert(response.body !== null);
  return { response, events: new EventReader(response.body) };
}
