import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { openRaw } from "../helpers/raw-http.ts";
import { ask, askOn, posting, TASK_POST, taskGet } from "./answer.ts";

const TWO_TYPES = '[types.echo]\nrunner = "echo"\n[types.other]\nrunner = "echo"\n';
const MARKETPLACE = '[[marketplaces]]\ncode = "amazon_de"\nname = "Amazon"\n';

/** The text of the one task of an envelope, from its `data` on. */
async function inputText(daemon: TestDaemon, input: string): Promise<string> {
  const posted = await daemon.post(`{"input":${input}}`);
  await daemon.daemon.idle();
  const got = await daemon.call(taskGet(posted.tasks[0]?.id ?? "", "?collect=false"));
  const match = /"data":\{"input":(.*)\},"result":(.*),"error":null\}\]\}$/s.exec(await got.text());
  assert.equal(match?.[1], match?.[2], "the result of echo is not its input");
  return match?.[1] ?? "";
}

clusterTest("an input and a result come back character for character", async (t) => {
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

test("of two members with one name the last one counts, at every level", async (t) => {
  const daemon = await startTestDaemon(t);
  const [task] = (await daemon.post('{"tag":"a","tag":"b","input":{"x":1,"x":2.0}}')).tasks;
  assert.deepEqual(task?.data, { tag: "b", input: { x: 2 } });
  const [mended] = (await daemon.post('{"priority":"high","priority":1}')).tasks;
  assert.equal(mended?.status_code, 20100);
  const [spoilt] = (await daemon.post('{"priority":1,"priority":"high"}')).tasks;
  assert.equal(spoilt?.status_code, 40501);
});

test("names that objects are born with are unknown fields like any other", async (t) => {
  const daemon = await startTestDaemon(t);
  const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "prototype"];
  const posted = await daemon.post(`[${names.map((name) => `{"${name}":{"tag":"x"}}`).join(",")}]`);
  for (const [i, name] of names.entries()) {
    const task = posted.tasks[i] ?? assert.fail();
    assert.equal(task.status_code, 40506);
    assert.equal(task.status_message, `Unknown Field: '${name}'.`);
    assert.deepEqual(await daemon.get(task.id), task);
    assert.ok(Object.hasOwn(task.data, name));
  }
  assert.equal(Object.hasOwn(Object.prototype, "tag"), false);
});

test("unknown fields and bad types are shown and kept without control characters", async (t) => {
  const daemon = await startTestDaemon(t);
  const names = ["colour", "", "TAG", " tag", "a'b", "$&", "\u0000", "\u202e", "𝒻", "x".repeat(64)];
  const posted = await daemon.post(names.map((name) => ({ [name]: 1 })));
  for (const [i, name] of names.entries()) {
    const task = posted.tasks[i] ?? assert.fail();
    assert.equal(task.status_message, `Unknown Field: '${name.replace("\0", "\ufffd")}'.`);
    assert.deepEqual(await daemon.get(task.id), task);
  }
  const [bad] = (await daemon.post({ type: "a\0b\u001b[2J\u009b" })).tasks;
  assert.equal(bad?.status_code, 40501);
  assert.equal(bad.type, "a\ufffdb\ufffd[2J\ufffd");
  assert.deepEqual(await daemon.get(bad.id), bad);
  const [cut] = (await daemon.post({ type: `\0${"x".repeat(5000)}` })).tasks;
  assert.deepEqual([cut?.status_code, cut?.type], [40501, `\ufffd${"x".repeat(63)}…`]);
  assert.deepEqual(await daemon.get(cut?.id ?? ""), cut);
  const [long] = (await daemon.post({ ["x".repeat(5000)]: 1 })).tasks;
  assert.equal(long?.status_message, `Unknown Field: '${"x".repeat(64)}…'.`);
});

clusterTest(
  "a refused task shows its URLs in encoded form in the response, task_get and the list",
  async (t) => {
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
  },
);

const later = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();

test("a field of the wrong type or out of its range is 40501 and names the field", async (t) => {
  const toml = TWO_TYPES + MARKETPLACE;
  const daemon = await startTestDaemon(t, { toml });
  const text = (...more: string[]) => ["1", "true", "[]", "{}", "1.50", '["x"]', ...more];
  const url = text('""', '"x"', '"/path"', '"\\ud800"', '"http://h.example/\\u0000"', '"http://"');
  const wrong: readonly (readonly [string, readonly string[]])[] = [
    ["type", text('""', '"ECHO"', '"echo "', '"\\ud800"', '"__proto__"', '"constructor"', "null")],
    ["tag", text('"\\ud800"', '"\\udc00"', '"a\\u0000"', '"\\n"', '"\\u0085"', '"\\u007f"')],
    ["tag", [`"${"x".repeat(256)}"`, `"${"😀".repeat(256)}"`, `"${"x".repeat(100_000)}"`]],
    ["marketplace", text('""', '"AMAZON_DE"', '"amazon_de "', '"__proto__"')],
    ["priority", ["-1", "10", "1.5", "1e400", "true", '"1"', "[]", "{}", "0.1e1000000"]],
    ["priority", ["12345678901234567890", "9.0000000000000001e1", '""', "[1]", "-1e0"]],
    ["start_at", ["0", "1e15", "true", "{}", '""', '"now"', '"2030-01-31"', '"2030-01-31T09:00Z"']],
    ["start_at", ['"2030-02-30T00:00:00Z"', '"2030-01-31T24:00:00Z"', '"2030-01-31 09:00:00Z"']],
    ["start_at", ['"+012030-01-31T09:00:00Z"', '"2030-01-31T09:00:00"', '"2030-13-01T00:00:00Z"']],
    ["start_at", ['"9999-12-31T23:59:59-00:01"', '"2030-01-31T09:00:00.0000000001Z"']],
    ["start_at", ['"9999-12-31T23:59:59.999Z"', `"${later(367)}"`]],
    ["postback_url", url],
    ["pingback_url", url],
  ];
  const connection = await openRaw(t, daemon.url);
  for (const [field, values] of wrong) {
    const type = field === "type" ? "" : '"type":"echo",';
    const tasks = values.map((value) => `{${type}"${field}":${value}}`);
    const { code, body } = await askOn(connection, posting(daemon, `[${tasks.join(",")}]`));
    assert.equal(code, 20000);
    assert.equal(body.tasks_error, values.length);
    for (const [i, task] of (body.tasks ?? []).entries()) {
      assert.equal(task.status_code, 40501, `${field}: ${values[i]}`);
      assert.match(task.status_message, new RegExp(`^Invalid Field: '${field}'\\. \\S.*\\.$`));
      assert.equal(task.state, "failed");
      assert.deepEqual(await daemon.get(task.id), task);
    }
  }
  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 0);
});

test("a field at the edge of its range is taken, and null counts as absent", async (t) => {
  const daemon = await startTestDaemon(t, { toml: TWO_TYPES + MARKETPLACE });
  const fields = [
    [
      '"tag":""',
      `"tag":"${"x".repeat(255)}"`,
      `"tag":"${"😀".repeat(255)}"`,
      '"tag":"\\ue000\\u2028"',
    ],
    ['"tag":null', '"marketplace":null', '"priority":null', '"start_at":null', '"input":null'],
    ['"postback_url":null', '"pingback_url":null', '"marketplace":"amazon_de"'],
    ['"priority":0', '"priority":9', '"priority":-0', '"priority":5.0', '"priority":50e-1'],
    ['"start_at":"2020-02-29t00:00:00z"', '"start_at":"2020-01-31T09:00:00.123456789+23:59"'],
    [`"start_at":"${later(365)}"`, '"start_at":"0001-01-01T00:00:00Z"'],
  ].flat();
  const tasks = fields.map((field) => `{"type":"echo",${field}}`);
  const posted = await daemon.post(`[${tasks.join(",")}]`);
  for (const [i, task] of posted.tasks.entries()) {
    assert.equal(task.status_code, 20100, `${fields[i]}: ${task.status_message}`);
  }
  assert.equal(posted.tasks_error, 0);
});

test("a body that is neither object nor array is 40503, numbers whose digits are kept included", async (t) => {
  const daemon = await startTestDaemon(t);
  for (const body of ["12345678901234567890", "1.50", "1", "-0", '"x"', "true", "false", "null"]) {
    const { code, body: answer } = await ask(daemon.url, posting(daemon, body));
    assert.equal(code, 40503, body);
    const detail = "A task must be a JSON object.";
    assert.deepEqual(answer.errors, [{ pointer: "", detail }]);
  }
});

test("one element that is no object spoils the request, and each of them is pointed at", async (t) => {
  const daemon = await startTestDaemon(t);
  const body = '[{},1,{"input":1},"x",null,[],[{}],true,1.50,12345678901234567890]';
  const { code, body: answer } = await ask(daemon.url, posting(daemon, body));
  assert.equal(code, 40503);
  const pointers = (answer.errors ?? []).map(({ pointer }) => pointer);
  assert.deepEqual(pointers, ["/1", "/3", "/4", "/5", "/6", "/7", "/8", "/9"]);

  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 0);
});

test("takes 100 tasks, and of 101 none, whatever they are", async (t) => {
  const daemon = await startTestDaemon(t);
  const hundred = Array.from({ length: 100 }, (_, i) => ({ input: i }));
  const posted = await daemon.post(hundred);
  assert.equal(posted.tasks_count, 100);
  assert.deepEqual(
    posted.tasks.map(({ data }) => data["input"]),
    hundred.map(({ input }) => input),
  );
  await daemon.daemon.idle();
  const before = (await daemon.ready("?limit=1000")).tasks_count;

  for (const more of [{ input: 100 }, 1]) {
    const { code, body } = await ask(
      daemon.url,
      posting(daemon, JSON.stringify([...hundred, more])),
    );
    assert.equal(code, 40006);
    assert.match(body.errors?.[0]?.detail ?? "", /At most 100 .* these are 101\.$/);
  }
  await daemon.daemon.idle();
  assert.equal(before, 100);
  assert.equal((await daemon.ready("?limit=1000")).tasks_count, 100);
});

clusterTest(
  "tasks are answered in the order posted, each with an id of its own that sorts after the one before",
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

clusterTest("posts of many clients at once lose nothing and mix nothing", async (t) => {
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
