import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { newKey } from "../../src/domain/account/key.ts";
import type { ObservedRequest } from "../../src/domain/observer.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { runProgram, type Finished } from "../helpers/program.ts";
import { startReceiver, type Reply } from "../helpers/receiver.ts";
import { type Language, buildGo, pathOf, reasonToSkip } from "../receivers/receiver-process.ts";

const PYTHON: Language = {
  name: "Python",
  file: "examples/clients/client.py",
  probe: ["python3", "--version"],
  command: () => ["python3", pathOf(PYTHON)],
};

const GO: Language = {
  name: "Go",
  file: "examples/clients/client.go",
  probe: ["go", "version"],
  command: (folder) => [buildGo(pathOf(GO), folder)],
};

const TOML = '[types.echo]\nrunner = "echo"\n[types.fails]\ncommand = ["false"]\n';
const ID = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";

interface Place {
  readonly url: string;
  readonly key: string;
}

type Run = (t: TestContext, place: Place, task: object) => Promise<Finished>;

for (const language of [PYTHON, GO]) {
  describe(`the client in ${language.name}`, { skip: reasonToSkip(language) }, () => {
    const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
    let command: readonly [string, ...string[]];
    before(() => {
      command = language.command(folder);
    });
    after(() => rmSync(folder, { recursive: true, force: true }));

    describeTasks((t, { url, key }, task) =>
      runProgram(t, ["run", JSON.stringify(task)], {
        command,
        env: { POSTBACKD_URL: url, POSTBACKD_KEY: key },
      }),
    );

    test("verifies the daemon's signatures, also during a rotation, and no others", async (t) => {
      const { body, signature, secret } = await receivedPostback(t);
      const verify = (secrets: string, input: string | Buffer, ...signatures: string[]) => {
        const [program, ...fixed] = command;
        const env = { ...process.env, WEBHOOK_SECRETS: secrets };
        return spawnSync(program, [...fixed, "verify", ...signatures], { input, env }).status;
      };

      assert.equal(verify(secret, body, signature), 0);
      assert.equal(verify(`whsec_other ${secret}`, body, "sha256=00", signature), 0);
      assert.equal(verify("whsec_other", body, signature), 1);
      assert.equal(verify("", body, signature), 1);
      assert.equal(verify(secret, `${body.toString()} `, signature), 1);
      assert.equal(verify(secret, body, signature.toUpperCase()), 1);
      assert.equal(verify(secret, body, "ü"), 1);
    });
  });

  test(`the guide of the client links the client in ${language.name}`, () => {
    const text = readFileSync(join(ROOT, "docs", "guides", "js-client.md"), "utf8");

    assert.ok(text.includes(`[${language.file}](../../${language.file})`), language.file);
  });
}

const TOO_LONG = 'import client; client.call("POST", "/v1/tasks/task_post", ["x" * 20_000_000])';

test(
  "the client in Python sends a too long body once, and prints the refusal",
  { skip: reasonToSkip(PYTHON) },
  async (t) => {
    const statuses: (number | null)[] = [];
    const observer = { request: ({ status }: ObservedRequest) => void statuses.push(status) };
    const { url, account } = await startTestDaemon(t, { observer });

    const { code, stderr } = await runProgram(t, ["-c", TOO_LONG], {
      command: ["python3"],
      env: {
        ...{ POSTBACKD_URL: url, POSTBACKD_KEY: account.key },
        PYTHONPATH: dirname(pathOf(PYTHON)),
      },
    });

    assert.equal(code, 1);
    assert.match(stderr, /"status_code":41300/);
    assert.deepEqual(statuses, [413]);
  },
);

function describeTasks(run: Run): void {
  test("prints the result of a task that has completed", async (t) => {
    const { url, account } = await startTestDaemon(t, { toml: TOML });
    const input = ["ü😀", { n: 1.5 }];

    const { code, stdout, stderr } = await run(
      t,
      { url, key: account.key },
      { type: "echo", input },
    );

    assert.deepEqual([code, stderr], [0, ""]);
    assert.deepEqual(JSON.parse(stdout), input);
  });

  test("prints the error of a failed, refused or forbidden task, and ends with 1", async (t) => {
    const { url, account } = await startTestDaemon(t, { toml: TOML });
    const { key } = account;

    const failed = await run(t, { url, key }, { type: "fails" });
    const refused = await run(t, { url, key }, { type: "echo", inputt: 1 });
    const unknown = await run(t, { url, key: newKey().key }, { type: "echo" });

    assert.deepEqual([failed.code, refused.code, unknown.code], [1, 1, 1]);
    assert.match(failed.stderr, /50010|Failed/);
    assert.match(refused.stderr, /inputt/);
    assert.match(unknown.stderr, /40100/);
  });

  test("repeats a post without a response with the same key, and waits for the end of the task", async (t) => {
    const status = (code: number, task: object, headers = {}): Reply => {
      const body = JSON.stringify({ status_code: 20000, tasks: [{ id: ID, ...task }] });
      return { kind: "status", status: code, headers, body };
    };
    const replies: readonly Reply[] = [
      status(503, {}, { "retry-after": "0" }),
      { kind: "reset" },
      status(200, { state: "queued" }),
      status(200, { state: "running" }),
      status(200, { state: "completed", result: 7 }),
    ];
    const daemon = await startReceiver(t, { reply: (_, index) => replies[index] ?? assert.fail() });

    const { stdout } = await run(t, { url: daemon.url(), key: "k" }, { type: "echo" });

    assert.equal(stdout, "7\n");
    const keys = daemon.requests.map(({ headers }) => headers["idempotency-key"]);
    assert.match(keys[0] ?? "", /^[-\da-f]{32,}$/);
    assert.deepEqual(keys, [keys[0], keys[0], keys[0], undefined, undefined]);
    assert.equal(daemon.requests[3]?.headers["prefer"], "wait=60");
  });

  test("names POSTBACKD_URL if its value is not a URL", async (t) => {
    const { code, stderr } = await run(t, { url: "127.0.0.1:8787", key: "k" }, { type: "echo" });

    assert.equal(code, 1);
    assert.match(stderr, /POSTBACKD_URL/);
  });

  test("follows no redirect, so that no other server gets the key", async (t) => {
    const other = await startReceiver(t);
    const headers = { location: other.url() };
    const daemon = await startReceiver(t, { reply: { kind: "status", status: 307, headers } });

    const { code } = await run(t, { url: daemon.url(), key: "k" }, { type: "echo" });

    assert.equal(code, 1);
    assert.equal(other.requests.length, 0);
  });
}

async function receivedPostback(t: TestContext) {
  const receiver = await startReceiver(t);
  const { post, account } = await startTestDaemon(t);
  await post([{ input: "ü😀", postback_url: receiver.url() }]);
  const [request] = await receiver.waitFor(1);
  const { rawBody: body, headers } = request ?? assert.fail();
  return { body, signature: headers["x-signature"] ?? "", secret: account.secret };
}
