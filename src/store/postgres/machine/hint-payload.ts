import type { Changes } from "../../change.ts";

/** Texts that nodes notify one another with: at most this many bytes each, of 8,000 that the server takes. */
export const PAYLOAD_BYTES_MAX = 7900;
// A node that did more in one moment leaves the rest to be looked for.
const PAYLOADS_MAX = 8;

type Item =
  | readonly ["a", number]
  | readonly ["t", string]
  | readonly ["l", number, string]
  | readonly ["e", string];

/** The news to be told, each item once. */
export class GatheredHint {
  /** By their JSON text: what matters first comes first. */
  readonly #items = new Set<string>();
  #bytes = 0;

  get isEmpty(): boolean {
    return this.#items.size === 0;
  }

  add({ types = [], lanes = [], ended = [], accounts = [] }: Partial<Changes>): void {
    for (const type of types) this.#add(["t", type]);
    for (const { accountId, host } of lanes) this.#add(["l", accountId, host]);
    for (const id of ended) this.#add(["e", id]);
    for (const account of accounts) this.#add(["a", account]);
  }

  /** Answers the payloads that tell all of it, and begins anew. */
  take(from: string): readonly string[] {
    const payloads: string[] = [];
    let items: string[] = [];
    let bytes = 0;
    const end = (): void => {
      if (items.length > 0) payloads.push(toPayload(from, items));
      items = [];
      bytes = 0;
    };
    const itemBytesMax = PAYLOAD_BYTES_MAX - toPayload(from, []).length;
    for (const item of this.#items) {
      const more = Buffer.byteLength(item) + 1;
      if (bytes + more > itemBytesMax) end();
      items.push(item);
      bytes += more;
    }
    end();
    this.#items.clear();
    this.#bytes = 0;
    return payloads.slice(0, PAYLOADS_MAX);
  }

  /** A payload that tells nobody anything, but that this node hears. */
  echo(from: string): readonly string[] {
    return [toPayload(from, [])];
  }

  #add(item: Item): void {
    const text = JSON.stringify(item);
    // One item for which no payload has room is left to be looked for too.
    const isTooMuch = this.#bytes > PAYLOADS_MAX * PAYLOAD_BYTES_MAX;
    if (isTooMuch || Buffer.byteLength(text) > PAYLOAD_BYTES_MAX / 2 || this.#items.has(text))
      return;
    this.#items.add(text);
    this.#bytes += text.length;
  }
}

function toPayload(from: string, items: readonly string[]): string {
  return `{"from":"${from}","items":[${items.join(",")}]}`;
}

/** Reads a payload; null for one's own, and for what is none: anybody who may connect can notify. */
export function readHint(payload: string, self: string): Changes | null {
  let hint: { from?: unknown; items?: unknown } | null;
  try {
    hint = JSON.parse(payload) as typeof hint;
  } catch {
    return null;
  }
  if (hint === null || hint.from === self || !Array.isArray(hint.items)) return null;
  const items: readonly unknown[][] = hint.items.filter((item) => Array.isArray(item));
  const texts = (kind: Item[0]): string[] =>
    items.flatMap(([is, text]) => (is === kind && typeof text === "string" ? [text] : []));
  return {
    accounts: items.flatMap(([is, id]) => (is === "a" && typeof id === "number" ? [id] : [])),
    types: texts("t"),
    lanes: items.flatMap(([is, accountId, host]) =>
      is === "l" && typeof accountId === "number" && typeof host === "string"
        ? [{ accountId, host }]
        : [],
    ),
    ended: texts("e"),
  };
}
