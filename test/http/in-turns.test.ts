import assert from "node:assert/strict";
import { test } from "node:test";

import { inTurns, openApiDocument } from "../../src/http/openapi/document.ts";
import { type ShownDocument, referencePieces } from "../../src/http/reference/page.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { exchange } from "../helpers/raw-http.ts";
import { apiOperations } from "./operation-cases.ts";

test("other tasks run between two steps of long work", async () => {
  const seen: string[] = [];
  function* work(): Generator<void, string> {
    for (const step of ["a", "b", "c"]) {
      seen.push(step);
      setImmediate(() => seen.push(`after ${step}`));
      yield;
    }
    return "done";
  }

  assert.equal(await inTurns(work()), "done");
  assert.deepEqual(seen, ["a", "after a", "b", "after b", "c", "after c"]);
});

test("an error of a step rejects the work", async () => {
  // It fails at its second step.
  function* work(): Generator<void, string> {
    yield;
    throw new Error("no page");
  }

  await assert.rejects(inTurns(work()), /no page/);
});

test("the document and its reference are made in many small steps", async () => {
  const document = await inTurns(openApiDocument(apiOperations(), "1"));

  const pieces = [...referencePieces(document as unknown as ShownDocument, "/style.css")];

  const { length } = pieces.join("");
  const largest = Math.max(...pieces.map((piece) => piece.length));
  assert.ok(pieces.length > 100, `${pieces.length} pieces`);
  assert.ok(largest < length / 10, `${largest} of ${length} characters in one piece`);
});

test("concurrent requests for the reference get the same page", async (t) => {
  const { url } = await startTestDaemon(t);
  const ask = async (target: string) => (await exchange(url, { target })).body.toString();

  const pages = await Promise.all([ask("/docs"), ask("/docs"), ask("/livez"), ask("/docs")]);

  assert.equal(pages[2], '{"status":"ok"}');
  assert.equal(new Set([pages[0], pages[1], pages[3]]).size, 1);
  assert.match(pages[0] ?? "", /<\/html>\n$/);
});
