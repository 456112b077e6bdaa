import type { InboxMessage as InboxMessageShown } from "../api/dev.ts";
import { StatusError } from "../domain/status.ts";
import { PLAIN_ANSWER, type ScriptedAnswer } from "../domain/webhook/inbox.ts";
import type { InboxRequest } from "../http/inbox.ts";

export interface InboxWait {
  readonly isWanted: (message: InboxMessage) => boolean;
  readonly count: number;
  readonly ms: number;
  readonly gone: AbortSignal;
}

export interface InboxAnswers {
  /** One by one. */
  readonly answers: readonly ScriptedAnswer[];
  /** After them. */
  readonly last: ScriptedAnswer;
}

export interface InboxMessage
  extends InboxRequest, Pick<InboxMessageShown, "seq" | "kind" | "attempt" | "signature"> {
  readonly receivedAt: number;
  readonly taskId: string | null;
  /** Final once the message is answered. */
  answered: InboxMessageShown["answered"];
}

/** The most messages of a box, and boxes; the most bytes that all messages may take. */
export const BOX_MESSAGES_MAX = 1000;
export const BOXES_MAX = 1000;
export const INBOX_BYTES_MAX = 256 * 1024 ** 2;

interface Box {
  /** The oldest first. */
  readonly messages: InboxMessage[];
  answers: ScriptedAnswer[];
  last: ScriptedAnswer;
}

/** Keeps the last messages of each box. The oldest messages are dropped if they are too many or too large. */
export class InboxBoxes {
  readonly #boxes = new Map<string, Box>();
  /** Of all boxes, the oldest first: so each of them is the first of its box when its turn to go has come. */
  readonly #all = new Set<InboxMessage>();
  #bytes = 0;

  list(): readonly { readonly box: string; readonly messages: readonly InboxMessage[] }[] {
    const names = [...this.#boxes.keys()].toSorted();
    return names.map((box) => ({ box, messages: this.messages(box) }));
  }

  messages(name: string): readonly InboxMessage[] {
    return this.#boxes.get(name)?.messages ?? [];
  }

  remove(name: string): void {
    for (const message of this.#boxes.get(name)?.messages ?? []) this.#forget(message);
    this.#boxes.delete(name);
  }

  clear(): void {
    for (const name of [...this.#boxes.keys()]) this.remove(name);
  }

  setAnswers(name: string, { answers, last }: InboxAnswers): void {
    Object.assign(this.#open(name), { answers: [...answers], last });
  }

  /** Stores a message, and returns the response to its sender. Throws 42900 where there are too many boxes. */
  add(message: InboxMessage): ScriptedAnswer {
    const box = this.#open(message.box);
    box.messages.push(message);
    this.#all.add(message);
    this.#bytes += bytesOf(message);
    if (box.messages.length > BOX_MESSAGES_MAX) this.#drop(box.messages[0]);
    while (this.#bytes > INBOX_BYTES_MAX) this.#drop(this.#all.values().next().value);
    return box.answers.shift() ?? box.last;
  }

  /** Makes sure that a box is there, or may be made. Throws 42900. */
  requireRoom(name: string): void {
    if (this.#boxes.has(name) || this.#boxes.size < BOXES_MAX) return;
    const detail = `There are ${BOXES_MAX} inboxes, as many as may be: remove one with DELETE /dev/inbox/BOX.`;
    throw new StatusError(42900, { detail });
  }

  #open(name: string): Box {
    const known = this.#boxes.get(name);
    if (known !== undefined) return known;
    this.requireRoom(name);
    const box: Box = { messages: [], answers: [], last: PLAIN_ANSWER };
    this.#boxes.set(name, box);
    return box;
  }

  #drop(message: InboxMessage | undefined): void {
    if (message === undefined) return;
    this.#boxes.get(message.box)?.messages.shift();
    this.#forget(message);
  }

  #forget(message: InboxMessage): void {
    this.#all.delete(message);
    this.#bytes -= bytesOf(message);
  }
}

// The bytes that objects, arrays and short texts take beside their content (measured: 635, and 195 for a header of 30).
const MESSAGE_BYTES = 1024;
const HEADER_BYTES = 192;

/** About what a message takes in memory. */
export function bytesOf({ body, url, target, headers }: InboxMessage): number {
  const ofHeaders = headers.reduce(
    (sum, [name, value]) => sum + HEADER_BYTES + name.length + value.length,
    0,
  );
  return MESSAGE_BYTES + body.length + url.length + target.length + ofHeaders;
}
