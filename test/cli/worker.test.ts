import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { runHere } from "./in-process.ts";

const TOKEN = newWorkerToken().key;
const KEY = newKey().key;
// Nothing listens there: the commands are refused before they connect.
const URL = "http://127.0.0.1:1";

test("worker and listen refuse a malformed credential without repeating it", async (t) => {
  const work = ["worker", "--url", URL, "--type", "x"];
  const listen = ["listen", "--url", URL, "--forward-to", `${URL}/hook`];
  const file = join(temporaryFolder(t), "token");

  for (const wrong of [KEY, `${TOKEN.slice(0, -1)}_`, `${TOKEN} `, "hunter2-hunter2"]) {
    writeFileSync(file, `${wrong}x`);
    for (const [words, env] of [
      [[...work, "--token", wrong, "--", "true"], {}],
      [[...work, "--", "true"], { POSTBACKD_TOKEN: wrong }],
      [[...work, "--", "true"], { POSTBACKD_TOKEN_FILE: file }],
      [listen, { POSTBACKD_KEY: wrong.replace(KEY, `${KEY.slice(0, -1)}_`) }],
    ] as const) {
      const finished = await runHere(t, words, { env });
      assert.equal(finished.code, 2);
      assert.match(finished.stderr, /pbd_(?:work|live)_ and 40 characters/);
      assert.ok(!finished.stderr.includes(wrong.slice(9, 15)), finished.stderr);
    }
  }
});

/** A daemon that refuses every worker; `asked` is the first request. */
async function startRefusing(t: TestContext) {
  const asked = Promise.withResolvers<IncomingMessage>();
  const server = createServer((request, response) => {
    asked.resolve(request);
    response.statusCode = 401;
    response.end('{"status_code":40100,"status_message":"Authentication failed."}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return { url: `http://127.0.0.1:${address.port}/below`, asked: asked.promise };
}

test("worker uses the token of the flag, then of the variable, then of the file", async (t) => {
  const [flag, variable, inFile] = [
    newWorkerToken().key,
    newWorkerToken().key,
    newWorkerToken().key,
  ];
  const file = join(temporaryFolder(t), "token");
  writeFileSync(file, `${inFile}\n`);
  const cases = [
    [["--token", flag], { POSTBACKD_TOKEN: variable, POSTBACKD_TOKEN_FILE: file }, flag],
    [[], { POSTBACKD_TOKEN: variable, POSTBACKD_TOKEN_FILE: file }, variable],
    [[], { POSTBACKD_TOKEN: "", POSTBACKD_TOKEN_FILE: file }, inFile],
  ] as const;

  for (const [more, env, token] of cases) {
    const { url, asked } = await startRefusing(t);
    const args = ["worker", "--url", url, "--type", "x", ...more, "--", "true", "--help"];
    const finished = await runHere(t, args, { env });
    const request = await asked;

    assert.equal(request.headers.authorization, `Bearer ${token}`);
    assert.equal(request.url, "/below/v1/worker/claim");
    assert.deepEqual([finished.code, finished.stdout], [1, ""]);
    assert.match(finished.stderr, /40100/);
  }
});
