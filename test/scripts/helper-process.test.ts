import assert from "node:assert/strict";
import { test } from "node:test";

import { PartProcess } from "./helper-part.ts";

test("a helper that ends leaves no question open, and takes no more", async () => {
  using helper = new PartProcess();
  const ended = /a helper process ended before it answered/;

  const open = [helper.ask("wait"), helper.ask("end")];

  for (const question of open) await assert.rejects(question, ended);
  await assert.rejects(helper.ask("echo", 1), ended);
});

test("what fails in a helper is told in its own words, and the helper goes on", async () => {
  using helper = new PartProcess();

  await assert.rejects(helper.ask("fail", "no room"), /^Error: no room$/);
  assert.equal(await helper.ask("echo", 1), 1);
});

test("an answer is its question's, whichever comes first", async () => {
  using helper = new PartProcess();

  const waiting = helper.ask("wait");
  await helper.ask("say", "at last");

  assert.equal(await waiting, "at last");
});

test("numbers that JSON has not, sets and bytes come as they were sent", async () => {
  using helper = new PartProcess();
  const value = { none: Number.NaN, ids: new Set(["a"]), bytes: new Uint8Array([1, 2]) };

  assert.deepEqual(await helper.ask("echo", value), value);
});
