import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { ask, posting, TASK_POST, taskGet } from "./answer.ts";

/** The text of the one task of an envelope, from its `data` on. */
async function inputText(daemon: TestDaemon, input: string): Promise<string> {
  const posted = await daemon.post(`{"input":${input}}`);
  await daemon.daemon.idle();
  const got = await daemon.call(taskGet(posted.tasks[0]?.id ?? "", "?collect=false"));
  const match = /"data":\{"input":(.*)\},"result":(.*),"error":null\}\]\}$/s.exec(await got.text());
  assert.equal(match?.[1], match?.[2], "the result of echo is not its input");
  return match?.[1] ?? "";
}

clusterTest("an input and a result keep every character", async (t) => {
  const daemon = await startTestDaemon(t);
  const inputs = [
    ["12345678901234567890", "-12345678901234567890.10", "1.50", "-0", "0.0", "-0.0", "1E400"],
    ["1e+2", "1E-7", "123e65", "0.000000000000000000000000000001", "100000000000000000000000"],
    ["5e-324", "1.7976931348623157e308", "0.1", "3.0", "10", "9007199254740993", "1e1000000"],
    ['""', '"\\ud800"', '"\\udc00\\ud800"', '"a\\u0000b"', '"\u2028\u2029"', '"\u007f\u0080"'],
    ['"\ufeff"', '"12345678901234567890"', '"1.50"', "null", "true", "[]", "{}", "[[],{}]"],
    ['{"__proto__":{"x":1},"constructor":1.0,"toString":"f"}', '{"":0,"\\ud800":1}'],
    [
      '{"rawJSON":"1"}',
      '{"b":1,"2":{"10":0,"9":1},"a":2,"1":3}',
      '[1.50,{"a":[12345678901234567890]}]',
    ],
  ].flat();
  for (const input of inputs) {
    assert.equal(await inputText(daemon, input), input);
  }
});

clusterTest("a refused task is stored as it is shown, its URLs in encoded form", async (t) => {
  const daemon = await startTestDaemon(t);
  const urls = { postback_url: "http://exa mple.com/ü", pingback_url: "ftp://bücher/\u0000$id" };
  const shown = {
    postback_url: "http://exa%20mple.com/%C3%BC",
    pingback_url: "ftp://b%C3%BCcher/%00$id",
  };
  const [posted] = (await daemon.post({ type: "echo", ...urls })).tasks;
  assert(posted !== undefined);
  assert.equal(posted.status_code, 40501);
  assert.deepEqual(posted.data, { type: "echo", ...shown });
  assert.deepEqual(await daemon.get(posted.id), posted);
  const listed = await (await daemon.call("/v1/tasks")).json();
  assert.partialDeepStrictEqual(listed, { tasks: [{ id: posted.id, data: shown }] });
});

test("an element other than an object refuses the whole post, with a pointer to each", async (t) => {
  const daemon = await startTestDaemon(t);
  const body = '[{},1,{"input":1},"x",null,[],[{}],true,1.50,12345678901234567890]';
  const { code, body: answer } = await ask(daemon.url, posting(daemon, body));
  assert.equal(code, 40503);
  const pointers = (answer.errors ?? []).map(({ pointer }) => pointer);
  assert.deepEqual(pointers, ["/1", "/3", "/4", "/5", "/6", "/7", "/8", "/9"]);

  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 0);
});

clusterTest(
  "tasks are shown in the order posted, each with a larger id than the previous one",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const rounds = await Promise.all(
      Array.from({ length: 10 }, () => daemon.post([{ tag: "a" }, { nonsense: 1 }, { tag: "b" }])),
    );
    const ids = rounds.map(({ tasks }) => tasks.map(({ id }) => id));
    assert.equal(new Set(ids.flat()).size, 30);
    for (const each of ids) assert.deepEqual(each, each.toSorted());
    for (const { tasks } of rounds) {
      assert.deepEqual(
        tasks.map(({ data }) => data["tag"]),
        ["a", undefined, "b"],
      );
    }
  },
);

clusterTest("concurrent posts of many clients store each task once", async (t) => {
  const daemon = await startTestDaemon(t);
  const posts = Array.from({ length: 60 }, (_, i) =>
    Promise.resolve(
      daemon.call(TASK_POST, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify([{ input: i, tag: `t${i}` }, { input: -i }]),
      }),
    ),
  );
  for (const response of await Promise.all(posts)) assert.equal(response.status, 200);
  await daemon.daemon.idle();
  const { tasks } = await daemon.ready("?limit=1000");

  assert.equal(tasks.length, 120);
  for (const { id, data } of tasks.filter(({ data }) => "tag" in data)) {
    assert.equal(`t${(await daemon.get(id)).result as number}`, data["tag"]);
  }
});
