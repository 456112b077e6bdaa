/**
 * The size of a task beside its texts: its rows and their index entries. Measured in files of 50,000 tasks: 211 bytes
 * for one that is queued, 303 when it is finished, 537 with a tag and a delivered webhook. So no account takes up more
 * of the file than is counted, except for the free space that large tasks leave in their last pages.
 */
export const TASK_OVERHEAD_BYTES = 512;

/** Finds the input and the result of `tasks AS t`. */
export const TEXT_JOINS = `
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq`;

/** The size of a task's texts, for `tasks AS t` joined with its input `AS i` and its result `AS r`. */
export const TASK_TEXT_BYTES = `
  octet_length(t.data_text) + coalesce(octet_length(i.input_text), 0)
  + coalesce(octet_length(r.result_text), 0) + coalesce(octet_length(r.error_text), 0)`;

/** The same for texts that are about to be written: what `octet_length` will return. */
export function textBytes(...texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
}

/** The size of an ended attempt beside its texts. Measured as above: 150 bytes with a host of 17 letters. */
export const ATTEMPT_OVERHEAD_BYTES = 192;

/** The size of the ended attempts of `tasks AS t`: an excerpt alone has up to 4 KiB. */
export const ATTEMPT_BYTES = `(
    SELECT coalesce(sum(
      ${ATTEMPT_OVERHEAD_BYTES} + coalesce(octet_length(error), 0) + coalesce(octet_length(response_excerpt), 0)
      + coalesce(octet_length(refusal_text), 0) + coalesce(octet_length(retry_after), 0)
    ), 0)
    FROM attempts WHERE task_seq = t.seq AND ended_at IS NOT NULL
  )`;

/** The size of a kept answer beside its text. Measured as above: 190 bytes with a key of 36 letters, 683 with 255. */
export const ANSWER_OVERHEAD_BYTES = 512;
