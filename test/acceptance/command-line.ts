import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { bearer, Client, only } from "./client.ts";
import { PART, TOML, type Subject } from "./subject.ts";

/** cli.md, all commands but `start`: each command once. test/cli judges their rules. */
export function exerciseCommands(subject: Subject): void {
  test("commands, as in cli.md", PART, async (t) => {
    await documents(t, subject);
    await offline(t, subject);
    await configuration(t, subject);
    await verify(t, subject);
    await health(t, subject);
    await completion(t, subject);
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

async function configuration(t: TestContext, subject: Subject): Promise<void> {
  await t.test("config init makes a file that config check accepts and print shows", async (t) => {
    const cwd = temporaryFolder(t);
    const made = await subject.run(t, ["config", "init"], { cwd });
    const checked = await subject.run(t, ["config", "check"], { cwd });
    const env = { POSTBACKD_RETENTION_DAYS: "9" };
    const print = ["config", "print", "--port", "1234", "--json"];
    const { stdout } = await subject.run(t, print, { cwd, env });

    assert.deepEqual([made.code, checked.code], [0, 0]);
    const text = readFileSync(join(cwd, "postbackd.toml"), "utf8");
    for (const part of ["[webhooks]", "retry_after", "retention_days", "[limits]", "allow"]) {
      assert.ok(text.includes(part), part);
    }
    const { file, settings } = JSON.parse(stdout);
    assert.equal(file, join(cwd, "postbackd.toml"));
    const sourceOf = (key: string): unknown =>
      settings.find((each: { readonly key: string }) => each.key === key).source;
    assert.equal(sourceOf("port"), "flag --port");
    assert.equal(sourceOf("retention_days"), "environment POSTBACKD_RETENTION_DAYS");
  });

  await t.test("explain-url exits with 0 for an allowed URL and 1 for a refused one", async (t) => {
    const words = ["explain-url", "HTTP://93.184.216.34:80/$tag?id=$id", "--tag", "a b/"];
    const allowed = await subject.run(t, words);
    const refused = await subject.run(t, ["explain-url", "http://0x7f.1/x", "--json"]);

    assert.equal(allowed.code, 0);
    assert.match(allowed.stdout, /http:\/\/93\.184\.216\.34\/a%20b%2F\?id=[0-9a-f-]{36}\n/);
    assert.equal(refused.code, 1);
    assert.equal(JSON.parse(refused.stdout).normal_form, "http://127.0.0.1/x");
  });
}

async function verify(t: TestContext, subject: Subject): Promise<void> {
  await t.test("verify checks a postback and a pingback that were received", async (t) => {
    const { url, account } = await subject.serve(t, { toml: TOML });
    const receiver = await startReceiver(t);
    const client = new Client(url, bearer(account.key));
    await client.run({ type: "echo", postback_url: receiver.url() });
    const postback = await receiver.next();
    await client.run({ type: "echo", pingback_url: receiver.url("/$id") });
    const pingback = await receiver.next();
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "body.json"), postback.rawBody);
    const codeOf = async (secret: string, ...words: string[]): Promise<number | null> => {
      const finished = await subject.run(t, ["verify", "--secret", secret, ...words], { cwd });
      return finished.code;
    };
    const body = ["--body-file", "body.json", "--signature", postback.headers["x-signature"] ?? ""];
    const target = ["--url", receiver.url(pingback.url), "--signature"];

    assert.equal(await codeOf(account.secret, ...body), 0);
    assert.equal(await codeOf(`whsec_${"A".repeat(43)}=`, ...body), 1);
    const signature = pingback.headers["x-signature"] ?? "";
    assert.equal(await codeOf(account.secret, ...target, signature), 0);
  });
}

async function health(t: TestContext, subject: Subject): Promise<void> {
  await t.test("health --wait exits with 0 when the daemon serves, and 1 after it", async (t) => {
    const cwd = temporaryFolder(t);
    const waiting = subject.run(t, ["health", "--wait", "--timeout", "30s", "--json"], { cwd });
    const program = subject.launch(t, ["start", "--port", "0"], { cwd });
    const { url } = await program.ready;
    const up = await waiting;
    await program.stop();
    const down = await subject.run(t, ["health"], { cwd });

    assert.deepEqual([up.code, JSON.parse(up.stdout).url, down.code], [0, url, 1]);
  });
}

async function completion(t: TestContext, subject: Subject): Promise<void> {
  await t.test("completion writes a script for each shell, and completes a word", async (t) => {
    for (const shell of ["bash", "zsh", "fish", "powershell"]) {
      const { code, stdout } = await subject.run(t, ["completion", shell]);
      assert.equal(code, 0, shell);
      assert.match(stdout, /postbackd completion complete '?--'? /, shell);
    }
    const words = ["completion", "complete", "--", "admin", "secret", "ro"];
    assert.equal((await subject.run(t, words)).stdout.split("\t")[0], "rotate");
    assert.match((await subject.run(t, ["man"])).stdout, /^\.TH/m);
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
