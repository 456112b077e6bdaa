import assert from "node:assert/strict";
import { test } from "node:test";

import { KeptAnswers } from "../../src/dashboard/shell/kept-answers.ts";

function response(text: string, tag?: string, status = 200): Response {
  return new Response(text, { status, headers: tag === undefined ? {} : { ETag: tag } });
}

function notModified(): Response {
  return new Response(null, { status: 304 });
}

test("a 304 returns the kept text", async () => {
  const kept = new KeptAnswers();
  assert.equal(kept.tagOf("a"), null);

  assert.equal(await kept.textOf("a", response("one", '"1"')), "one");
  assert.equal(kept.tagOf("a"), '"1"');
  assert.equal(await kept.textOf("a", notModified()), "one");
  assert.equal(await kept.textOf("a", response("two", '"2"')), "two");
  assert.equal(await kept.textOf("a", notModified()), "two");
});

test("a refusal, a response without ETag and a long text are not kept", async () => {
  const kept = new KeptAnswers();
  await kept.textOf("a", response("one", '"1"'));

  await kept.textOf("a", response("no", '"2"', 403));
  await kept.textOf("b", response("untagged"));
  await kept.textOf("c", response("a".repeat(600_000), '"3"'));

  for (const asked of ["a", "b", "c"]) assert.equal(kept.tagOf(asked), null);
});

test("sixteen responses are kept, and none after forget", async () => {
  const kept = new KeptAnswers();
  const names = Array.from({ length: 17 }, (_, index) => `response ${index}`);

  for (const name of names) await kept.textOf(name, response(name, `"${name}"`));

  assert.deepEqual(
    names.filter((name) => kept.tagOf(name) !== null),
    names.slice(1),
  );
  kept.forget();
  assert.equal(kept.tagOf("response 16"), null);
});
