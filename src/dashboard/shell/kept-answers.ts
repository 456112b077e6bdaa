// A screen reads three or four things again and again, and its reader goes back and forth between a few.
const KEPT_MAX = 16;
// A long text is not requested repeatedly.
const KEPT_LENGTH_MAX = 512 * 1024;

/** The last answers to what the page reads, by what was asked, so that one that has not changed is not sent again. */
export class KeptAnswers {
  readonly #answers = new Map<string, { readonly tag: string; readonly text: string }>();

  /** The tag of the last answer to this; null when none is kept. */
  tagOf(asked: string): string | null {
    return this.#answers.get(asked)?.tag ?? null;
  }

  /** The text of the response: the stored text if the daemon responds that it has not changed. */
  async textOf(asked: string, response: Response): Promise<string> {
    const kept = this.#answers.get(asked);
    if (response.status === 304 && kept !== undefined) return kept.text;
    const text = await response.text();
    const tag = response.headers.get("ETag");
    this.#answers.delete(asked);
    if (response.ok && tag !== null && text.length <= KEPT_LENGTH_MAX)
      this.#keep(asked, { tag, text });
    return text;
  }

  /** Forgets all: another account may be signed in. */
  forget(): void {
    this.#answers.clear();
  }

  #keep(asked: string, answer: { readonly tag: string; readonly text: string }): void {
    const [oldest] = this.#answers.keys();
    if (this.#answers.size >= KEPT_MAX && oldest !== undefined) this.#answers.delete(oldest);
    this.#answers.set(asked, answer);
  }
}
