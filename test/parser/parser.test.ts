import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Worker } from "node:worker_threads";

import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import { StatusError } from "../../src/domain/status.ts";
import { BODY_PARSES } from "../../src/http/long-bodies.ts";
import { newParser } from "../../src/parser/parser.ts";
import { RESULT_PARSES } from "../../src/run/service-result.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

/** The parser with its real thread. */

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const BY = { owner: "account 1", bytes: 1 };
const LEASE = `"id":"01890a5d-ac96-774b-bcce-b302099a8057","lease_id":"x"`;

function startParser(t: TestContext) {
  const clock = createFakeClock({ now: NOW });
  const parser = newParser(clock);
  t.after(() => parser.close());
  return { clock, ...parser };
}

function posted(body: string) {
  const allowed = parseAllowList([
    "127.0.0.1:9000",
    "receiver.lan",
    "10.0.0.0/8",
    "[fd00::/8]:443",
  ]);
  assert(allowed.kind === "allow-list");
  return {
    bytes: Buffer.from(body),
    ids: ["01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"],
    rules: {
      types: new Set(["echo", "other"]),
      marketplaces: new Set(["DE"]),
      urlPolicy: { allow: allowed.list, ownNames: ["me"], ownAddresses: ["192.0.2.1"] },
    },
    now: 0,
    tasksMax: 2,
  };
}

async function settled(work: () => unknown): Promise<unknown> {
  try {
    return { value: await work() };
  } catch (error) {
    assert(error instanceof StatusError);
    const { code, message, details, headers } = error;
    return { code, message, details, headers };
  }
}

test("the thread and the main thread parse a body alike, refusals too", async (t) => {
  const { bodies, results } = startParser(t);
  const tasks = [
    `{"type":"echo","input":{"n":1.0,"big":12345678901234567890},"priority":3.0}`,
    `[{"type":"echo","postback_url":"http://127.0.0.1:9000/$id"},{"type":"echo","x":1e9}]`,
    `[{"type":"other","pingback_url":"https://10.1.2.3/?id=$id"},{"type":"echo","tag":1}]`,
    `{"type":"echo","postback_url":"https://[fd00::1]/","input":"\\ud800"}`,
    `{"type":"echo","postback_url":"http://192.0.2.1/"}`,
    ...["[]", "[1]", "[{},{},{}]", "1.0", "{", "[".repeat(67), "\u00ff"],
  ];
  for (const body of tasks) {
    const expected = await settled(() => BODY_PARSES.postedTasks(posted(body)));
    assert.deepEqual(
      await settled(() => bodies.run("postedTasks", posted(body), BY)),
      expected,
      body,
    );
  }
  const listed = [
    `{"tasks":[{${LEASE},"result":{"a":1.0}},{${LEASE},"message":"No."},null,{"id":1}]}`,
    `{"tasks":[{${LEASE},"result":${"[".repeat(80)}${"]".repeat(80)},"detail":[1e9]}]}`,
    `{"leases":[{${LEASE},"progress":{"progress":0.5}},{${LEASE},"x":1}],"progress":null}`,
    ...[`{"tasks":[],"leases":[]}`, `{"tasks":1,"a/b":2}`, "[]", "nonsense"],
  ];
  for (const text of listed) {
    for (const name of ["completions", "failures", "beats", "releases"] as const) {
      const args = { bytes: Buffer.from(text), resultBytesMax: 100 };
      const expected = await settled(() => BODY_PARSES[name](args));
      assert.deepEqual(
        await settled(() => bodies.run(name, args, BY)),
        expected,
        `${name} ${text}`,
      );
    }
  }
  for (const text of ["{}", "[1.0]", "text\n", '"a"', "", "[".repeat(65) + "]".repeat(65)]) {
    const args = { body: Buffer.from(text), bytesMax: 20 };
    const expected = RESULT_PARSES.serviceBody(args);
    assert.deepEqual(await results.run("serviceBody", args, BY), expected, text);
  }
});

test("a lost thread fails its parses, and the next parse starts another thread", async (t) => {
  const { results } = startParser(t);
  const args = { body: Buffer.from("[1.0]"), bytesMax: 20 };
  const done = { result: { kind: "result", resultText: "[1.0]" }, isText: false };
  assert.deepEqual(await results.run("serviceBody", args, BY), done);
  const post = t.mock.method(Worker.prototype, "postMessage", function (this: Worker) {
    void this.terminate();
  });
  await assert.rejects(results.run("serviceBody", args, BY), /the parser has ended/);
  post.mock.restore();
  assert.deepEqual(await results.run("serviceBody", args, BY), done);
});

test("the first long body starts the thread, and ten idle seconds end it", async (t) => {
  const starts = t.mock.method(Worker.prototype, "postMessage");
  const ends = t.mock.method(Worker.prototype, "terminate");
  const { clock, results } = startParser(t);
  const threads = () => new Set(starts.mock.calls.map((call) => call.this)).size;
  const parse = () => results.run("serviceBody", { body: Buffer.from("1"), bytesMax: 20 }, BY);
  await parse();
  clock.advance(9999);
  await parse();
  clock.advance(9999);
  assert.deepEqual([threads(), ends.mock.callCount()], [1, 0]);
  clock.advance(1);
  assert.deepEqual([threads(), ends.mock.callCount()], [1, 1]);
  await parse();
  assert.equal(threads(), 2);
});

test("a close refuses current and later parses with 50300", async (t) => {
  const { bodies, close } = startParser(t);
  const underWay = settled(() => bodies.run("postedTasks", posted("{}"), BY));
  const waiting = settled(() => bodies.run("postedTasks", posted("{}"), BY));
  await close();
  const later = settled(() => bodies.run("postedTasks", posted("{}"), BY));
  for (const each of await Promise.all([underWay, waiting, later])) {
    assert.deepEqual(each, {
      ...{ code: 50300, message: "Service Unavailable." },
      ...{ details: [], headers: { "retry-after": "5" } },
    });
  }
});
