import { join } from "node:path";
import type { TestContext } from "node:test";

/**
 * Compares what a room says with `sentences.txt` in the folder of the test: the only place that pins
 * its English. Every other test asserts codes, fields and states. `npm run sentences` writes the file
 * anew, and its diff is reviewed as text.
 *
 * @param folder of the test, `import.meta.dirname`
 * @param sentences each with what brings it about, as `limit=0`
 */
export function assertSentences(
  t: TestContext,
  folder: string,
  sentences: Iterable<readonly [cause: string, sentence: string]>,
): void {
  const text = Array.from(sentences, ([cause, sentence]) => `${cause}\n    ${sentence}\n`).join("");
  t.assert.fileSnapshot(text, join(folder, "sentences.txt"), { serializers: [String] });
}
