import assert from "node:assert/strict";
import { test } from "node:test";

import { parseTrace, readTrace, traceHeaders, traceText } from "../../src/domain/task/trace.ts";

const PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PARENT_OF_LATER = `cc${PARENT.slice(2)}-what-the-future-will-be-like`;

test("a valid traceparent is kept unchanged, also of a later version", () => {
  for (const traceparent of [PARENT, PARENT.replace(/01$/, "ff"), PARENT_OF_LATER]) {
    assert.deepEqual(parseTrace([traceparent], []), { traceparent, tracestate: null });
  }
});

test("an invalid traceparent is dropped", () => {
  const wrong = [
    ...["", PARENT.replace(/^00/, "ff"), PARENT.toUpperCase(), `${PARENT}-more`, `${PARENT}-`],
    PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32)),
    PARENT.replace("b7ad6b7169203331", "0".repeat(16)),
    ...[PARENT.slice(0, -1), PARENT.replace("-", "_"), `cc${PARENT.slice(2)}.more`, ` ${PARENT}`],
    ...[`cc${PARENT.slice(2)}-${"x".repeat(500)}`, `${PARENT_OF_LATER}\n`],
  ];
  for (const text of wrong) assert.equal(parseTrace([text], ["a=1"]), null, text);
  assert.equal(parseTrace([], ["a=1"]), null);
  assert.equal(parseTrace([PARENT, PARENT], []), null);
});

test("a valid tracestate is kept, its lines joined", () => {
  const cases: readonly (readonly [string[], string | null])[] = [
    [["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"],
    [["a=1", "b=2"], "a=1,b=2"],
    [["a=1 , ,\tfw529a3039@dt=FfAAAAAB "], "a=1,fw529a3039@dt=FfAAAAAB"],
    [["a=b c"], "a=b c"],
    [[`a=${"x".repeat(254)}`], `a=${"x".repeat(254)}`],
    [[""], null],
    [["A=1"], null],
    [["a"], null],
    [["a=1,b=c=d"], null],
    [["a=ü"], null],
    [["a=1\r\nX-Evil: 1"], null],
    [[Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(",")], null],
    [[Array.from({ length: 5 }, (_, i) => `k${i}=${"x".repeat(110)}`).join(",")], null],
  ];
  for (const [lines, tracestate] of cases) {
    assert.deepEqual(parseTrace([PARENT], lines), { traceparent: PARENT, tracestate });
  }
});

test("a stored trace becomes headers, and invalid text does not", () => {
  const trace = parseTrace([PARENT], ["a=1"]);
  assert.deepEqual(readTrace(traceText(trace)), trace);
  assert.deepEqual(traceHeaders(traceText(trace)), { traceparent: PARENT, tracestate: "a=1" });
  assert.equal(traceText(null), null);
  const others = [null, "", "null", "[1]", '"x"', "{}", '{"traceparent":"x\\r\\ny: z"}'];
  for (const text of others) assert.deepEqual(traceHeaders(text), {}, String(text));
});
