import assert from "node:assert/strict";
import { test } from "node:test";

import { createEchoRunner } from "../../src/run/runner.ts";

const inputText = '{"n":12345678901234567890,"x":1.50,"s":"\\u0000é"}';
const none = { tag: null, marketplace: null, trace: null };
const request = { id: "1", type: "echo", inputText, ...none };

test("echo answers the input, character by character", async () => {
  const outcome = await createEchoRunner({ concurrency: 3 }).run(request, {
    signal: new AbortController().signal,
    report: () => {},
  });

  assert.deepEqual(outcome, { kind: "completed", resultText: inputText });
});

test("echo has the concurrency it was made with", () => {
  assert.equal(createEchoRunner({ concurrency: 3 }).concurrency, 3);
});

test("echo does not run what was aborted before it began", async () => {
  const outcome = await createEchoRunner({ concurrency: 1 }).run(request, {
    signal: AbortSignal.abort(),
    report: () => {},
  });

  assert.deepEqual(outcome, { kind: "aborted" });
});
