import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";

import { temporaryFolder } from "../helpers/program.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";
import type { ShownBody } from "./dev-client.ts";

const skip = reasonToSkipTerminal();
const run = promisify(execFile);

/** Pastes each command that a terminal shows at the start, one after the other, and answers what they print. */
async function pasted(t: TestContext, { toml, flags, last }: Case): Promise<readonly ShownBody[]> {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, toml);
  const args = ["dev", "--port", "0", "--config", file, ...flags];
  const program = startOnTerminal(t, args);
  await program.shows(`${last}\r\n`);
  const commands = program.shown.split("\r\n").filter((line) => line.startsWith("  curl "));
  const bodies: ShownBody[] = [];
  for (const command of commands) {
    const { stdout } = await run("sh", ["-c", command]);
    bodies.push(JSON.parse(stdout) as ShownBody);
  }
  return bodies;
}

interface Case {
  readonly toml: string;
  readonly flags: readonly string[];
  /** What the last command ends with. */
  readonly last: string;
}

const TYPES = '[types.thumb]\nrunner = "worker"\n[types.copy]\nrunner = "echo"\n';

for (const [what, given] of [
  ["with the type that there is without a file", { toml: "", flags: [], last: "wait=10'" }],
  [
    "with several types, of which workers run the first",
    { toml: TYPES, flags: [], last: "wait=10'" },
  ],
] as const) {
  test(`what a terminal is greeted with can be pasted: ${what}`, { skip }, async (t) => {
    const [posted, inbox] = await pasted(t, given);

    assert.deepEqual(
      posted?.tasks?.map((task) => task.status_code),
      [20100],
    );
    assert.equal(inbox?.messages?.[0]?.task_id, posted?.tasks?.[0]?.id);
    assert.equal(inbox?.messages?.[0]?.signature.verdict, "valid");
  });
}

test(
  "where the inbox is no target, what is pasted posts a task without it",
  { skip },
  async (t) => {
    const [posted, ready] = await pasted(t, {
      toml: TYPES,
      flags: ["--strict-targets"],
      last: "tasks_ready",
    });

    assert.equal(posted?.tasks?.[0]?.status_code, 20100);
    assert.equal(ready?.status_code, 20000);
  },
);
