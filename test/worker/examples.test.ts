import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { newWorkerToken } from "../../src/domain/account/key.ts";
import { openPlace } from "../flow/place.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { startProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
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
const TOML = '[types.sleep]\nrunner = "worker"\nlease = "3s"\n';

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
    `the worker in ${name} completes and fails tasks, keeps a lease with heartbeats, and ends if its token is wrong`,
    options,
    async (t) => {
      const daemon = await startTestDaemon(t, { toml: TOML });
      const token = await createTestWorker(daemon.file, ["sleep"]);
      startExample(t, language, { url: daemon.url, token });
      const stranger = startExample(t, language, { url: daemon.url, token: newWorkerToken().key });

      const client = taskClient({ url: daemon.url, key: daemon.account.key });
      const longId = await client.post({ input: { seconds: 4 } });
      const wrongId = await client.post({ input: null });
      const [long, wrong] = [await client.ended(longId), await client.ended(wrongId)];

      assert.deepEqual([long.state, long.result, long.runs], ["completed", { slept: 4 }, 1]);
      assert.deepEqual([wrong.state, wrong.status_code], ["failed", 50010]);
      assert.ok((wrong.error?.message ?? "").length > 5);
      assert.equal((await stranger.exit).code, 1);
      assert.match(stranger.stderr, /40100/);
    },
  );

  test(`the worker in ${name} survives a kill of its daemon`, options, async (t) => {
    const place = await openPlace(t, TOML);
    const token = await createTestWorker(place.file, ["sleep"]);
    const { client, kill, url, port } = await place.start(await findFreePort());
    const input = { seconds: 0.01 };
    const worker = startExample(t, language, { url, token });
    assert.equal((await client.ended(await client.post({ input }))).state, "completed");

    await kill();
    await worker.says(name === "Python" ? "no answer" : "no usable answer");
    await place.start(port);

    assert.equal((await client.ended(await client.post({ input }))).state, "completed");
  });

  test(`the worker in ${name} stops a cancelled task`, options, async (t) => {
    const id = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
    const { key: token } = newWorkerToken();
    const server = await startReceiver(t);
    let claims = 0;
    server.answer(({ url }) => {
      const lease = { lease_id: "a", lease_expires_at: new Date(Date.now() + 1000) };
      const task = { id, type: "sleep", input: { seconds: 3600 }, outcome: "cancelled", ...lease };
      const tasks = url.endsWith("/claim") && claims++ > 0 ? [] : [task];
      return { kind: "status", status: 200, body: JSON.stringify({ tasks }) };
    });

    startExample(t, language, { url: server.url("").replace(/\/$/, ""), token });
    while (claims < 2) await server.next();

    const beats = server.requests.filter(({ url }) => url.endsWith("/heartbeat"));
    assert.equal(beats.length, 1);
  });
}

test("docs/guides/workers.md links both workers", () => {
  const text = readFileSync(DOCUMENT, "utf8");

  for (const { file } of [PYTHON, TYPESCRIPT]) assert.ok(text.includes(`(../../${file})`), file);
});
