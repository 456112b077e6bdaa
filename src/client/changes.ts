import type { Answers } from "./api.ts";
import { pause } from "./pause.ts";
import { isObject } from "./shape.ts";
import { otherShape, type CallOptions, type Transport } from "./transport.ts";

/** How much work there is, at that time. */
export type Change = Pick<Answers["GET /v1/stats/overview"], "tasks" | "time">;

/** As the daemon asks browsers to wait. */
const RECONNECT_MS = 2000;

/**
 * How much work there is now, and again whenever that may have changed, at most four times a second; without an end:
 * when the daemon stops, it is asked again.
 */
export async function* changesOf(
  transport: Transport,
  { signal }: CallOptions,
): AsyncGenerator<Change, void, undefined> {
  for (let lastId: string | undefined; ; await pause(RECONNECT_MS, signal)) {
    const headers = lastId === undefined ? {} : { "Last-Event-ID": lastId };
    const response = await transport.open("GET /v1/events", { headers, signal });
    if (response.headers.get("content-type")?.startsWith("text/event-stream") !== true) {
      await response.body?.cancel();
      throw otherShape(response);
    }
    for await (const event of eventsOf(response.body)) {
      lastId = event.id ?? lastId;
      if (event.event === "change") yield changeIn(event, response);
    }
    signal?.throwIfAborted();
  }
}

function changeIn({ data = "" }: Event, response: Response): Change {
  try {
    const change: Change = JSON.parse(data);
    if (isObject(change) && isObject(change.tasks)) return change;
  } catch {
    // The caller throws the same error for JSON of another shape.
  }
  throw otherShape(response);
}

interface Event {
  readonly event?: string;
  readonly id?: string;
  readonly data?: string;
}

/** The events of a stream, up to its end; one that breaks off has ended. */
async function* eventsOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Event, void> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const part = await reader?.read().catch(() => undefined);
      if (part === undefined || part.done) return;
      const blocks = (text + decoder.decode(part.value, { stream: true })).split("\n\n");
      text = blocks.pop() ?? "";
      yield* blocks.map(readEvent);
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
}

/** The fields of an event; each of the daemon's is one line. */
function readEvent(block: string): Event {
  return Object.fromEntries(
    block.split("\n").flatMap((line) => {
      const at = line.indexOf(": ");
      // Without a name it is a comment.
      return at < 1 ? [] : [[line.slice(0, at), line.slice(at + 2)]];
    }),
  );
}
