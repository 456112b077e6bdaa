/**
 * The size of a task beside its texts: its rows and their index entries. Measured in files of 50,000 tasks: 211 bytes
 * for one that is queued, 303 when it is finished, 537 with a tag and a delivered webhook. So no account takes up more
 * of the file than is counted, except for the free space that large tasks leave in their last pages.
 */
export const TASK_OVERHEAD_BYTES = 512;

/** The size of a task's texts, for `tasks AS t` joined with its input `AS i` and its result `AS r`. */
export const TASK_TEXT_BYTES = `
  octet_length(t.data_text) + coalesce(octet_length(i.input_text), 0)
  + coalesce(octet_length(r.result_text), 0) + coalesce(octet_length(r.error_text), 0)`;

/** The same for texts that are about to be written: what `octet_length` will return. */
export function textBytes(...texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
}
