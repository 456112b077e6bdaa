import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask, bearer, JSON_TYPE, posting, TASK_POST, type Answer } from "./answer.ts";
import { NOW } from "./at-nine.ts";
import { askAsWorker, createTestWorker, WORKER_OPERATIONS } from "./worker-requests.ts";

/** Bodies over 64 KiB, which the parser thread parses. */

const SHORT_BYTES_MAX = 64 * 1024;
const LEASE = `"id":"01890a5d-ac96-774b-bcce-b302099a8057","lease_id":"x"`;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}/g;

/** A response without its new ids. */
function told({ response }: Answer): unknown {
  // The place of an early end differs.
  const text = response.body.toString().replace(/ \(line \d+, column \d+\)/u, "");
  return [response.status, text.replaceAll(UUID, "ID")];
}

/** The same JSON with more than 64 KiB. */
function drawnOut(body: string): string {
  return body + " ".repeat(SHORT_BYTES_MAX);
}

test("a long body and an equal short body get the same response", async (t) => {
  const toml = `[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n[limits]\ntasks_per_post = 2\n`;
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { toml, clock });
  const token = await createTestWorker(daemon.file, ["print"]);
  const called = { url: daemon.url, token };
  const start = `"start_at":"2031-01-01T00:00:00Z"`;
  const tasks = [
    `{"type":"echo",${start},"input":{"n":1.0,"\\n":[12345678901234567890,-0]}}`,
    `[{"type":"echo",${start},"tag":"t"},{"type":"echo","x":1.0}]`,
    `{"type":"echo","postback_url":"http://127.0.0.1/","pingback_url":"https://example.com/$id"}`,
    ...["[]", "[1,{}]", "[{},{},{}]", "1.0", "{", "[".repeat(67), '{"type":"echo"}}'],
  ];
  for (const body of tasks) {
    const short = await ask(daemon.url, posting(daemon, body));
    const long = await ask(daemon.url, posting(daemon, drawnOut(body)));
    assert.deepEqual(told(long), told(short), body);
  }
  const lists = [
    `{"tasks":[{${LEASE},"result":{"a":1.0}},{${LEASE},"message":"No."},null,{"id":1}]}`,
    `{"leases":[{${LEASE},"progress":{"progress":0.5}},{${LEASE},"x":1}],"progress":null}`,
    ...[`{"tasks":[],"leases":[]}`, `{"tasks":1,"a/b":2}`, "[]", "nonsense", "[".repeat(1001)],
  ];
  for (const operation of WORKER_OPERATIONS.filter((each) => each !== "claim")) {
    for (const body of lists) {
      const short = await askAsWorker(called, operation, body);
      const long = await askAsWorker(called, operation, drawnOut(body));
      assert.deepEqual(told(long), told(short), `${operation} ${body}`);
    }
  }
});

test("a long body with an Idempotency-Key is replayed, and another body is 42200", async (t) => {
  const daemon = await startTestDaemon(t);
  const headers = [bearer(daemon), JSON_TYPE, "Idempotency-Key: k"];
  const post = (body: string) =>
    ask(daemon.url, { method: "POST", target: TASK_POST, headers, body: drawnOut(body) });
  const first = await post(`{"input":1.0}`);
  const again = await post(`{"input":1.0}`);
  assert.equal(again.response.body.toString(), first.response.body.toString());
  assert.equal((await post(`{"input":1}`)).code, 42200);
  assert.equal((await post(`[]`)).code, 42200);
  assert.equal((await post(`[`)).code, 40503);
});

test("a body over 64 KiB is parsed by another thread, a body of 64 KiB is not", async (t) => {
  const daemon = await startTestDaemon(t);
  const parse = t.mock.method(JSON, "parse");
  const isParsedHere = async (bytes: number): Promise<boolean> => {
    const input = JSON.stringify("x".repeat(bytes - 12));
    const body = `{"input":${input}}`;
    assert.equal(body.length, bytes);
    parse.mock.resetCalls();
    assert.equal((await ask(daemon.url, posting(daemon, body))).code, 20000);
    return parse.mock.calls.some((call) => call.arguments[0] === input);
  };
  assert.equal(await isParsedHere(SHORT_BYTES_MAX), true);
  assert.equal(await isParsedHere(SHORT_BYTES_MAX + 1), false);
});
