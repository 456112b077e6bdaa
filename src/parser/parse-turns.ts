import { setImmediate } from "../domain/clock/timers.ts";
import type { WorkOrder } from "../domain/offload.ts";
import { StatusError } from "../domain/status.ts";

// Half a second's worth of the worst input, and far more than nearly all honest input needs.
const OWNER_BYTES_MAX = 32 * 1024 ** 2;
const ALL_BYTES_MAX = 128 * 1024 ** 2;

interface Line {
  readonly begins: ((error: StatusError | null) => void)[];
  bytes: number;
}

/**
 * Owners take turns at parsing: one piece of each, in the order in which they came, one at a time. However much one
 * owner sends at once, nobody else waits for more than one piece of it.
 */
export class ParseTurns {
  /** The waiting owners, in the order of their turns. */
  readonly #lines = new Map<string, Line>();
  #bytes = 0;
  #isBusy = false;
  #isClosed = false;

  /**
   * Begins a parse when it is its owner's turn. Rejects with 42900 when too many bytes of this owner wait, and with
   * 50300 when too many of all owners wait and some are this owner's.
   */
  async take<Value>(by: WorkOrder, parse: () => Promise<Value>): Promise<Value> {
    if (this.#isClosed) throw closed();
    if (this.#isBusy) await this.#wait(by);
    this.#isBusy = true;
    try {
      return await parse();
    } finally {
      // The event loop goes round between two, because the result of a parse costs the main thread time as well.
      setImmediate(() => this.#next());
    }
  }

  /** Refuses everything that waits, and everything that comes. */
  close(): void {
    this.#isClosed = true;
    for (const { begins } of this.#lines.values()) for (const begin of begins) begin(closed());
    this.#lines.clear();
  }

  #wait(by: WorkOrder): Promise<void> {
    const line = this.#lines.get(by.owner) ?? { begins: [], bytes: 0 };
    if (by.isPatient !== true) refuseOver(by.bytes, { line, all: this.#bytes });
    this.#lines.set(by.owner, line);
    line.bytes += by.bytes;
    this.#bytes += by.bytes;
    return new Promise((resolve, reject) => {
      line.begins.push((error) => {
        line.bytes -= by.bytes;
        this.#bytes -= by.bytes;
        if (error === null) resolve();
        else reject(error);
      });
    });
  }

  #next(): void {
    this.#isBusy = false;
    const [first] = this.#lines;
    if (first === undefined) return;
    this.#isBusy = true;
    const [owner, line] = first;
    this.#lines.delete(owner);
    const begin = line.begins.shift();
    if (line.begins.length > 0) this.#lines.set(owner, line);
    begin?.(null);
  }
}

// The first piece of an owner is accepted in any case: nobody is refused for what others send.
function refuseOver(
  bytes: number,
  { line, all }: { readonly line: Line; readonly all: number },
): void {
  if (line.begins.length === 0) return;
  if (line.bytes + bytes > OWNER_BYTES_MAX) throw refusal(42900, OWNER_BYTES_MAX);
  if (all + bytes > ALL_BYTES_MAX) throw refusal(50300, ALL_BYTES_MAX);
}

function refusal(code: 42900 | 50300, bytesMax: number): StatusError {
  const whose = code === 42900 ? "of yours " : "";
  const detail = `At most ${bytesMax} bytes of large bodies ${whose}may wait for their turn: send this again in a second.`;
  return new StatusError(code, { detail, headers: { "retry-after": "1" } });
}

function closed(): StatusError {
  return new StatusError(50300, { headers: { "retry-after": "5" } });
}
