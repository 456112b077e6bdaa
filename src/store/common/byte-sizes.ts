/** The bytes that an account is charged for, beside the texts. Measured in SQLite; both stores count the same. */

/**
 * The size of a task beside its texts: its rows and their index entries. Measured in files of 50,000 tasks: 211 bytes
 * for one that is queued, 303 when it is finished, 537 with a tag and a delivered webhook. So no account takes up more
 * of the file than is counted, except for the free space that large tasks leave in their last pages.
 */
export const TASK_OVERHEAD_BYTES = 512;

/** The most bytes of a task's texts that are read at once: so many take a third of a millisecond to the socket. */
export const READ_BYTES_MAX = 64 * 1024;

/** The size of texts that are about to be written: what `octet_length` will return. */
export function textBytes(...texts: readonly (string | null)[]): number {
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
}

/** The size of an ended attempt beside its texts. Measured as above: 150 bytes with a host of 17 letters. */
export const ATTEMPT_OVERHEAD_BYTES = 192;

/** The size of a kept answer beside its text. Measured as above: 190 bytes with a key of 36 letters, 683 with 255. */
export const ANSWER_OVERHEAD_BYTES = 512;
