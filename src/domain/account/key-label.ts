import { plainText } from "../rule.ts";

/** A label is at most this many code points. */
export const KEY_LABEL_MAX = 100;

/** The label of a key. */
export const KEY_LABEL = plainText(KEY_LABEL_MAX);
