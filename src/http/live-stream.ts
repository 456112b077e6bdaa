type StreamEnd = "stopping" | "signed_out";

interface LiveStreamOptions {
  readonly credential: string;
  readonly stillAdmitted: () => Promise<boolean>;
  /** The number of changes that its client knows of; below 0 for none. */
  readonly seen: number;
  /** Called when the client has taken everything that was sent. */
  readonly taken: () => void;
  /** Called once, when it has ended or its client has hung up. */
  readonly gone: () => void;
}

export interface Change {
  readonly id: string;
  /** How many changes there were, this one included. */
  readonly changes: number;
  /** One line. */
  readonly data: string;
  /** By the monotonic clock. */
  readonly now: number;
}

// A browser tries again after this long.
const PREAMBLE = "retry: 2000\n\n";

/**
 * One stream of server-sent events (HTML, section 9.2). It buffers nothing: a message that its client does not accept
 * immediately is not sent.
 */
export class LiveStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly options: LiveStreamOptions;
  /** The number of changes that its client knows of; below 0 for none. */
  seen: number;
  /** When it was last sent a change, by the monotonic clock. */
  sentAt = Number.NEGATIVE_INFINITY;
  /** True while its client has taken everything that was sent. */
  takes = false;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #wasPassedOver = false;

  constructor(options: LiveStreamOptions) {
    this.options = options;
    this.seen = options.seen;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
          controller.enqueue(Buffer.from(PREAMBLE));
        },
        pull: () => this.#pull(),
        cancel: () => void this.#leave(),
      },
      // The stream asks for more only when the client has taken everything.
      { highWaterMark: 0 },
    );
  }

  /** Sends a change, unless the client knows of it or takes nothing. */
  change({ id, changes, data, now }: Change): void {
    if (changes <= this.seen) return;
    if (!this.#send(`event: change\nid: ${id}\ndata: ${data}\n\n`)) return;
    this.seen = changes;
    this.sentAt = now;
  }

  /** Shows that it is still there, unless the client takes nothing. */
  comment(): void {
    this.#send(":\n\n");
  }

  /** Sends the reason and ends. A client that has stopped taking anything is cut off. */
  end(reason: StreamEnd): void {
    const controller = this.#leave();
    if (controller === null) return;
    if (this.#wasPassedOver) {
      controller.error(new Error("the client of a stream takes nothing"));
      return;
    }
    controller.enqueue(Buffer.from(`event: end\ndata: {"reason":"${reason}"}\n\n`));
    controller.close();
  }

  #send(text: string): boolean {
    const isSent = this.takes && this.#controller !== null;
    this.#wasPassedOver = !isSent;
    if (!isSent) return false;
    this.takes = false;
    this.#controller?.enqueue(Buffer.from(text));
    return true;
  }

  #pull(): void {
    this.takes = true;
    this.#wasPassedOver = false;
    this.options.taken();
  }

  #leave(): ReadableStreamDefaultController<Uint8Array> | null {
    const controller = this.#controller;
    this.#controller = null;
    this.takes = false;
    if (controller !== null) this.options.gone();
    return controller;
  }
}
