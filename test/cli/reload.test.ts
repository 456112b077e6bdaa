import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskClient } from "../helpers/task-client.ts";

interface Settings {
  readonly level?: string;
  readonly allow?: readonly string[];
  readonly answer?: string;
  readonly more?: string;
}

/** A configuration with one type, whose command prints `answer`. */
function toml({ level = "warn", allow = [], answer = "first", more = "" }: Settings): string {
  const command = JSON.stringify(["echo", answer]);
  return `[log]\nlevel = "${level}"\n[webhooks]\nallow = ${JSON.stringify(allow)}\n[types.say]\ncommand = ${command}\n${more}`;
}

async function setUp(t: TestContext, env: Readonly<Record<string, string>> = {}) {
  const cwd = temporaryFolder(t);
  const write = (text: string): void => writeFileSync(join(cwd, "postbackd.toml"), text);
  write(toml({}));
  const { key } = await createTestAccount(join(cwd, "postbackd.db"));
  const program = startProgram(t, ["start", "--port", "0"], { cwd, env });
  const { url } = await program.ready;
  const client = taskClient({ url, key });
  return {
    program,
    client,
    /** The result of a task of the type. */
    answer: async () => (await client.ended(await client.post({ type: "say" }))).result,
    /** Reloads this configuration, and waits for a line of the log. */
    async reload(text: string, says: string) {
      write(text);
      program.kill("SIGHUP");
      await program.says(says);
    },
  };
}

test("SIGHUP applies log level, webhook targets and types", async (t) => {
  const { program, client, answer, reload } = await setUp(t);
  const receiver = await startReceiver(t);
  const body = JSON.stringify([{ postback_url: receiver.url("/a") }]);
  const refused = await client.call("/v1/tasks/task_post", { method: "POST", body });
  assert.equal(await answer(), "first");
  assert.doesNotMatch(await refused.text(), /20100/);
  assert.doesNotMatch(program.stderr, /"level":"info"/);

  const next = toml({ level: "info", allow: ["127.0.0.1"], answer: "second" });
  await reload(next, "configuration reloaded");

  await client.post({ postback_url: receiver.url("/b") });
  assert.equal((await receiver.next()).url, "/b");
  assert.equal(await answer(), "second");
  assert.match(program.stderr, /"types":\["say"\],"targets":\["127\.0\.0\.1"\],"log_level":"info"/);
  assert.doesNotMatch(program.stderr, /take a restart/);
});

test("SIGHUP logs the settings that need a restart, and keeps them", async (t) => {
  const { program, client, reload } = await setUp(t);
  const more = '[types.other]\nrunner = "echo"\n[limits]\nbody = "2MiB"\n';

  await reload(toml({ more }), "these changes take a restart");

  assert.match(program.stderr, /"settings":\["limits\.body","types\.other"\]/);
  const body = JSON.stringify([{ type: "other" }]);
  const posted = await client.call("/v1/tasks/task_post", { method: "POST", body });
  assert.doesNotMatch(await posted.text(), /20100/);
});

test("SIGHUP with a wrong configuration changes nothing and logs the fault", async (t) => {
  const { program, answer, reload } = await setUp(t);

  const wrong = toml({ answer: "second", more: "concurency = 3\n" });
  await reload(wrong, "configuration not reloaded; the old one stays in use");

  assert.match(program.stderr, /concurency.+concurrency/);
  assert.equal(await answer(), "first");
});

test("SIGHUP refuses a file that lost all of its settings", async (t) => {
  const { client, reload } = await setUp(t);
  const receiver = await startReceiver(t);
  await reload(toml({ allow: ["127.0.0.1"], level: "info" }), "configuration reloaded");

  await reload("[webhooks]\n", "configuration not reloaded");

  await client.post({ postback_url: receiver.url("/still") });
  assert.equal((await receiver.next()).url, "/still");
  await reload(toml({}), '"removed":["127.0.0.1"]');
});

/** Makes the next call of `process.cwd` after a SIGHUP throw, in the program that has it in NODE_OPTIONS. */
const CWD_FAULT = `
  const cwd = process.cwd;
  process.on("SIGHUP", () => {
    process.cwd = () => {
      process.cwd = cwd;
      throw new Error("injected");
    };
  });`;

test("a reload that throws is logged, and the daemon goes on", async (t) => {
  const fault = `--import=data:text/javascript,${encodeURIComponent(CWD_FAULT)}`;
  const { program, answer, reload } = await setUp(t, { NODE_OPTIONS: fault });

  await reload(toml({ answer: "second" }), "injected");

  assert.equal(await answer(), "first");
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
});
