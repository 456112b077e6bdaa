/**
 * What a task takes beside its texts: its rows and what indexes hold of them. Measured in files of 50,000: 211 bytes for
 * one that is queued, 303 when it is finished, 537 with a tag and a webhook that was delivered. So nobody's file is larger
 * than what is counted, but for what large tasks leave free in their last pages.
 */
export const TASK_OVERHEAD_BYTES = 512;

/** How large the texts of a task are, of `tasks AS t` joined with its input `AS i` and its result `AS r`. */
export const TASK_TEXT_BYTES = `
  octet_length(t.data_text) + coalesce(octet_length(i.input_text), 0)
  + coalesce(octet_length(r.result_text), 0) + coalesce(octet_length(r.error_text), 0)`;

/** The same of texts that are about to be written: what `octet_length` will say. */
export function textBytes(...texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
}
