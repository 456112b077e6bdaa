import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import type { Certificate } from "../helpers/certificate.ts";
import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskClient } from "../helpers/task-client.ts";
import { httpsClient, loopbackCertificate } from "../http/tls-client.ts";

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

test("SIGHUP applies log level, targets and types, and refuses a faulty or empty file", async (t) => {
  const { program, client, answer, reload } = await setUp(t);
  const receiver = await startReceiver(t);
  const post = async (task: object): Promise<string> => {
    const body = JSON.stringify([task]);
    return (await client.call("/v1/tasks/task_post", { method: "POST", body })).text();
  };
  assert.equal(await answer(), "first");
  assert.doesNotMatch(await post({ postback_url: receiver.url("/a") }), /20100/);
  assert.doesNotMatch(program.stderr, /"level":"info"/);

  const next: Settings = { level: "info", allow: ["127.0.0.1"], answer: "second" };
  await reload(toml(next), "configuration reloaded");
  await client.post({ postback_url: receiver.url("/b") });
  assert.equal((await receiver.next()).url, "/b");
  assert.equal(await answer(), "second");
  assert.match(program.stderr, /"types":\["say"\],"targets":\["127\.0\.0\.1"\],"log_level":"info"/);
  assert.doesNotMatch(program.stderr, /take a restart/);

  const wrong = { ...next, answer: "third", more: "concurency = 3\n" };
  await reload(toml(wrong), "configuration not reloaded");
  assert.match(program.stderr, /concurency.+concurrency/);
  await reload("[webhooks]\n", "no settings");
  assert.equal(await answer(), "second");
  await client.post({ postback_url: receiver.url("/still") });
  assert.equal((await receiver.next()).url, "/still");

  const more = '[types.other]\nrunner = "echo"\n[limits]\nbody = "2MiB"\n';
  await reload(toml({ ...next, allow: ["127.0.0.0/8"], more }), "these changes take a restart");
  assert.doesNotMatch(program.stderr, /"removed"/);
  assert.match(program.stderr, /"settings":\["limits\.body","types\.other"\]/);
  assert.doesNotMatch(await post({ type: "other" }), /20100/);
  await reload(toml({}), '"removed":["127.0.0.0/8"]');
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

const FIRST = loopbackCertificate("first");
const SECOND = loopbackCertificate("second");
const TRUST = [FIRST, SECOND];
const TLS = ["start", "--port", "0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];

function writePair(folder: string, { cert, key }: Pick<Certificate, "cert" | "key">): void {
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key);
}

/** The program in a folder with the first certificate. */
async function startHttps(t: TestContext) {
  const cwd = temporaryFolder(t);
  writePair(cwd, FIRST);
  const program = startProgram(t, TLS, { cwd });
  const { url } = await program.ready;
  const connect = () => httpsClient(t, { url, trust: TRUST });
  return { cwd, program, url, connect };
}

function keyLines({ key }: Certificate): readonly string[] {
  return key.split("\n").filter((line) => line.length > 30 && !line.startsWith("-"));
}

test("SIGHUP loads a new certificate for new connections", async (t) => {
  const { cwd, program, url, connect } = await startHttps(t);
  const old = connect();
  assert.equal((await old.get("/livez")).status, 200);
  assert.match(url, /^https:\/\/127\.0\.0\.1:\d+$/);

  writePair(cwd, SECOND);
  program.kill("SIGHUP");
  await program.says("certificate reloaded");

  assert.equal((await connect().get("/livez")).servedBy, "second");
  assert.equal((await old.get("/livez")).servedBy, "first");
  assert.match(program.stderr, /"file":"[^"]*cert\.pem","subject":"CN=second".*"expires":"20/);
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
  for (const line of [...keyLines(FIRST), ...keyLines(SECOND)]) {
    assert(!program.stderr.includes(line), "the log shows a key");
  }
});

test("SIGHUP keeps the certificate if the new files are faulty, and loads them once they are fixed", async (t) => {
  const { cwd, program, connect } = await startHttps(t);

  writePair(cwd, { cert: SECOND.cert, key: FIRST.key });
  program.kill("SIGHUP");
  await program.says("certificate not reloaded");

  assert.match(program.stderr, /"level":"error".*key\.pem \(tls_key\) does not belong to/);
  assert.equal((await connect().get("/livez")).servedBy, "first");
  writePair(cwd, SECOND);
  program.kill("SIGHUP");
  await program.says("certificate reloaded");
  assert.equal((await connect().get("/livez")).servedBy, "second");
});
