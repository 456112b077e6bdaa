import assert from "node:assert/strict";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { startTestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { exchange, headerOf, type RawResponse } from "../helpers/raw-http.ts";
import { bearer } from "./answer.ts";
import { byOperator } from "./search-requests.ts";

const LIST = "/v1/tasks/search?limit=100";
// As the page says that it has no answer yet.
const NOTHING = 'If-None-Match: ""';
const GZIP = "Accept-Encoding: gzip, deflate, br";

async function startListed(t: Parameters<typeof startTestDaemon>[0]) {
  const daemon = await startTestDaemon(t);
  const task = { type: "echo", start_at: farStart() };
  await daemon.post(Array.from({ length: 50 }, () => task));
  const page = await byOperator(daemon);
  const ask = (headers: readonly string[]): Promise<RawResponse> =>
    exchange(daemon.url, { target: LIST, headers });
  return { daemon, page, ask };
}

test("the page gets what it reads compressed, and the same is not sent to it again", async (t) => {
  const { daemon, page, ask } = await startListed(t);

  const plain = await ask([...page, NOTHING]);
  const small = await ask([...page, GZIP, NOTHING]);
  const tag = headerOf(small, "etag") ?? "";
  const same = await ask([...page, GZIP, `If-None-Match: ${tag}`]);

  assert.equal(headerOf(plain, "content-encoding"), null);
  assert.equal(headerOf(small, "content-encoding"), "gzip");
  assert.equal(headerOf(small, "vary"), "accept-encoding");
  assert.equal(headerOf(small, "cache-control"), "no-store");
  assert.deepEqual(gunzipSync(small.body), plain.body);
  assert.ok(small.body.length < plain.body.length / 4, `${small.body.length}`);
  assert.equal(headerOf(plain, "etag"), tag);
  assert.equal(same.status, 304);
  assert.equal(same.body.length, 0);

  await daemon.post([{ type: "echo", start_at: farStart() }]);
  const changed = await ask([...page, GZIP, `If-None-Match: ${tag}`]);
  assert.equal(changed.status, 200);
  assert.notEqual(headerOf(changed, "etag"), tag);
});

for (const [who, line] of [
  ["does not take gzip", "Accept-Encoding: deflate"],
  ["refuses gzip", "Accept-Encoding: gzip;q=0, *;q=0"],
  ["takes nothing but the answer as it is", "Accept-Encoding: identity"],
] as const) {
  test(`a browser that ${who} gets the answer as it is`, async (t) => {
    const { page, ask } = await startListed(t);

    const answer = await ask([...page, line]);

    assert.equal(headerOf(answer, "content-encoding"), null);
    assert.equal(JSON.parse(answer.body.toString()).tasks.length, 50);
  });
}

test("who does not say what he has gets no tag", async (t) => {
  const { page, ask } = await startListed(t);

  assert.equal(headerOf(await ask([...page, GZIP]), "etag"), null);
});

test("a client with a key gets its answers as they are, whatever it accepts", async (t) => {
  const { daemon, ask } = await startListed(t);

  const answer = await ask([bearer(daemon), GZIP, NOTHING]);

  assert.equal(headerOf(answer, "content-encoding"), null);
  assert.equal(headerOf(answer, "etag"), null);
});
