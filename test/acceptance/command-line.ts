import assert from "node:assert/strict";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { bearer, Client, only } from "./client.ts";
import { PART, TOML, type Subject } from "./subject.ts";

/** cli.md: commands on a database that a daemon serves or will serve. test/cli judges the others, and their rules. */
export function exerciseCommands(subject: Subject): void {
  test("commands, as in cli.md", PART, async (t) => {
    await documents(t, subject);
    await offline(t, subject);
    await exitCodes(t, subject);
  });
}

async function documents(t: TestContext, subject: Subject): Promise<void> {
  await t.test("every command about a database writes one JSON document with --json", async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const { login } = served.account;
    const client = new Client(served.url, bearer(served.account.key));
    const { id } = only(await client.run({ type: "echo", postback_url: "http://127.0.0.1:1/" }));
    for (const [words, fields] of [
      ["admin account list", ["accounts"]],
      [`admin account limit ${login} --open-tasks 7`, ["login", "limits"]],
      ["admin access list", ["requests", "has_more"]],
      ["admin worker list", ["workers"]],
      [`admin task show ${id}`, ["task"]],
      ["admin task list", ["tasks", "has_more"]],
      [`admin delivery show ${id}`, ["task_id", "deliveries"]],
      ["admin delivery list", ["deliveries", "next_cursor"]],
      ["admin delivery pause --host a.example", ["paused", "host"]],
      ["admin delivery paused", ["pauses"]],
      ["admin delivery resume --host a.example", ["host", "pauses_left"]],
      ["admin delivery redeliver --host 127.0.0.1 --dry-run", ["order", "deliveries"]],
      ["admin delivery orders", ["orders"]],
      ["admin audit", ["entries", "next_cursor"]],
      ["admin link", ["link"]],
      [`admin task erase ${id} --with-webhooks`, ["task_id", "erased"]],
    ] as const) {
      const { code, stdout, stderr } = await served.cli([...words.split(" "), "--json"]);
      assert.deepEqual([code, stderr], [0, ""], words);
      // JSON.parse refuses anything before or behind a document.
      const document: unknown = JSON.parse(stdout);
      for (const field of fields) assert.ok(Object.hasOwn(Object(document), field), words);
    }
  });
}

async function offline(t: TestContext, subject: Subject): Promise<void> {
  await t.test("admin makes the database, mode 0600, for a later start", async (t) => {
    const cwd = temporaryFolder(t);
    const words = ["admin", "account", "create", "first", "--json", "--db", "new.db"];
    const made = await subject.run(t, words, { cwd });
    const start = ["start", "--port", "0", "--db", "new.db"];
    const { url } = await subject.launch(t, start, { cwd }).ready;

    assert.equal(statSync(join(cwd, "new.db")).mode & 0o777, 0o600);
    const client = new Client(url, bearer(JSON.parse(made.stdout).key.key));
    assert.deepEqual(await client.verdict(), [200, 20000]);
    for (const args of [
      ["backup", "create", "copy.db", "--db", "new.db"],
      ["backup", "check", "copy.db"],
      ["backup", "restore", "copy.db", "--db", "restored.db", "--deliveries", "pause"],
    ]) {
      const { code, stderr } = await subject.run(t, args, { cwd });
      assert.equal(code, 0, stderr);
    }
  });
}

async function exitCodes(t: TestContext, subject: Subject): Promise<void> {
  await t.test("wrong usage exits with 2, and a wrong configuration with 78", async (t) => {
    const usage = await subject.run(t, ["strat"]);
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "postbackd.toml"), 'databse = "x"\n');
    const wrong = await subject.run(t, ["start"], { cwd });

    assert.deepEqual([usage.code, usage.stdout], [2, ""]);
    assert.equal(wrong.code, 78);
    assert.match(wrong.stderr, /databse.*database/);
  });
}
