import assert from "node:assert/strict";
import { test } from "node:test";

import { PostgresMessages } from "../../scripts/kit/postgres-messages.ts";

/** A message of this kind; the first of a client has none. */
function message(kind: string, body = ""): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + body.length);
  return Buffer.concat([Buffer.from(kind), length, Buffer.from(body)]);
}

const TO_SERVER = [message("", "user"), message("P", "SELECT 1"), message("S"), message("X")];

test("finds where the messages of a client end, however the bytes are cut", () => {
  const bytes = Buffer.concat(TO_SERVER);
  const wanted = TO_SERVER.map((_, i) => Buffer.concat(TO_SERVER.slice(0, i + 1)).length);

  for (let size = 1; size <= bytes.length; size++) {
    const messages = new PostgresMessages("to server");
    const found: number[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      found.push(...messages.ends(bytes.subarray(at, at + size)).map((end) => at + end));
    }
    assert.deepEqual(found, wanted, `in pieces of ${size}`);
  }
});

test("every message of a server has a kind", () => {
  const messages = new PostgresMessages("to client");
  assert.deepEqual(messages.ends(Buffer.concat([message("R", "ok"), message("Z", "I")])), [7, 13]);
});
