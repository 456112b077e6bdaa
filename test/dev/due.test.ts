import assert from "node:assert/strict";
import { test } from "node:test";

import { startReceiver } from "../helpers/receiver.ts";
import { startDev, type DevClient } from "./dev-client.ts";

/** The next due work, each with its milliseconds from now, without erasures. */
async function due({ ask }: DevClient): Promise<readonly (readonly unknown[])[]> {
  const { now = "", next = [] } = await ask("GET /dev/clock");
  return next
    .filter(({ what }) => what !== "erasure")
    .map(({ at, what, task_id: id, kind }) => [Date.parse(at) - Date.parse(now), what, id, kind]);
}

test("a run that a rule holds or delays is due at its end and its timeout", async (t) => {
  const daemon = await startDev(t);
  const { advance, ask, post } = daemon;
  await ask("PUT /dev/results", [{ tag: "late", result: 1, after_ms: 5000 }, { hold: true }]);
  const [late = "", held = ""] = await post({ tag: "late" }, { tag: "held" });
  await advance("1s");

  assert.deepEqual(await due(daemon), [
    [4000, "run_end", late, null],
    [599_000, "run_timeout", late, null],
    [599_000, "run_timeout", held, null],
  ]);
  await advance("4s");
  await ask(`POST /dev/tasks/${held}/finish`, { result: 2 });
  assert.deepEqual(await due(daemon), []);
});

test("a late response of an inbox is due, and the timeout of its attempt", async (t) => {
  const daemon = await startDev(t);
  const { advance, ask, look, post } = daemon;
  const answers = [{ status: 200, after_ms: 3000 }];
  await ask("PUT /dev/inbox/shop/answers", { answers, then: "hang" });
  const gone = new AbortController();
  t.after(() => gone.abort());
  const url = `${daemon.ready.url}/inbox/shop`;
  const [id = ""] = await post({ postback_url: url });
  await look("shop?wait=60");
  await advance("1s");

  assert.deepEqual(await due(daemon), [
    [2000, "inbox_answer", id, "postback"],
    [9000, "attempt_timeout", id, "postback"],
  ]);
  await advance("2s");
  assert.deepEqual(await due(daemon), []);

  await ask("PUT /dev/inbox/shop/answers", { then: { status: 200, after_ms: 500 } });
  const answered = fetch(url, { signal: gone.signal });
  await look("shop?count=2&wait=60");
  assert.deepEqual(await due(daemon), [[500, "inbox_answer", null, null]]);
  await advance("500ms");
  assert.equal((await answered).status, 200);
});

test("an attempt that a fault delays is due when it is sent", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startDev(t);
  const { advance, ask, post } = daemon;
  await ask("PUT /dev/faults", { delay_ms: 2000 });
  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  await advance("500ms");

  assert.deepEqual(await due(daemon), [[1500, "attempt", id, "postback"]]);
  await advance("1499ms");
  assert.equal(receiver.requests.length, 0);
  await advance("1ms");
  assert.deepEqual(await due(daemon), []);
  assert.equal(receiver.requests.length, 1);
});
