import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { temporaryFolder, type Finished } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { admin } from "./authentication.ts";
import { bearer, Client, KEY, KEY_ID, only, SECRET, TIME } from "./client.ts";
import { PART, type Subject } from "./subject.ts";
import { TOML, type Parts } from "./tasks.ts";

/** Contract §8, all commands but `start`. */
export function exerciseCommands(subject: Subject): void {
  test("contract §8, admin", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const client = new Client(served.url, bearer(served.account.key));
    await accounts(t, { served, client });
    await keys(t, { served, client });
    await accessRequests(t, { served, client });
    await offline(t, subject);
  });
  test("contract §8, configuration and other commands", PART, async (t) => {
    await configuration(t, subject);
    await precedence(t, subject);
    await explainUrl(t, subject);
    await verify(t, subject);
    await health(t, subject);
    await completion(t, subject);
    await commonFlags(t, subject);
    await exitCodes(t, subject);
  });
}

async function accounts(t: TestContext, { served, client }: Parts): Promise<void> {
  const login = "alice@example.com";

  await t.test("admin account create: prints login, first API key and webhook secret", async () => {
    const { code, stdout, stderr } = await served.cli(["admin", "account", "create", "bob"]);
    const key = /pbd_live_\w{40}/.exec(stdout)?.[0] ?? "";
    const document = await admin(served, ["account", "create", login]);
    const again = await served.cli(["admin", "account", "create", login]);

    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, /\bbob\b/);
    assert.match(stdout, /whsec_[A-Za-z0-9+/]{43}=/);
    assert.deepEqual(await client.as(bearer(key)).verdict(), [200, 20000]);
    assert.equal(document.login, login);
    assert.match(document.key.key ?? "", KEY);
    assert.match(document.webhook_secret, SECRET);
    assert.deepEqual([again.code, again.stdout], [1, ""]);
  });

  await t.test("admin account list: every login", async () => {
    const text = await served.cli(["admin", "account", "list"]);
    const document = JSON.stringify(await admin(served, ["account", "list"]));

    assert.equal(text.code, 0);
    for (const each of [served.account.login, "bob", login]) {
      assert.ok(text.stdout.includes(each) && document.includes(JSON.stringify(each)), each);
    }
  });

  await t.test("admin account disable: 40102 from the next request, again the same", async () => {
    const { key } = await admin(served, ["account", "create", "carol"]);
    const carol = client.as(bearer(key.key ?? ""));
    const disable = ["account", "disable", "carol"];
    const first = await admin(served, disable);

    assert.deepEqual(await carol.verdict(), [401, 40102]);
    assert.deepEqual(await admin(served, disable), first);
    assert.equal((await served.cli(["admin", "account", "disable", "nobody"])).code, 1);
  });

  await t.test("admin account enable: accepted again from the next request", async () => {
    const { key } = await admin(served, ["key", "create", "carol"]);
    assert.deepEqual(await client.as(bearer(key.key ?? "")).verdict(), [401, 40102]);
    await admin(served, ["account", "enable", "carol"]);
    assert.deepEqual(await client.as(bearer(key.key ?? "")).verdict(), [200, 20000]);
  });
}

async function keys(t: TestContext, { served, client }: Parts): Promise<void> {
  await t.test("admin key create --label: makes another key, with a label", async () => {
    const { key } = await admin(served, ["key", "create", "bob", "--label", "ci"]);
    const { body } = await client.as(bearer(key.key ?? "")).send("/v1/appendix/user_data");

    assert.match(key.key_id, KEY_ID);
    assert.equal(body.login, "bob");
    assert.equal(body.keys.find(({ key_id }) => key_id === key.key_id)?.label, "ci");
    assert.equal((await served.cli(["admin", "key", "create", "nobody"])).code, 1);
  });

  await t.test("admin key list: prefix and last four of each", async () => {
    const { key } = await admin(served, ["key", "create", "bob"]);
    const { keys: listed } = await admin(served, ["key", "list", "bob"]);
    const text = await served.cli(["admin", "key", "list", "bob"]);

    assert.equal(listed.find(({ key_id }) => key_id === key.key_id)?.last_four, key.last_four);
    assert.ok(text.stdout.includes(key.key_id) && !text.stdout.includes(key.key ?? ""));
    assert.equal((await served.cli(["admin", "key", "list", "nobody"])).code, 1);
  });

  await t.test("admin key revoke: 40101 from the next request, again the same", async () => {
    const { key } = await admin(served, ["key", "create", "bob"]);
    const first = await admin(served, ["key", "revoke", key.key_id]);

    assert.deepEqual(await client.as(bearer(key.key ?? "")).verdict(), [401, 40101]);
    assert.match(first.key.revoked_at ?? "", TIME);
    assert.deepEqual((await admin(served, ["key", "revoke", key.key_id])).key, first.key);
    const unknown = `key_${"0".repeat(32)}`;
    assert.equal((await served.cli(["admin", "key", "revoke", unknown])).code, 1);
  });
}

async function accessRequests(t: TestContext, { served, client }: Parts): Promise<void> {
  const ask = async (email: string): Promise<string> =>
    (await client.as(null).send("/v1/access_requests", { body: { email } })).body.request_id;

  await t.test("admin access list: what waits for a decision", async () => {
    const id = await ask("ada@example.com");
    const text = await served.cli(["admin", "access", "list"]);
    assert.equal(text.code, 0);
    assert.ok(text.stdout.includes(id) && text.stdout.includes("ada@example.com"));
    assert.ok(JSON.stringify(await admin(served, ["access", "list"])).includes(id));
  });

  await t.test("admin access approve: makes the account and shows its key once", async () => {
    const id = await ask("eve@example.com");
    const approve = ["admin", "access", "approve", id, "--login"];
    const taken = await served.cli([...approve, served.account.login]);
    const document = await admin(served, ["access", "approve", id, "--login", "eve"]);
    const again = await served.cli([...approve, "eve2"]);
    const list = await served.cli(["admin", "access", "list", "--json"]);

    assert.equal(taken.code, 1);
    assert.deepEqual(await client.as(bearer(document.key.key ?? "")).verdict(), [200, 20000]);
    assert.deepEqual([again.code, again.stdout], [1, ""]);
    assert.ok(!list.stdout.includes(id));
  });

  await t.test("admin access deny: no account is made, and it cannot be approved", async () => {
    const id = await ask("mallory@example.com");
    await admin(served, ["access", "deny", id]);
    const words = ["admin", "access", "approve", id, "--login", "mallory"];

    assert.equal((await served.cli(words)).code, 1);
    assert.equal((await served.cli(["admin", "access", "deny", id])).code, 1);
    assert.ok(!(await served.cli(["admin", "account", "list"])).stdout.includes("mallory"));
  });
}

async function offline(t: TestContext, subject: Subject): Promise<void> {
  await t.test(
    "admin: makes the file where there is none, mode 0600, for a later start",
    async (t) => {
      const cwd = temporaryFolder(t);
      const words = ["admin", "account", "create", "first", "--json", "--db", "new.db"];
      const made = await subject.run(t, words, { cwd });
      const { url } = await subject.launch(t, ["start", "--port", "0", "--db", "new.db"], { cwd })
        .ready;

      assert.equal(statSync(join(cwd, "new.db")).mode & 0o777, 0o600);
      const client = new Client(url, bearer(JSON.parse(made.stdout).key.key));
      assert.deepEqual(await client.verdict(), [200, 20000]);
    },
  );
}

async function configuration(t: TestContext, subject: Subject): Promise<void> {
  await t.test("config init: makes a file that config check takes", async (t) => {
    const cwd = temporaryFolder(t);
    const made = await subject.run(t, ["config", "init"], { cwd });
    const text = readFileSync(join(cwd, "postbackd.toml"), "utf8");
    const again = await subject.run(t, ["config", "init"], { cwd });
    const checked = await subject.run(t, ["config", "check"], { cwd });

    assert.deepEqual([made.code, again.code, checked.code], [0, 1, 0]);
    assert.equal(readFileSync(join(cwd, "postbackd.toml"), "utf8"), text);
    for (const part of ["[webhooks]", "retry_after", "retention_days", "[limits]", "allow"]) {
      assert.ok(text.includes(part), part);
    }
  });

  await t.test(
    "config check: lists all problems, names the nearest known key, exit 78",
    async (t) => {
      const cwd = temporaryFolder(t);
      const toml =
        'retenton_days = 3\nretention_days = 0\nport = "x"\n[webhooks]\ntimeout = 10\n' +
        '[types.a]\nrunner = "echo"\ncommand = ["cat"]\n';
      writeFileSync(join(cwd, "postbackd.toml"), toml);
      const { code, stdout, stderr } = await subject.run(t, ["config", "check"], { cwd });

      assert.deepEqual([code, stdout], [78, ""]);
      const lines = stderr.trim().split("\n");
      const found = [
        /retenton_days.*retention_days/,
        /: retention_days\b/,
        /\bport\b/,
        /webhooks\.timeout\b/,
        /types\.a\b/,
      ];
      for (const part of found) assert.equal(lines.filter((line) => part.test(line)).length, 1);
      assert.equal(lines.length, found.length);
      writeFileSync(join(cwd, "postbackd.toml"), "x");
      assert.equal((await subject.run(t, ["config", "check"], { cwd })).code, 78);
    },
  );

  await t.test("config print: each value with its source; the defaults", async (t) => {
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "postbackd.toml"), '[webhooks]\ntimeout = "7s"\n');
    const env = { POSTBACKD_RETENTION_DAYS: "9" };
    const options = { cwd, env };
    const words = ["config", "print", "--port", "1234"];
    const { stdout } = await subject.run(t, words, options);
    const line = (key: string): string =>
      stdout.split("\n").find((each) => each.startsWith(`${key} `)) ?? "";

    assert.match(line("port"), /1234 .*--port/);
    assert.match(line("retention_days"), /9 .*POSTBACKD_RETENTION_DAYS/);
    assert.match(line("webhooks.timeout"), /7s.*postbackd\.toml/);
    assert.match(line("webhooks.retry_after"), /"1m", "5m", "15m".*default/);
    assert.match(line("limits.requests_per_minute"), / 0 +default/);
    const json = await subject.run(t, [...words, "--json"], options);
    assert.deepEqual(oneDocument(json)["file"], join(cwd, "postbackd.toml"));
  });
}

async function precedence(t: TestContext, subject: Subject): Promise<void> {
  await t.test(
    "precedence: flags > POSTBACKD_* environment > postbackd.toml > defaults",
    async (t) => {
      const cwd = temporaryFolder(t);
      const listed = async (args: readonly string[], env = {}): Promise<unknown> => {
        const options = { cwd, env };
        const { code } = await subject.run(t, ["admin", "link", ...args], options);
        assert.equal(code, 0);
        return ["flag.db", "env.db", "file.db", "postbackd.db"].filter((name) =>
          existsSync(join(cwd, name)),
        );
      };
      const env = { POSTBACKD_DB: "env.db" };

      assert.deepEqual(await listed([]), ["postbackd.db"]);
      writeFileSync(join(cwd, "postbackd.toml"), 'database = "file.db"\n');
      assert.deepEqual(await listed([]), ["file.db", "postbackd.db"]);
      assert.deepEqual(await listed([], env), ["env.db", "file.db", "postbackd.db"]);
      const all = ["flag.db", "env.db", "file.db", "postbackd.db"];
      assert.deepEqual(await listed(["--db", "flag.db"], env), all);
    },
  );

  await t.test("precedence: --db is POSTBACKD_DB, and so on for every flag of start", async (t) => {
    const cwd = temporaryFolder(t);
    const env = {
      POSTBACKD_CONFIG: join(cwd, "elsewhere.toml"),
      POSTBACKD_DB: "env.db",
      POSTBACKD_HOST: "127.0.0.2",
      POSTBACKD_PORT: "0",
      POSTBACKD_READY_FILE: "env.json",
      POSTBACKD_ALLOW_TARGET: "127.0.0.1",
      POSTBACKD_TRUSTED_PROXY: "10.0.0.0/8",
    };
    writeFileSync(env.POSTBACKD_CONFIG, '[types.elsewhere]\nrunner = "echo"\n');
    const { url, db } = await subject.launch(t, ["start"], { cwd, env }).ready;
    const words = ["admin", "account", "create", "a", "--json"];
    const made = await subject.run(t, words, { cwd, env });
    const client = new Client(url, bearer(JSON.parse(made.stdout).key.key));
    const receiver = await startReceiver(t);
    const task = only(await client.run({ postback_url: receiver.url() }));

    assert.deepEqual([db, task.type], [join(cwd, "env.db"), "elsewhere"]);
    assert.match(url, /^http:\/\/127\.0\.0\.2:/);
    assert.equal(JSON.parse(readFileSync(join(cwd, "env.json"), "utf8")).url, url);
    assert.equal((await receiver.next()).method, "POST");
    const unknown = await subject.run(t, ["config", "check"], { env: { POSTBACKD_PROT: "1" } });
    assert.equal(unknown.code, 78);
    assert.match(unknown.stderr, /POSTBACKD_PORT/);
  });
}

async function explainUrl(t: TestContext, subject: Subject): Promise<void> {
  await t.test("explain-url: normal form, rule and addresses; 0 allowed, 1 refused", async (t) => {
    const explain = (...words: readonly string[]): Promise<Finished> =>
      subject.run(t, ["explain-url", ...words]);
    const allowed = await explain("HTTP://93.184.216.34:80/a b#c");
    const refused = await explain("http://0x7f.1/x", "--json");
    const local = await explain("http://localhost:9000/");
    const lifted = await explain("http://localhost:9000/", "--allow-target", "localhost");

    assert.equal(allowed.code, 0, allowed.stderr);
    assert.match(allowed.stdout, /http:\/\/93\.184\.216\.34\/a%20b\n/);
    assert.equal(refused.code, 1);
    assert.match(
      JSON.stringify(oneDocument(refused)),
      /127\.0\.0\.1.*loopback|loopback.*127\.0\.0\.1/,
    );
    assert.deepEqual([local.code, lifted.code], [1, 0]);
    assert.match(local.stdout, /webhooks\.allow/);
  });

  await t.test("explain-url --tag: judges the substituted URL", async (t) => {
    const words = ["explain-url", "http://93.184.216.34/$tag?id=$id", "--tag", "a b/"];
    const { code, stdout } = await subject.run(t, words);

    assert.equal(code, 0);
    assert.match(stdout, /http:\/\/93\.184\.216\.34\/a%20b%2F\?id=[0-9a-f-]{36}\n/);
  });
}

async function verify(t: TestContext, subject: Subject): Promise<void> {
  await t.test("verify: checks what was really received, says what is wrong", async (t) => {
    const { url, account } = await subject.serve(t, { toml: TOML });
    const receiver = await startReceiver(t);
    const client = new Client(url, bearer(account.key));
    await client.run({ type: "echo", postback_url: receiver.url() });
    const { rawBody, headers } = await receiver.next();
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "body.json"), rawBody);
    writeFileSync(join(cwd, "edited.json"), `${String(rawBody)}\n`);
    const check = (file: string, secret: string): Promise<Finished> => {
      const signature = headers["x-signature"] ?? "";
      const words = ["--secret", secret, "--body-file", file, "--signature", signature];
      return subject.run(t, ["verify", ...words], { cwd });
    };

    assert.equal((await check("body.json", account.secret)).code, 0);
    const edited = await check("edited.json", account.secret);
    assert.equal(edited.code, 1);
    assert.match(edited.stdout + edited.stderr, /line break/);
    const other = await check("body.json", `whsec_${"A".repeat(43)}=`);
    assert.equal(other.code, 1);
  });
}

async function health(t: TestContext, subject: Subject): Promise<void> {
  await t.test(
    "health: 0 while the daemon serves, 1 when not; found by the lock file",
    async (t) => {
      const cwd = temporaryFolder(t);
      const none = await subject.run(t, ["health"], { cwd });
      const program = subject.launch(t, ["start", "--port", "0"], { cwd });
      const { url } = await program.ready;
      const up = await subject.run(t, ["health", "--json"], { cwd });
      await program.stop();
      const down = await subject.run(t, ["health"], { cwd });

      assert.deepEqual([none.code, up.code, down.code], [1, 0, 1]);
      assert.equal(oneDocument(up)["url"], url);
    },
  );

  await t.test(
    "health --wait --timeout: waits until it is ready, or gives up with 1",
    async (t) => {
      const cwd = temporaryFolder(t);
      const waiting = subject.run(t, ["health", "--wait", "--timeout", "30s"], { cwd });
      const program = subject.launch(t, ["start", "--port", "0"], { cwd });
      await program.ready;

      assert.equal((await waiting).code, 0);
      await program.stop();
      const gone = await subject.run(t, ["health", "--wait", "--timeout", "300ms"], { cwd });
      assert.equal(gone.code, 1);
    },
  );
}

async function completion(t: TestContext, subject: Subject): Promise<void> {
  await t.test("completion: a script for each shell, which runs the program", async (t) => {
    for (const shell of ["bash", "zsh", "fish", "powershell"]) {
      const { code, stdout, stderr } = await subject.run(t, ["completion", shell]);
      assert.deepEqual([code, stderr], [0, ""], shell);
      assert.match(stdout, /postbackd completion complete '?--'? /, shell);
    }
    for (const [line, offered] of [
      [["expl"], "explain-url"],
      [["admin", "secret", "ro"], "rotate"],
      [["start", "--ready"], "--ready-file"],
    ] as const) {
      const { stdout } = await subject.run(t, ["completion", "complete", "--", ...line]);
      assert.equal(stdout.split("\t")[0], offered);
    }
  });
}

async function commonFlags(t: TestContext, subject: Subject): Promise<void> {
  await t.test("--db, --config, --json: taken by all, one JSON document on stdout", async (t) => {
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "other.toml"), "");
    const url = "http://93.184.216.34/";
    const flags = ["--db", "other.db", "--config", "other.toml", "--json"];
    const create = ["admin", "account", "create", "a"];
    for (const words of [
      create,
      ["admin", "key", "list", "a"],
      ["admin", "access", "list"],
      ["config", "check"],
      ["config", "print"],
      ["explain-url", url],
      ["verify", "--secret", "whsec_", "--url", url, "--signature", "sha256="],
      ["health"],
    ]) {
      const finished = await subject.run(t, [...words, ...flags], { cwd });
      assert.equal(typeof oneDocument(finished), "object", words.join(" "));
    }
    const failed = await subject.run(t, [...create, ...flags], { cwd });
    assert.deepEqual([failed.code, Object.keys(oneDocument(failed))], [1, ["error"]]);
  });
}

async function exitCodes(t: TestContext, subject: Subject): Promise<void> {
  await t.test("exit code 2: wrong usage, no command too", async (t) => {
    for (const words of [
      [],
      ["strat"],
      ["admin"],
      ["admin", "account", "create"],
      ["admin", "account", "create", "a", "b"],
      ["start", "--prot", "1"],
      ["verify", "--secret", "x"],
    ]) {
      const { code, stdout, stderr } = await subject.run(t, words);
      assert.deepEqual([code, stdout], [2, ""], words.join(" "));
      assert.notEqual(stderr, "");
    }
  });

  await t.test("exit code 78: wrong configuration, for every command that reads it", async (t) => {
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "postbackd.toml"), 'databse = "x"\n');
    for (const words of [
      ["start"],
      ["admin", "account", "list"],
      ["explain-url", "http://93.184.216.34/"],
      ["health"],
    ]) {
      const { code, stderr } = await subject.run(t, words, { cwd });
      assert.equal(code, 78, words.join(" "));
      assert.match(stderr, /databse.*database/);
    }
  });
}

/** The one document that stdout holds. */
function oneDocument({ stdout }: Finished): Readonly<Record<string, unknown>> {
  // JSON.parse refuses anything before or behind a document.
  const document: unknown = JSON.parse(stdout);
  assert.ok(typeof document === "object" && document !== null);
  return { ...document };
}
