/** The form of keys and tokens, which needs nothing of Node. */

/** The beginning of every API key; listings show it with the last four characters. */
export const KEY_PREFIX = "pbd_live_";

/** The beginning of every worker's token. */
export const WORKER_TOKEN_PREFIX = "pbd_work_";

const SECRET = /^[0-9A-Za-z]{40}$/;

/** True when the text has the prefix and the length of a key or a token; its checksum is not looked at. */
export function hasKeyForm(text: string, prefix: string): boolean {
  return text.startsWith(prefix) && SECRET.test(text.slice(prefix.length));
}
