import assert from "node:assert/strict";
import { request } from "node:http";
import { Duplex } from "node:stream";
import { test } from "node:test";

import fc from "fast-check";

import { AnswerReader } from "../../src/deliver/answer-reader.ts";

/** A parsed response, or null if the bytes are not a response. */
type Understood = { readonly status: number; readonly body: string } | null;

function readAll(pieces: readonly Buffer[]): AnswerReader {
  const reader = new AnswerReader();
  for (const piece of pieces) reader.take(piece);
  return reader;
}

function readText(text: string): AnswerReader {
  return readAll([Buffer.from(text, "latin1")]);
}

function inPieces(text: string, size: number): readonly Buffer[] {
  const bytes = Buffer.from(text, "latin1");
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  );
}

function ours(text: string): Understood {
  const reader = readText(text);
  return reader.head === null ? null : { status: reader.head.status, body: reader.excerpt() };
}

/** The response as Node's client parses it. The connection ends after the bytes. */
async function nodes(text: string): Promise<Understood> {
  const { promise, resolve } = Promise.withResolvers<Understood>();
  const socket = new Duplex({
    read: () => {},
    // After the request: earlier bytes would belong to no request.
    write: (_chunk, _encoding, callback) => {
      callback();
      socket.push(Buffer.from(text, "latin1"));
      setImmediate(() => socket.push(null));
    },
  });
  let hasAnswer = false;
  const asked = request({ method: "POST", createConnection: () => socket }, (response) => {
    hasAnswer = true;
    const chunks: Buffer[] = [];
    const status = response.statusCode ?? 0;
    response.on("data", (chunk: Buffer) => chunks.push(chunk));
    response.on("error", () => {});
    response.on("close", () => resolve({ status, body: Buffer.concat(chunks).toString("utf8") }));
  });
  asked.on("upgrade", () => resolve(null));
  // An error after the head does not change the status.
  asked.on("error", () => hasAnswer || resolve(null));
  asked.end();
  const understood = await promise;
  socket.destroy();
  return understood;
}

const ANSWERS: readonly string[] = [
  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
  "HTTP/1.1 200\r\ncontent-length:2\r\n\r\nok",
  "HTTP/1.0 200 OK\r\n\r\nuntil the end",
  "HTTP/1.1 204 No Content\r\n\r\n",
  "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
  "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\na",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;a=b\r\nyes\r\n0\r\nX: y\r\n\r\n",
  "HTTP/1.1 500 Oh\tno \xe9\r\nX: \t a \r\nY:\r\nRetry-After: 5\r\nContent-Length: 3\r\n\r\nbad",
];

for (const text of ANSWERS) {
  test(`${JSON.stringify(text)} is parsed as Node parses it, in one piece and byte by byte`, async () => {
    const understood = await nodes(text);
    assert.ok(understood !== null);

    assert.deepEqual(ours(text), understood);

    const reader = readAll(inPieces(text, 1));
    assert.equal(reader.head?.status, understood.status);
    assert.equal(reader.excerpt(), understood.body);
  });
}

test("a mutated response closes the connection if Node rejects it, and is parsed the same if Node accepts it", async () => {
  const noise = fc.constantFrom(
    ..."\r\n\t :;,0159aZ\0\x7f\xa0\xff".split(""),
    "\r\n",
    "\n",
    "\r\n\r\n",
    "Content-Length: 1\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close\r\n",
  );
  const change = fc.record({
    // Not a double, because most doubles are close to 0.
    at: fc.nat({ max: 9999 }),
    cut: fc.integer({ min: 0, max: 4 }),
    put: fc.oneof(noise, fc.constant("")),
  });
  let [taken, decided] = [0, 0];

  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...ANSWERS),
      fc.array(change, { maxLength: 3 }),
      async (answer, changes) => {
        let text = answer;
        for (const { at, cut, put } of changes) {
          const place = Math.floor((at / 10_000) * text.length);
          text = text.slice(0, place) + put + text.slice(place + cut);
        }
        const reader = readText(text);
        const understood = await nodes(text);
        if (reader.head === null) return;
        if (understood === null) {
          decided += 1;
          assert.equal(reader.isComplete && reader.head.staysOpen, false);
        } else {
          taken += 1;
          assert.deepEqual(ours(text), understood);
        }
      },
    ),
    { numRuns: 3000 },
  );

  assert.ok(taken > 500, `${taken} were understood`);
  assert.ok(decided > 100, `${decided} were decided by their status line`);
});

for (const line of ["3", "3;a", "3;a=b;c", '3;a="b";c=d']) {
  test(`the chunk line ${line} is parsed as Node parses it with any byte inserted`, async () => {
    for (let place = 1; place <= line.length; place++) {
      for (let byte = 0; byte < 256; byte++) {
        const changed = line.slice(0, place) + String.fromCharCode(byte) + line.slice(place);
        const body = `2\r\nok\r\n${changed}\r\nyes\r\n0\r\n\r\n`;
        const text = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
        assert.deepEqual(ours(text), await nodes(text), JSON.stringify(changed));
      }
    }
  });
}

for (const [what, fields] of [
  ["a space before a colon", "A : b\r\n\r\n"],
  ["a folded line", "A: b\r\n c\r\n\r\n"],
  ["a NUL in a value", "A: b\0c\r\n\r\n"],
  ["a field without a name", ": b\r\n\r\n"],
  ["a negative length", "Content-Length: -1\r\n\r\n"],
  ["an empty length", "Content-Length:\r\n\r\n"],
  ["a length in hexadecimal", "Content-Length: 0x1\r\n\r\n"],
  ["two lengths", "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"],
  ["a length and chunks", "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"],
] as const) {
  test(`a response with ${what} keeps its status, and its connection closes`, () => {
    for (const status of ["204 No Content", "200 OK", "500 Oh no"]) {
      const reader = readText(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n${fields}`);

      assert.equal(reader.fault, null);
      assert.equal(reader.head?.status, Number(status.slice(0, 3)));
      assert.equal(reader.head.staysOpen, false);
    }
  });
}

for (const [what, text] of [
  ["lines that end with LF alone", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"],
  ["one line that ends with LF alone", "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok"],
  ["the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"],
  ["the same length twice in a line", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok"],
  ["a folded line", "HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\nContent-Length: 2\r\n\r\nok"],
  [
    "a length and chunks",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  ],
  [
    "an early hint that ends with LF alone",
    "HTTP/1.1 103 Early Hints\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
  ],
  [
    "an early hint with Connection: close",
    "HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
  ],
] as const) {
  test(`a response with ${what} is read to its end, and its connection closes`, () => {
    for (const size of [text.length, 1]) {
      const reader = readAll(inPieces(text, size));

      assert.equal(reader.head?.status, 200);
      assert.equal(reader.excerpt(), "ok");
      assert.equal(reader.isComplete, true);
      assert.equal(reader.head.staysOpen, false);
    }
  });
}

/** A field that makes a head of 16 KiB and so many bytes, with a Content-Length of one digit. */
function filler(more: number): string {
  const others = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: \r\n\r\n";
  return `X: ${"m".repeat(16_384 - others.length + more)}\r\n`;
}

const CHUNKED = "Transfer-Encoding: chunked\r\n\r\n";

for (const [what, text] of [
  ["a head of 16 KiB and a byte", `Content-Length: 0\r\n${filler(1)}\r\n`],
  ["fields of 17 KiB", `${"X-More: more\r\n".repeat(1300)}\r\nok`],
  ["a body of 4097 bytes", `Content-Length: 4097\r\n\r\n${"a".repeat(4097)}`],
  ["an invalid chunk size", `${CHUNKED}x\r\n`],
  ["a chunk size of nine digits", `${CHUNKED}100000000\r\n`],
  ["a chunk longer than its size", `${CHUNKED}1\r\nab\r\n0\r\n\r\n`],
  ["a chunk extension of 5 KB", `${CHUNKED}1;${"a".repeat(5000)}\r\na\r\n0\r\n\r\n`],
  ["a trailer of 101 lines", `${CHUNKED}0\r\n${"A: b\r\n".repeat(101)}\r\n`],
  ["chunks in frames of 80 KB", `${CHUNKED}${`1;${"a".repeat(2000)}\r\na\r\n`.repeat(40)}`],
  ["a chunk size line that ends with LF alone", `${CHUNKED}1\na\r\n0\r\n\r\n`],
] as const) {
  test(`a response with ${what} keeps its status and is cut`, () => {
    for (const size of [text.length, 1000]) {
      const reader = readAll(inPieces(`HTTP/1.1 200 OK\r\n${text}`, size));

      assert.equal(reader.head?.status, 200);
      assert.deepEqual([reader.isOver, reader.isComplete], [true, false]);
    }
  });
}

const NO_RESPONSES = {
  informational: ["HTTP/1.1 103 Hints\r\n\r\n".repeat(11)],
  oversized: [
    `HTTP/1.1 200 ${"O".repeat(17 * 1024)}`,
    `HTTP/1.1 103 Hints\r\nX-More: ${"m".repeat(17 * 1024)}`,
  ],
  malformed: [
    "SSH-2.0-",
    "<html>",
    "220 mail.example.com ESMTP\r\n",
    "HTTP/2",
    "HTTP/1.1 2x\r\n",
    "HTTP/1.1 99 Low\r\nA: b",
    "HTTP/1.1 2000 High\r\n\r\n",
    "HTTP/2.0 200 OK\r\n\r\n",
    "HTTP/1.1 200OK\r\n\r\n",
    "HTTP/1.1\t200 OK\r\n\r\n",
    "HTTP/1.1 200 O\0K\r\n\r\n",
    "HTTP/1.1 200 OK\rA: b\r\n\r\n",
    "ICY 200 OK\r\n\r\n",
  ],
};

for (const [fault, beginnings] of Object.entries(NO_RESPONSES)) {
  test(`bytes that are not a response are ${fault} before the end of a head`, () => {
    for (const text of beginnings) {
      for (const size of [text.length, 1000]) {
        assert.equal(readAll(inPieces(text, size)).fault, fault, text.slice(0, 40));
      }
    }
  });
}

test("a connection stays open only after a response with a known end and no bytes after it", () => {
  const head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";

  assert.equal(readText(`${head}\r\nok`).isComplete, true);
  assert.equal(readText(`${head}\r\nok`).head?.staysOpen, true);
  assert.equal(readText(`${head}${filler(0)}\r\nok`).isComplete, true);
  const longest = "HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n";
  assert.equal(readText(longest + "a".repeat(4096)).isComplete, true);
  const trailer = "A: b\r\n".repeat(100);
  assert.equal(readText(`HTTP/1.1 200 OK\r\n${CHUNKED}0\r\n${trailer}\r\n`).isComplete, true);
  const hints = "HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n".repeat(10);
  assert.equal(readText(`${hints}${head}\r\nok`).head?.staysOpen, true);
  assert.equal(readText(`${head}\r\no`).isComplete, false);
  assert.equal(readText(`${head}\r\nokHTTP/1.1 200 OK\r\n`).isComplete, false);
  assert.equal(readText(`${head}Connection: foo, Close\r\n\r\nok`).head?.staysOpen, false);
  assert.equal(readText("HTTP/1.1 204 No Content\r\n\r\nx").isComplete, false);
  assert.equal(readText("HTTP/1.1 200 OK\r\n\r\nok").head?.staysOpen, false);
  const old = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n";
  assert.equal(readText(`${old}\r\n`).head?.staysOpen, false);
  assert.equal(readText(`${old}Connection: keep-alive\r\n\r\n`).head?.staysOpen, true);
});

test("chunks of one byte are read up to the length of an excerpt", () => {
  const reader = readText("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  const chunks = Buffer.from("1\r\na\r\n".repeat(500));

  let reads = 0;
  for (; !reader.isOver; reads++) reader.take(chunks);

  assert.equal(reads, 9);
  assert.equal(reader.excerpt(), "a".repeat(4096));
});
