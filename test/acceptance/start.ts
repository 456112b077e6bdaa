import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { makeCertificate } from "../helpers/certificate.ts";
import { farStart } from "../helpers/far-start.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import { bearer, Client, only } from "./client.ts";
import { PART, type Started, type Subject } from "./subject.ts";

const START = ["start", "--port", "0"];

/** cli.md, `start`. */
export function exerciseStart(subject: Subject): void {
  test("start, as in cli.md", PART, async (t) => {
    await readiness(t, subject);
    await flags(t, subject);
    await end(t, subject);
  });
}

async function readiness(t: TestContext, subject: Subject): Promise<void> {
  await t.test(
    "start writes one JSON line to stdout when it is ready, and logs to stderr",
    async (t) => {
      const program = subject.launch(t, [...START, "--ready-file", "ready.json"]);
      const ready = await program.ready;
      const file = readFileSync(join(program.cwd, "ready.json"), "utf8");
      const { version: _version, ...known } = ready;
      assert.equal((await fetch(`${ready.url}/readyz`)).status, 200);
      await program.stop();

      assert.equal(program.stdout, `${JSON.stringify(ready)}\n`);
      assert.equal(file, program.stdout);
      assert.equal(statSync(ready.db).mode & 0o777, 0o600);
      const { port, pid } = ready;
      const db = join(program.cwd, "postbackd.db");
      assert.deepEqual(known, { event: "ready", url: `http://127.0.0.1:${port}`, port, pid, db });
      assert.deepEqual([pid, port > 0], [program.pid, true]);
      const version = await subject.run(t, ["--version"]);
      assert.equal(version.stdout, `${ready.version}\n`);
      const lines = program.stderr.split("\n").filter((line) => line !== "");
      assert.ok(lines.length > 0);
      for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line);
    },
  );
}

async function flags(t: TestContext, subject: Subject): Promise<void> {
  await t.test("start uses --config, --db and --host", async (t) => {
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "other.toml"), 'port = 0\n[types.only]\nrunner = "echo"\n');
    const args = ["start", "--config", "other.toml", "--db", "other.db", "--host", "127.0.0.2"];
    const program = subject.launch(t, args, { cwd });
    const { url, port, db } = await program.ready;
    const client = await clientOf(t, { subject, program, db });

    assert.deepEqual([url, db], [`http://127.0.0.2:${port}`, join(cwd, "other.db")]);
    assert.equal(only(await client.run({ input: 1 })).type, "only");
  });

  await t.test("start --allow-target allows its targets and no others", async (t) => {
    const receiver = await startReceiver(t);
    const targets = ["10.1.0.0/16", `127.0.0.1:${receiver.port}`, "localhost"];
    const words = targets.flatMap((target) => ["--allow-target", target]);
    const program = subject.launch(t, [...START, ...words]);
    const client = await clientOf(t, { subject, program });
    const codeOf = async (postback_url: string): Promise<number> =>
      only(await client.post({ postback_url, start_at: farStart() })).status_code;

    await client.run({ postback_url: receiver.url("/sent") });
    assert.equal((await receiver.next()).url, "/sent");
    assert.equal(await codeOf("http://10.1.255.1:99/"), 20100);
    assert.equal(await codeOf("http://localhost:99/"), 20100);
    assert.equal(await codeOf("http://127.0.0.1:1/"), 40501);
    assert.equal(await codeOf("http://10.2.0.1/"), 40501);
  });

  await t.test("start --tls-cert --tls-key serves HTTPS", async (t) => {
    const cwd = temporaryFolder(t);
    const { cert, key } = makeCertificate({ commonName: "x", addresses: ["127.0.0.1"] });
    writeFileSync(join(cwd, "cert.pem"), cert);
    writeFileSync(join(cwd, "key.pem"), key);
    const pair = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    const { url } = await subject.launch(t, [...START, ...pair], { cwd }).ready;
    const sent = request(`${url}/readyz`, { ca: cert });
    sent.end();
    const [response] = await once(sent, "response");
    response.resume();

    assert.match(url, /^https:\/\/127\.0\.0\.1:\d+$/);
    assert.equal(response.statusCode, 200);
    const health = await subject.run(t, ["health"], { cwd });
    assert.equal(health.code, 0, health.stdout);
  });
}

async function end(t: TestContext, subject: Subject): Promise<void> {
  await t.test("start finishes an attempt in flight at SIGTERM, then exits with 0", async (t) => {
    const gate = createGate();
    const reply = { kind: "status", status: 204 } as const;
    const receiver = await startReceiver(t, {
      reply: { kind: "held", until: gate.opened, reply },
    });
    const program = subject.launch(t, [...START, "--allow-target", "127.0.0.1"]);
    const client = await clientOf(t, { subject, program });
    await client.run({ postback_url: receiver.url() });
    await receiver.next();
    program.kill("SIGTERM");
    await program.says("stopping");
    gate.open();

    assert.deepEqual(await program.exit, { code: 0, signal: null });
  });
}

interface Serving {
  readonly subject: Subject;
  readonly program: Started;
  /** Of a database that is not `postbackd.db` in the working folder. */
  readonly db?: string;
}

/** A client of a started program, with an account of its own. */
async function clientOf(t: TestContext, { subject, program, db }: Serving): Promise<Client> {
  const { url } = await program.ready;
  const words = ["admin", "account", "create", "tester", "--json"];
  const where = db === undefined ? [] : ["--db", db];
  const made = await subject.run(t, [...words, ...where], { cwd: program.cwd });
  assert.equal(made.code, 0, made.stderr);
  return new Client(url, bearer(JSON.parse(made.stdout).key.key));
}
