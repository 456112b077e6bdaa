import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { newWorkerToken } from "../../src/domain/account/key.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { taskClient } from "../helpers/task-client.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { type Language, pathOf, reasonToSkip } from "../receivers/receiver-process.ts";

const OWN_PACKAGE = import.meta.resolve("../helpers/own-package.ts");

const PYTHON: Language = {
  name: "Python",
  file: "examples/workers/worker.py",
  probe: ["python3", "--version"],
  command: () => ["python3", pathOf(PYTHON)],
};

const TYPESCRIPT: Language = {
  name: "TypeScript",
  file: "examples/workers/worker.ts",
  probe: [process.execPath, "--version"],
  command: () => [process.execPath, "--import", OWN_PACKAGE, pathOf(TYPESCRIPT)],
};

const DOCUMENT = join(dirname(dirname(import.meta.dirname)), "docs", "guides", "workers.md");
const TOML = '[types.sleep]\nrunner = "worker"\nlease = "5s"\n';

function startExample(
  t: TestContext,
  language: Language,
  { url, token }: { readonly url: string; readonly token: string },
) {
  return startProgram(t, [], {
    command: language.command(""),
    env: { POSTBACKD_URL: url, POSTBACKD_TOKEN: token, BEAT_SECONDS: "0.3" },
  });
}

for (const language of [PYTHON, TYPESCRIPT]) {
  const { name } = language;
  const options = { skip: reasonToSkip(language) };

  test(
    `the worker in ${name} completes and fails tasks, and keeps a lease with heartbeats`,
    options,
    async (t) => {
      const daemon = await startTestDaemon(t, { toml: TOML });
      const token = await createTestWorker(daemon.file, ["sleep"]);
      startExample(t, language, { url: daemon.url, token });

      const client = taskClient({ url: daemon.url, key: daemon.account.key });
      const longId = await client.post({ input: { seconds: 6 } });
      const wrongId = await client.post({ input: null });
      const [long, wrong] = [await client.ended(longId), await client.ended(wrongId)];

      assert.deepEqual([long.state, long.result, long.runs], ["completed", { slept: 6 }, 1]);
      assert.deepEqual([wrong.state, wrong.status_code], ["failed", 50010]);
      assert.ok((wrong.error?.message ?? "").length > 5);
    },
  );

  test(`the worker in ${name} survives a kill of its daemon`, options, async (t) => {
    const cwd = temporaryFolder(t);
    writeFileSync(join(cwd, "postbackd.toml"), TOML);
    const token = await createTestWorker(join(cwd, "postbackd.db"), ["sleep"]);
    const account = await createTestAccount(join(cwd, "postbackd.db"));
    const start = ["start", "--port", String(await findFreePort())];
    const first = startProgram(t, start, { cwd });
    const { url } = await first.ready;
    const client = taskClient({ url, key: account.key });
    const input = { seconds: 0.01 };
    const worker = startExample(t, language, { url, token });
    assert.equal((await client.ended(await client.post({ input }))).state, "completed");

    first.kill("SIGKILL");
    await first.exit;
    await worker.says(name === "Python" ? "no answer" : "no usable answer");
    await startProgram(t, start, { cwd }).ready;

    assert.equal((await client.ended(await client.post({ input }))).state, "completed");
  });

  test(`the worker in ${name} stops a cancelled task`, options, async (t) => {
    const id = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
    const { key: token } = newWorkerToken();
    const asked: string[] = [];
    const again = Promise.withResolvers<void>();
    const server = createServer((request, response) => {
      const operation = request.url?.slice("/v1/worker/".length) ?? "";
      const isFirst = !asked.includes(operation);
      asked.push(operation);
      const lease = { lease_id: "a", lease_expires_at: new Date(Date.now() + 1000) };
      const task = { id, type: "sleep", input: { seconds: 3600 }, outcome: "cancelled", ...lease };
      if (operation === "claim" && !isFirst) again.resolve();
      response.end(JSON.stringify({ tasks: operation === "claim" && !isFirst ? [] : [task] }));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.after(() => server.close());
    const address = server.address();
    assert.ok(typeof address === "object" && address !== null);

    startExample(t, language, { url: `http://127.0.0.1:${address.port}`, token });
    await again.promise;

    assert.equal(asked.filter((operation) => operation === "heartbeat").length, 1);
  });

  test(`the worker in ${name} ends when its token is wrong`, options, async (t) => {
    const daemon = await startTestDaemon(t, { toml: TOML });
    const worker = startExample(t, language, { url: daemon.url, token: newWorkerToken().key });

    assert.equal((await worker.exit).code, 1);
    assert.match(worker.stderr, /40100/);
  });
}

test("docs/guides/workers.md links both workers", () => {
  const text = readFileSync(DOCUMENT, "utf8");

  for (const { file } of [PYTHON, TYPESCRIPT]) assert.ok(text.includes(`(../../${file})`), file);
});
