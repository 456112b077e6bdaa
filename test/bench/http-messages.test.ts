import assert from "node:assert/strict";
import { test } from "node:test";

import { HttpMessages, headerOf, type HttpMessage } from "../../scripts/kit/http-messages.ts";

const TWO = Buffer.from(
  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello" +
    "POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nok",
);

test("messages are found however the connection cuts them", () => {
  for (let cut = 0; cut <= TWO.length; cut++) {
    const messages = new HttpMessages();
    const found: HttpMessage[] = [];
    for (const chunk of [TWO.subarray(0, cut), TWO.subarray(cut)]) {
      messages.read(chunk, (message) => found.push(message));
    }

    const bodies = found.map(({ body }) => body.toString());
    assert.deepEqual(bodies, ["hello", "ok"], `cut at ${cut}`);
  }
});

test("a message without Content-Length has no body", () => {
  const found: HttpMessage[] = [];
  new HttpMessages().read(Buffer.from("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), (it) => found.push(it));

  assert.equal(found[0]?.body.length, 0);
});

test("a chunked body is refused, not misread", () => {
  const chunked = Buffer.from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");

  assert.throws(() => new HttpMessages().read(chunked, () => undefined), /chunked/);
});

test("a header is found by its whole name in any case", () => {
  const head = "GET / HTTP/1.1\r\nX-Signature-Next: no\r\nX-SIGNATURE:  yes";

  assert.equal(headerOf(head, "x-signature"), "yes");
  assert.equal(headerOf(head, "x-sig"), null);
});
