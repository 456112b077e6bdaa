import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { createTestAccount } from "../helpers/daemon.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";

const TOKEN = newWorkerToken().key;
// Nobody listens there: what is refused must be refused before it is asked.
const URL = "http://127.0.0.1:1";

const WRONG: readonly [words: string, code: number, stderr: RegExp][] = [
  ["--type x -- true", 2, /^postbackd: give the daemon's base URL, with --url URL\n/],
  ["--url ftp://a --type x -- true", 2, /^postbackd: --url takes a base URL such as https:/],
  [
    "--url http://a:b@127.0.0.1 --type x -- true",
    2,
    /^postbackd: --url takes .+, without a user\n/,
  ],
  [`--url ${URL}/?x=1 --type x -- true`, 2, /^postbackd: --url takes a base URL/],
  [`--url ${URL} -- true`, 2, /^postbackd: --type is missing\n/],
  [`--url ${URL} --type a/b -- true`, 2, /^postbackd: --type must be .+, not "a\/b"\n/],
  [`--url ${URL} --type x`, 2, /^postbackd: COMMAND is missing\n/],
  [`--url ${URL} --type x --`, 2, /^postbackd: COMMAND is missing\n/],
  [`--url ${URL} --type x node -e 1`, 2, /^postbackd: unknown flag "-e"/],
  [
    `--url ${URL} --type x --concurrency 0 -- true`,
    2,
    /^postbackd: --concurrency must be .+ 1 to 100/,
  ],
  [`--url ${URL} --type x --concurrency 101 -- true`, 2, /^postbackd: --concurrency must be /],
  [`--url ${URL} --type x --concurrency 1e1 -- true`, 2, /^postbackd: --concurrency must be /],
  [`--url ${URL} --type x --timeout 5 -- true`, 2, /^postbackd: --timeout needs a unit/],
  [
    "--url http://192.0.2.1 --type x -- true",
    78,
    /^postbackd: http:\/\/192\.0\.2\.1 is plain HTTP beyond/,
  ],
  [
    "--url http://[2001:db8::1]:80 --type x -- true",
    78,
    /^postbackd: http:\/\/\[2001:db8::1\] is plain HTTP/,
  ],
  [
    `--url ${URL} --type x -- ./no-such-program`,
    1,
    /^postbackd: The program '\.\/no-such-program' was not/,
  ],
];

for (const [words, code, stderr] of WRONG) {
  test(`says what is wrong: worker ${words}`, async (t) => {
    const env = { POSTBACKD_TOKEN: TOKEN };

    const finished = await runProgram(t, ["worker", ...words.split(" ")], { env });

    assert.deepEqual([finished.code, finished.stdout], [code, ""], finished.stderr);
    assert.match(finished.stderr, stderr);
  });
}

test("refuses what is no worker's token, and repeats nothing of it", async (t) => {
  const args = ["worker", "--url", URL, "--type", "x"];
  const file = join(temporaryFolder(t), "token");

  for (const wrong of [newKey().key, `${TOKEN.slice(0, -1)}_`, `${TOKEN} `, "hunter2-hunter2"]) {
    writeFileSync(file, `${wrong}x`);
    for (const { flag = [], env = {} } of [
      { flag: ["--token", wrong] },
      { env: { POSTBACKD_TOKEN: wrong } },
      { env: { POSTBACKD_TOKEN_FILE: file } },
    ]) {
      const finished = await runProgram(t, [...args, ...flag, "--", "true"], { env });
      assert.equal(finished.code, 2);
      assert.match(
        finished.stderr,
        /holds no worker's token, which is pbd_work_ and 40 characters/,
      );
      assert.ok(!finished.stderr.includes(wrong.slice(9, 15)), finished.stderr);
    }
  }
});

test("asks for a token where none is given, and names a file that cannot be read", async (t) => {
  const args = ["worker", "--url", URL, "--type", "x", "--", "true"];

  const none = await runProgram(t, args);
  const noFile = await runProgram(t, args, { env: { POSTBACKD_TOKEN_FILE: "/no/such/file" } });

  assert.equal(none.code, 2);
  assert.match(none.stderr, /^postbackd: give the worker's token, in POSTBACKD_TOKEN, /);
  assert.equal(noFile.code, 2);
  assert.match(
    noFile.stderr,
    /"\/no\/such\/file" of POSTBACKD_TOKEN_FILE cannot be read \(ENOENT\)/,
  );
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

test("takes the token of the flag before the variable's, and the variable's before the file's", async (t) => {
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
    const finished = await runProgram(t, args, { env });
    const request = await asked;

    assert.equal(request.headers.authorization, `Bearer ${token}`);
    assert.equal(request.url, "/below/v1/worker/claim");
    assert.deepEqual([finished.code, finished.stdout], [1, ""]);
    assert.match(
      finished.stderr,
      /^postbackd: the daemon refuses this worker: 40100 Auth.+token\.\n$/,
    );
  }
});

test("leaves a worker's variables alone in every other command", async (t) => {
  const env = { POSTBACKD_TOKEN: TOKEN, POSTBACKD_TOKEN_FILE: "x", POSTBACKD_TASK_ID: "y" };
  const file = join(temporaryFolder(t), "test.db");
  await createTestAccount(file);

  const args = ["admin", "worker", "list", "--json", "--db", file];
  const finished = await runProgram(t, args, { env });

  assert.deepEqual([finished.code, finished.stdout], [0, '{"workers":[]}\n']);
});
