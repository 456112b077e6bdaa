import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";

import { CURSOR_RULE } from "../api/input.ts";
import type { Scope } from "../store/store.ts";
import { invalidField, refusedValue } from "./inputs.ts";

/** The lists with pages. A place in one is not valid in another: they are ordered by different times, or by none. */
export type ListName =
  | "ready"
  | "tasks"
  | "search"
  | "attempts"
  | "webhooks"
  | "queued"
  | "running"
  | "audit";

/** The last row of a page: a time and a row number. */
export interface ListPlace {
  readonly timeMs: number;
  readonly seq: number;
}

/** A list as one account sees it; for the operator (null) the list of all. */
export interface ListView {
  readonly list: ListName;
  readonly scope: Scope;
}

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const PLACE_BYTES = 16;
const TAG_BYTES = 16;

/** Mints the key that seals cursors, as text. */
export function newCursorKey(): string {
  return randomBytes(KEY_BYTES).toString("base64url");
}

export type ListCursors = ReturnType<typeof listCursors>;

/**
 * Places in lists as clients know them. Rows are numbered over all accounts, so a readable position would reveal the
 * activity of other accounts: it is encrypted. It is also signed, together with its list and its account, so clients
 * can neither forge a cursor nor use another account's. Every daemon that has the key opens the cursors of others.
 */
export function listCursors(keyText: string) {
  const key = Buffer.from(keyText, "base64url");
  return {
    /** Opaque, safe in a URL, always of one length, and equal for equal positions, so that pages can be compared. */
    seal({ timeMs, seq }: ListPlace, view: ListView): string {
      const place = Buffer.alloc(PLACE_BYTES);
      place.writeDoubleBE(timeMs, 0);
      place.writeDoubleBE(seq, 8);
      const aad = viewBytes(view);
      // Made of all that is sealed: two cursors with one nonce are one cursor.
      const mark = createHmac("sha256", key).update(aad).update(place).digest();
      const nonce = mark.subarray(0, NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
      cipher.setAAD(aad);
      const sealed = [cipher.update(place), cipher.final(), cipher.getAuthTag()];
      return Buffer.concat([nonce, ...sealed]).toString("base64url");
    },

    /** Null for anything that was not sealed for this view. */
    open(cursor: string, view: ListView): ListPlace | null {
      const bytes = Buffer.from(cursor, "base64url");
      if (bytes.length !== NONCE_BYTES + PLACE_BYTES + TAG_BYTES) return null;
      // Base64 has several texts for the same bytes; only one of them was given out.
      if (bytes.toString("base64url") !== cursor) return null;
      const nonce = bytes.subarray(0, NONCE_BYTES);
      const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(viewBytes(view));
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      const place = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
      try {
        decipher.final();
      } catch {
        // A cursor with a wrong tag was sealed for another view or with another key, or is forged.
        return null;
      }
      return { timeMs: place.readDoubleBE(0), seq: place.readDoubleBE(8) };
    },
  };
}

function viewBytes({ list, scope }: ListView): Buffer {
  return Buffer.from(`${list} ${scope ?? "all"}`);
}

/**
 * The position of a `cursor`; null without one. Throws 40000 for a cursor of another view, and 40501 if it is a field
 * of a body.
 */
export function openCursor(
  cursor: string | null,
  { cursors, isField = false, ...view }: ListView & { cursors: ListCursors; isField?: boolean },
): ListPlace | null {
  const place = cursor === null ? null : cursors.open(cursor, view);
  if (cursor === null || place !== null) return place;
  if (isField) throw invalidField("cursor", `It must be ${CURSOR_RULE.takes}.`);
  throw refusedValue("cursor", CURSOR_RULE);
}
