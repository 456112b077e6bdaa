import assert from "node:assert/strict";
import { test } from "node:test";

import { startProgram } from "../helpers/program.ts";

test("SIGUSR1 opens no debugger, and the daemon goes on", async (t) => {
  const program = startProgram(t, ["start", "--port", "0"]);
  const { url } = await program.ready;

  program.kill("SIGUSR1");
  // It is answered after the signal: Node looks for signals before it takes what comes in.
  const { status } = await fetch(`${url}/livez`);
  await program.stop();

  assert.equal(status, 200);
  assert.doesNotMatch(program.stderr, /Debugger listening/);
});
