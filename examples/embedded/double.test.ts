import assert from "node:assert/strict";
import { test } from "node:test";

import { createDaemon } from "postbackd";

test("a task doubles its input", async (t) => {
  const daemon = await createDaemon({ types: { double: ({ input }) => 2 * Number(input) } });
  t.after(() => daemon.stop());
  const { key } = await daemon.account();
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const post = { method: "POST", headers, body: '[{"type":"double","input":21}]' };
  const { tasks } = await ask(`${daemon.url}/v1/tasks/task_post`, post);
  const wait = { headers: { ...headers, prefer: "wait=30" } };
  const answer = await ask(`${daemon.url}/v1/tasks/task_get/${tasks[0].id}`, wait);
  assert.equal(answer.tasks[0].result, 42);
});

async function ask(url: string, init: RequestInit) {
  const answer = await (await fetch(url, init)).json();
  return answer as { readonly tasks: readonly [{ readonly id: string; readonly result: unknown }] };
}
