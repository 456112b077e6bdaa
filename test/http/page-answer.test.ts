import assert from "node:assert/strict";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { startTestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { exchange, headerOf, type RawResponse } from "../helpers/raw-http.ts";
import { bearer } from "./answer.ts";
import { byOperator } from "./search-requests.ts";

// As the dashboard requests a response that it does not have yet.
const NOTHING = 'If-None-Match: ""';
const GZIP = "Accept-Encoding: gzip, deflate, br";

test("the dashboard gets compressed responses with a tag, and 304 for the same tag", async (t) => {
  const daemon = await startTestDaemon(t);
  const task = { type: "echo", start_at: farStart() };
  await daemon.post(Array.from({ length: 50 }, () => task));
  const page = await byOperator(daemon);
  const list = (...headers: readonly string[]): Promise<RawResponse> =>
    exchange(daemon.url, { target: "/v1/tasks/search?limit=100", headers });

  const plain = await list(...page, NOTHING);
  const small = await list(...page, GZIP, NOTHING);
  const tag = headerOf(small, "etag") ?? "";
  const same = await list(...page, GZIP, `If-None-Match: ${tag}`);

  assert.equal(headerOf(plain, "content-encoding"), null);
  assert.equal(headerOf(small, "content-encoding"), "gzip");
  assert.equal(headerOf(small, "vary"), "accept-encoding");
  assert.equal(headerOf(small, "cache-control"), "no-store");
  assert.deepEqual(gunzipSync(small.body), plain.body);
  assert.ok(small.body.length < plain.body.length / 4, `${small.body.length}`);
  assert.equal(headerOf(plain, "etag"), tag);
  assert.deepEqual([same.status, same.body.length], [304, 0]);

  for (const accepted of ["deflate", "gzip;q=0, *;q=0", "identity"]) {
    const answer = await list(...page, `Accept-Encoding: ${accepted}`);
    assert.equal(headerOf(answer, "content-encoding"), null, accepted);
    assert.equal(JSON.parse(answer.body.toString()).tasks.length, 50);
  }
  assert.equal(headerOf(await list(...page, GZIP), "etag"), null);
  const byKey = await list(bearer(daemon), GZIP, NOTHING);
  assert.deepEqual([headerOf(byKey, "content-encoding"), headerOf(byKey, "etag")], [null, null]);

  await daemon.post([task]);
  const changed = await list(...page, GZIP, `If-None-Match: ${tag}`);
  assert.equal(changed.status, 200);
  assert.notEqual(headerOf(changed, "etag"), tag);
});
