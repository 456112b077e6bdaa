import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { finished } from "node:stream/promises";
import { test } from "node:test";

import type { TaskProgress } from "../../src/domain/task/run.ts";
import {
  parseCommandOutput,
  readBounded,
  readProgress,
  readTail,
} from "../../src/run/command-output.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { completed, node, openHeldProcesses, run, sh } from "./command-run.ts";

const BYTES_MAX = 1000;

const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);

const results: readonly (readonly [rule: string, stdout: string | Buffer, resultText: string])[] = [
  ["JSON is the result, without its white space", ' {"a": [1, "b"]}\n', '{"a":[1,"b"]}'],
  [
    "keeps every digit",
    "[12345678901234567890,1.50,1e400,-0]",
    "[12345678901234567890,1.50,1e400,-0]",
  ],
  ["a number on a line is a number", "42\n", "42"],
  ["JSON at most 64 levels deep is the result", deep(64), deep(64)],
  ["text is a JSON string", "plain text", '"plain text"'],
  ["text loses one line end and no more", " two \n\n", '" two \\n"'],
  ["text loses a line end of two characters", "dos\r\n", '"dos"'],
  ["an empty line is the empty string", "\n", '""'],
  ["empty output is null", "", "null"],
  ["text that resembles JSON is text", "{'a': 1}", `"{'a': 1}"`],
  ["text with more than 64 brackets is text", `${deep(65)}!`, `"${deep(65)}!"`],
  [
    "keeps every character of text",
    "\u0000\u001b é \u{1f600} \u2028",
    '"\\u0000\\u001b é \u{1f600} \u2028"',
  ],
  ["drops a byte order mark", Buffer.from("\ufefftext"), '"text"'],
  [
    "a result of exactly the limit is accepted",
    "x".repeat(BYTES_MAX - 2),
    `"${"x".repeat(BYTES_MAX - 2)}"`,
  ],
];
for (const [rule, stdout, resultText] of results) {
  test(`stdout as result: ${rule}`, () => {
    const result = parseCommandOutput(Buffer.from(stdout), BYTES_MAX);

    assert.deepEqual(result, { kind: "result", resultText });
  });
}

for (const [rule, stdout] of [
  ["invalid UTF-8", Buffer.from([0x22, 0xff, 0x22])],
  ["JSON 65 levels deep", deep(65)],
  ["text that is too long as a JSON string", '"'.repeat(500)],
] as const) {
  test(`stdout as result: refuses ${rule}`, () => {
    assert.equal(parseCommandOutput(Buffer.from(stdout), BYTES_MAX).kind, "fault");
  });
}

test("reads exactly the limit and stops at the next byte", async () => {
  const calls: string[] = [];
  const options = {
    bytesMax: 4,
    onOverflow: () => calls.push("overflow"),
    onError: () => calls.push("error"),
  };
  const exact = new PassThrough();
  const exactOutput = readBounded(exact, options);
  const over = new PassThrough();
  const overOutput = readBounded(over, options);

  exact.end("four");
  await finished(exact);
  assert.deepEqual(calls, []);
  over.write("four");
  over.write("s");
  over.write("more");
  await finished(over).catch(() => {});

  assert.deepEqual(calls, ["overflow"]);
  assert.equal(exactOutput.bytes().toString(), "four");
  assert.equal(overOutput.bytes().toString(), "four");
});

test("a stream that fails calls onError", async () => {
  const stream = new PassThrough();
  let errors = 0;
  readBounded(stream, { bytesMax: 4, onOverflow: assert.fail, onError: () => errors++ });

  stream.destroy(new Error("EIO"));
  await finished(stream).catch(() => {});

  assert.equal(errors, 1);
});

const tails: readonly (readonly [
  rule: string,
  written: readonly (string | Buffer)[],
  text: string,
])[] = [
  ["keeps all bytes within the limit", ["12345678"], "12345678"],
  ["keeps exactly the last bytes", ["x12345678"], "12345678"],
  [
    "keeps the last bytes of many writes",
    [..."abcdefghijklmnopqrstuvwxyz0123456789!"],
    "23456789!".slice(1),
  ],
  ["leaves out the rest of a character cut in two", ["é1234567"], "1234567"],
  ["leaves out the rest of a character of four bytes", ["\u{1f600}12345"], "12345"],
  ["keeps a character that begins at the cut", ["x\u{1f600}1234"], "\u{1f600}1234"],
  ["keeps stray continuation bytes if nothing was cut", [Buffer.from([0x80, 0x41])], "\ufffdA"],
  ["leaves out at most three continuation bytes", [Buffer.alloc(9, 0x80)], "\ufffd".repeat(5)],
  ["shows invalid bytes as U+FFFD", [Buffer.from([0x41, 0xff, 0x42])], "A\ufffdB"],
  ["shows a character cut at the end as U+FFFD", [Buffer.from("é").subarray(0, 1)], "\ufffd"],
  ["is empty without writes", [], ""],
];
for (const [rule, written, text] of tails) {
  test(`the tail of a stream ${rule}`, async () => {
    const stream = new PassThrough();
    const tail = readTail(stream, 8);

    for (const chunk of written) stream.write(chunk);
    stream.end();
    await finished(stream);

    assert.equal(tail.text(), text);
  });
}

const half: TaskProgress = { progress: 0.5, note: null };
const done: TaskProgress = { progress: 1, note: "done" };
const HALF = '{"progress":0.5}';
const DONE = '{"progress": 1, "note": "done", "more": [1]}';
const LINE_BYTES_MAX = 4096;

/** A line of exactly so many bytes that reports a half. */
const lineOf = (bytes: number): string => `{"progress":0.5${" ".repeat(bytes - HALF.length)}}`;

const cases: readonly (readonly [
  rule: string,
  chunks: readonly (string | Buffer)[],
  reports: readonly TaskProgress[],
])[] = [
  ["reports each line of a chunk", [`${HALF}\n`, `${DONE}\r\n`], [half, done]],
  ["joins a line from several chunks", [HALF.slice(0, 3), HALF.slice(3), "\n"], [half]],
  ["reports the last line without a line end", [`${HALF}\n`, DONE], [half, done]],
  ["reports the last line of a chunk", [`${HALF}\n${DONE}\n`], [done]],
  ["reports a line before other lines", [`${HALF}\nhello\n\n`], [half]],
  ["ignores text that is not JSON", ["50 %\n", "{\n", "\n"], []],
  ["finds a report before three lines of text", [`${HALF}\n${"x\n".repeat(3)}`], [half]],
  ["ignores a report before four lines of text", [`${HALF}\n${"x\n".repeat(4)}`], []],
  ["ignores JSON that is not a report", ["0.5\n", '{"progress":1.5}\n', '{"note":"x"}\n'], []],
  ["ignores a note with a line break", ['{"progress":1,"note":"a\\nb"}\n'], []],
  ["ignores invalid UTF-8", [Buffer.from('{"progress":1,"note":"\xff"}\n', "latin1")], []],
  ["ignores JSON 65 levels deep", [`{"progress":1,"x":${"[".repeat(64)}${"]".repeat(64)}}\n`], []],
  [
    "joins a character from two chunks",
    [
      Buffer.from(`{"progress":0.5,"note":"é"}\n`).subarray(0, 25),
      Buffer.from("é").subarray(1),
      '"}\n',
    ],
    [{ progress: 0.5, note: "é" }],
  ],
  ["reads a line of exactly the limit", [`${lineOf(LINE_BYTES_MAX)}\n`], [half]],
  ["skips a line over the limit", [`${lineOf(LINE_BYTES_MAX + 1)}\n`, `${DONE}\n`], [done]],
  [
    "skips the end of a line over the limit",
    ["x".repeat(LINE_BYTES_MAX + 1), `${HALF}\n`, `${DONE}\n`],
    [done],
  ],
  [
    "reads the rest of the chunk that ends a line over the limit",
    ["x".repeat(5000), `x\n${HALF}\n${DONE}`],
    [half, done],
  ],
  ["skips a last line over the limit", ["x".repeat(5000), HALF], []],
  ["reports nothing without lines", [], []],
];
for (const [rule, chunks, reports] of cases) {
  test(`the progress channel ${rule}`, async () => {
    const stream = new PassThrough();
    const reported: TaskProgress[] = [];
    readProgress(stream, (progress) => reported.push(progress));

    for (const chunk of chunks) {
      stream.write(chunk);
      await new Promise((resolve) => setImmediate(resolve));
    }
    stream.end();
    await finished(stream);

    assert.deepEqual(reported, reports);
  });
}

test("a progress channel that fails is ignored", async () => {
  const stream = new PassThrough();
  readProgress(stream, () => assert.fail());

  stream.destroy(new Error("EIO"));
  await finished(stream).catch(() => {});
});

test("a command reports on the descriptor that its environment names, until its end", async () => {
  const reports: TaskProgress[] = [];
  const script = 'echo "$1" >&"$POSTBACKD_PROGRESS_FD"; echo 7; printf %s "$2" >&3';

  const outcome = await run(sh(script, HALF, DONE), { report: (each) => reports.push(each) });

  assert.deepEqual(outcome, completed("7"));
  assert.deepEqual(reports.at(-1), done);
});

test("progress is reported while the command runs", async () => {
  const { promise: reported, resolve: report } = Promise.withResolvers<TaskProgress>();
  const abort = new AbortController();
  const running = run(sh('echo "$1" >&3; exec sleep 1000', HALF), { report, signal: abort.signal });

  assert.deepEqual(await reported, half);
  abort.abort();
  assert.deepEqual(await running, { kind: "aborted" });
});

test("a command that closes any of its descriptors keeps its exit code", async () => {
  assert.deepEqual(await run(sh("exec 3>&-; echo 7")), completed("7"));
  assert.deepEqual(await run(sh("exec <&-; echo 7")), completed("7"));
  assert.deepEqual(await run(sh("exec 0<&- 1>&- 2>&- 3>&-; exit 0")), completed("null"));
});

test("200 MB on the channel take no memory, and its last line is reported", async () => {
  const reports: TaskProgress[] = [];
  const rssBefore = process.memoryUsage.rss();
  const script =
    'head -c 200000000 /dev/zero >&3; yes junk | head -n 100000 >&3; echo "$1" >&3; echo 7';

  const outcome = await run(sh(`${script}`, DONE), { report: (each) => reports.push(each) });

  assert.deepEqual(outcome, completed("7"));
  assert.deepEqual(reports, [done]);
  const grownMb = (process.memoryUsage.rss() - rssBefore) / 1024 ** 2;
  assert.ok(grownMb < 100, `${grownMb} MB`);
});

test("of 200,000 reports the last is reported, and most are skipped", async () => {
  const reports: TaskProgress[] = [];
  const script = 'yes "$1" | head -n 200000 >&3; echo "$2" >&3';

  await run(sh(script, HALF, DONE), { report: (each) => reports.push(each) });

  assert.deepEqual(reports.at(-1), done);
  assert.ok(reports.length < 20_000, `${reports.length} reports`);
});

test("a fork outside the group that holds only the channel does not delay the end", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: 0 });
  const command = node("fork.mjs", held.socketPath, "", "progress", "exit");
  const running = run(command, { clock });
  const fork = await held.next();
  const pid = Number(await fork.line());
  t.after(() => process.kill(pid, "SIGKILL"));

  // Virtual time stands still: what needed the lingering second would not end.
  assert.deepEqual(await running, completed('"forked"'));
});

test("a command gets its task id, and the configuration cannot set its mark", async () => {
  const env = { POSTBACKD_TASK_ID: "x", POSTBACKD_PROGRESS_FD: "9", POSTBACKD_RUN_OF: "x/1.1" };
  const script = 'env | grep "^POSTBACKD_" | sort';

  const outcome = await run(sh(script), { id: "0190", env, owner: "me" });

  assert.ok(outcome.kind === "completed");
  const lines = String(JSON.parse(outcome.resultText)).split("\n");
  assert.deepEqual(lines.slice(0, 1), ["POSTBACKD_PROGRESS_FD=3"]);
  assert.deepEqual(lines.slice(-1), ["POSTBACKD_TASK_ID=0190"]);
  assert.match(
    lines.slice(1, -1).join(),
    new RegExp(String.raw`^(POSTBACKD_RUN_OF=me/${process.pid}\.\d+)?$`),
  );
});
