import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { finished } from "node:stream/promises";
import { test } from "node:test";

import { parseCommandOutput, readBounded, readTail } from "../../src/run/command-output.ts";

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
