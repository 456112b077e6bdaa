import assert from "node:assert/strict";
import { test } from "node:test";

import { KeptAnswers } from "../../src/dashboard/shell/kept-answers.ts";

function answer(text: string, tag?: string, status = 200): Response {
  return new Response(text, { status, headers: tag === undefined ? {} : { ETag: tag } });
}

function notModified(): Response {
  return new Response(null, { status: 304 });
}

test("what has not changed is taken from what is kept", async () => {
  const kept = new KeptAnswers();
  assert.equal(kept.tagOf("a"), null);

  assert.equal(await kept.textOf("a", answer("one", '"1"')), "one");
  assert.equal(kept.tagOf("a"), '"1"');
  assert.equal(await kept.textOf("a", notModified()), "one");
  assert.equal(await kept.textOf("a", answer("two", '"2"')), "two");
  assert.equal(await kept.textOf("a", notModified()), "two");
});

test("neither a refusal, nor an answer without a tag, nor a long text is kept", async () => {
  const kept = new KeptAnswers();
  await kept.textOf("a", answer("one", '"1"'));

  await kept.textOf("a", answer("no", '"2"', 403));
  await kept.textOf("b", answer("untagged"));
  await kept.textOf("c", answer("a".repeat(600_000), '"3"'));

  for (const asked of ["a", "b", "c"]) assert.equal(kept.tagOf(asked), null);
});

test("sixteen answers are kept, and none when somebody else may be signed in", async () => {
  const kept = new KeptAnswers();
  const names = Array.from({ length: 17 }, (_, index) => `answer ${index}`);

  for (const name of names) await kept.textOf(name, answer(name, `"${name}"`));

  assert.deepEqual(
    names.filter((name) => kept.tagOf(name) !== null),
    names.slice(1),
  );
  kept.forget();
  assert.equal(kept.tagOf("answer 16"), null);
});
