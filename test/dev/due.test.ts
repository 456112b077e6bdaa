import assert from "node:assert/strict";
import { test } from "node:test";

import { startReceiver } from "../helpers/receiver.ts";
import { startDev, type DevDaemon } from "./dev-client.ts";

/** What falls due next, each with the time until then, but erasures. */
async function due({ ask }: DevDaemon): Promise<readonly (readonly unknown[])[]> {
  const { now = "", next = [] } = await ask("GET /dev/clock");
  return next
    .filter(({ what }) => what !== "erasure")
    .map(({ at, what, task_id: id, kind }) => [Date.parse(at) - Date.parse(now), what, id, kind]);
}

test("a run that a rule holds or delays shows when it ends and times out, until it has ended", async (t) => {
  const daemon = await startDev(t);
  await daemon.ask("PUT /dev/results", [
    { tag: "late", result: 1, after_ms: 5000 },
    { hold: true },
  ]);
  const [late = "", held = ""] = await daemon.post({ tag: "late" }, { tag: "held" });
  await daemon.ask("POST /dev/clock/advance", { by: "1s" });

  assert.deepEqual(await due(daemon), [
    [4000, "run_end", late, null],
    [599_000, "run_timeout", late, null],
    [599_000, "run_timeout", held, null],
  ]);
  await daemon.ask("POST /dev/clock/advance", { by: "4s" });
  await daemon.ask(`POST /dev/tasks/${held}/finish`, { result: 2 });
  assert.deepEqual(await due(daemon), []);
});

test("an inbox that is to answer later shows that, and when its sender gives up", async (t) => {
  const daemon = await startDev(t);
  await daemon.ask("PUT /dev/inbox/shop/answers", {
    answers: [{ status: 200, after_ms: 3000 }],
    then: "hang",
  });
  const gone = new AbortController();
  t.after(() => gone.abort());
  const url = `${daemon.ready.url}/inbox/shop`;
  const [id = ""] = await daemon.post({ postback_url: url });
  await daemon.ask("GET /dev/inbox/shop?wait=60");
  await daemon.ask("POST /dev/clock/advance", { by: "1s" });

  assert.deepEqual(await due(daemon), [
    [2000, "inbox_answer", id, "postback"],
    [9000, "attempt_timeout", id, "postback"],
  ]);
  await daemon.ask("POST /dev/clock/advance", { by: "2s" });
  assert.deepEqual(await due(daemon), []);

  await daemon.ask("PUT /dev/inbox/shop/answers", { then: { status: 200, after_ms: 500 } });
  const answered = fetch(url, { signal: gone.signal });
  await daemon.ask("GET /dev/inbox/shop?count=2&wait=60");
  assert.deepEqual(await due(daemon), [[500, "inbox_answer", null, null]]);
  await daemon.ask("POST /dev/clock/advance", { by: "500ms" });
  assert.equal((await answered).status, 200);
});

test("an attempt that a fault delays is shown when it goes out", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startDev(t);
  await daemon.ask("PUT /dev/faults", { delay_ms: 2000 });
  const [id = ""] = await daemon.post({ postback_url: receiver.url("/a") });
  await daemon.ask("POST /dev/clock/advance", { by: "500ms" });

  assert.deepEqual(await due(daemon), [[1500, "attempt", id, "postback"]]);
  await daemon.ask("POST /dev/clock/advance", { by: "1500ms" });
  assert.deepEqual(await due(daemon), []);
  assert.equal(receiver.requests.length, 1);
});
