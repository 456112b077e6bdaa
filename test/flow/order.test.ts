import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

interface Setup {
  readonly clock: FakeClock;
  readonly daemon: TestDaemon;
  /** The tags of the tasks that ran so far, in their order. */
  readonly order: () => string;
}

/** A type that runs one task at a time and writes down its tag. */
async function start(t: TestContext): Promise<Setup> {
  const file = join(tempFolder(t), "order");
  writeFileSync(file, "");
  const script = `
    let text = ""; process.stdin.on("data", (part) => (text += part));
    process.stdin.on("end", () => require("node:fs").appendFileSync(${JSON.stringify(file)}, JSON.parse(text).tag));`;
  const command = JSON.stringify([process.execPath, "-e", script]);
  const clock = createFakeClock({ now: NOW });
  const toml = `[types.one]\ncommand = ${command}\nconcurrency = 1\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  return { clock, daemon, order: () => readFileSync(file, "utf8") };
}

function at(seconds: number): string {
  return new Date(NOW + seconds * 1000).toISOString();
}

test("delayed tasks that fall due together start by priority, then in the order posted", async (t) => {
  const { clock, daemon, order } = await start(t);
  await daemon.post([
    { tag: "a", start_at: at(9) },
    { tag: "b", start_at: at(3) },
    { tag: "c", start_at: at(10), priority: 5 },
    { tag: "d", start_at: at(10) },
    { tag: "e", start_at: at(1), priority: 9 },
    { tag: "f", start_at: at(11), priority: 9 },
  ]);
  await daemon.post({ tag: "g", start_at: at(2), priority: 5 });
  clock.jump(10_000);
  await daemon.daemon.idle();
  assert.equal(order(), "ecgabd");
  clock.advance(1000);
  await daemon.daemon.idle();
  assert.equal(order(), "ecgabdf");
});

test("tasks start at their time one after the other, and a start in the past is now", async (t) => {
  const { clock, daemon, order } = await start(t);
  await daemon.post([
    { tag: "c", start_at: at(2), priority: 9 },
    { tag: "b", start_at: at(1) },
    { tag: "a", start_at: at(-1) },
    { tag: "0", start_at: at(0), priority: 1 },
  ]);
  await daemon.daemon.idle();
  assert.equal(order(), "0a");
  for (const expected of ["0ab", "0abc"]) {
    clock.advance(1000);
    await daemon.daemon.idle();
    assert.equal(order(), expected);
  }
});
