import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

const DEMO = join(import.meta.dirname, "..", "..", "scripts", "demo.ts");

test("the demo ends well and shows fifty tasks with their signatures verified", async (t) => {
  const child = spawn(process.execPath, [DEMO], { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill());

  const ended = once(child, "exit");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await ended;

  assert.equal(code, 0, stderr);
  assert.equal(stdout.match(/\| verified +\|/g)?.length, 50);
});
