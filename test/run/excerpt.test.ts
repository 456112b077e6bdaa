import assert from "node:assert/strict";
import { test } from "node:test";

import { excerptWithout } from "../../src/run/http.ts";

const SECRET = "s3cret-".repeat(40);

test("of a long answer the first 4 KiB are shown, and no more of it is looked at than that takes", (t) => {
  const encode = t.mock.method(Buffer, "from");
  const body = Buffer.alloc(4_000_000, "x");
  encode.mock.resetCalls();

  assert.equal(excerptWithout([SECRET], body), "x".repeat(4096));
  const [text]: readonly unknown[] = encode.mock.calls[0]?.arguments ?? [];
  assert(typeof text === "string" && text.length <= 8192);
});

test("a secret that what is looked at ends within is not shown in part, however much is struck out before it", () => {
  for (let shift = 0; shift < SECRET.length; shift++) {
    const text = "x".repeat(shift) + SECRET.repeat(100);
    const shown = excerptWithout([SECRET], Buffer.from(text));
    assert.match(shown, /^x*(?:\[hidden\])*(?:\[[hiden]*)?$/, `${shift}`);
  }
});

test("a short answer is shown to its end", () => {
  assert.equal(excerptWithout([SECRET], Buffer.from(`a ${SECRET} b`)), "a [hidden] b");
});
