import { ATTEMPT_OVERHEAD_BYTES } from "../common/byte-sizes.ts";

/** Finds the input and the result of `tasks AS t`. */
export const TEXT_JOINS = `
  LEFT JOIN task_inputs AS i ON i.task_seq = t.seq
  LEFT JOIN task_results AS r ON r.task_seq = t.seq`;

/** The size of a task's texts, for `tasks AS t` joined with its input `AS i` and its result `AS r`. */
export const TASK_TEXT_BYTES = `
  octet_length(t.data_text) + coalesce(octet_length(i.input_text), 0)
  + coalesce(octet_length(r.result_text), 0) + coalesce(octet_length(r.error_text), 0)`;

/** The size of the ended attempts of `tasks AS t`: an excerpt alone has up to 4 KiB. */
export const ATTEMPT_BYTES = `(
    SELECT coalesce(sum(
      ${ATTEMPT_OVERHEAD_BYTES} + coalesce(octet_length(error), 0) + coalesce(octet_length(response_excerpt), 0)
      + coalesce(octet_length(refusal_text), 0) + coalesce(octet_length(retry_after), 0)
    ), 0)
    FROM attempts WHERE task_seq = t.seq AND ended_at IS NOT NULL
  )`;
