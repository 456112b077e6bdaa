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

/** Runs each command that a terminal shows at the start, and returns the responses. */
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
  /** The end of the last command. */
  readonly last: string;
}

const TYPES = '[types.thumb]\nrunner = "worker"\n[types.copy]\nrunner = "echo"\n';

for (const [name, toml] of [
  ["the default type", ""],
  ["several types, the first of them for workers", TYPES],
] as const) {
  test(
    `the commands of the greeting post a task and read its webhook, with ${name}`,
    { skip },
    async (t) => {
      const [posted, inbox] = await pasted(t, { toml, flags: [], last: "wait=10'" });

      assert.equal(posted?.tasks?.[0]?.status_code, 20100);
      assert.equal(inbox?.messages?.[0]?.task_id, posted?.tasks?.[0]?.id);
      assert.equal(inbox?.messages?.[0]?.signature.verdict, "valid");
    },
  );
}

test("with --strict-targets the greeting posts a task without the inbox", { skip }, async (t) => {
  const given = { toml: TYPES, flags: ["--strict-targets"], last: "tasks_ready" };
  const [posted, ready] = await pasted(t, given);

  assert.deepEqual([posted?.tasks?.[0]?.status_code, ready?.status_code], [20100, 20000]);
});
