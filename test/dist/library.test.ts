import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { folderWith, testPackage } from "../package/packages.ts";
import { findProgram, RUNTIME_NAMES, tellRun } from "../runtimes/runtimes.ts";

const ARCHIVE = testPackage();

for (const [file, imports] of [
  ["verify.js", []],
  ["client/client.js", []],
  ["testing/testing.js", ['import("../daemon/daemon.cjs")']],
] as const) {
  test(`dist/${file} uses the globals of every runtime alone`, () => {
    const source = readFileSync(join(ROOT, "dist", file), "utf8");

    const found = source.matchAll(/^\s*import\b.*|\bimport\s*\(.*?\)|\brequire\s*\(.*/gm);
    assert.deepEqual(
      [...found].map(([text]) => text),
      imports,
    );
    assert.doesNotMatch(source, /\bBuffer\b/);
  });
}

test("typesVersions names the types for compilers that read no exports (node10)", (t) => {
  const home = join(folderWith(t, ARCHIVE), "node_modules", "postbackd");
  const manifest: {
    readonly typesVersions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));

  const named = manifest.typesVersions["*"] ?? {};

  assert.deepEqual(Object.keys(named), ["client", "testing", "verify", "worker"]);
  for (const [name, [file = ""]] of Object.entries(named)) {
    assert.match(readFileSync(join(home, file), "utf8"), /^export /m, name);
  }
});

/** A script that imports or requires modules, by their names in it, as a program of each kind. */
function programsOf(
  modules: Readonly<Record<string, string>>,
  script: string,
): readonly (readonly [file: string, text: string])[] {
  const lines = (line: (name: string, from: string) => string): string =>
    Object.entries(modules)
      .map(([name, from]) => line(name, from))
      .join("\n");
  const main = `\nconst main = async () => {${script}};\nvoid main();\n`;
  return [
    ["run.mjs", lines((name, from) => `import * as ${name} from "${from}";`) + main],
    ["run.cjs", lines((name, from) => `const ${name} = require("${from}");`) + main],
  ];
}

/** Runs a program in this Node, and returns its output. Without the flag a require uses the module of an import. */
async function runHere(
  t: TestContext,
  [file, text]: readonly [string, string],
  ...flags: string[]
) {
  const cwd = folderWith(t, ARCHIVE);
  writeFileSync(join(cwd, file), text);
  writeFileSync(join(cwd, "hook.mjs"), 'console.log("hook");');
  const command = [process.execPath, "--no-experimental-require-module", ...flags] as const;
  const { code, stdout, stderr } = await runProgram(t, [file], { command, cwd });
  assert.equal(code, 0, stderr);
  return stdout;
}

const SECRET = newWebhookSecret();
const BODY = '{"tasks":[{"result":"ü😀"}]}';
const URL_SENT = "https://receiver.example/p?t=%C3%BC";

function sign(message: string): string {
  return `sha256=${createHmac("sha256", SECRET).update(message).digest("hex")}`;
}

const CHECK = `
  const body = new TextEncoder().encode(${JSON.stringify(BODY)});
  const secrets = ["another", ${JSON.stringify(SECRET)}];
  const header = ${JSON.stringify(sign(BODY))};
  for (const { verifyPingback, verifyPostback } of [library, only]) {
    const verdicts = await Promise.all([
      verifyPostback(body, header, secrets),
      verifyPostback(body.buffer, header, secrets),
      verifyPostback(body, header, "another"),
      verifyPostback(body.slice(1), header, secrets),
      verifyPostback(body, null, secrets),
      verifyPingback(${JSON.stringify(URL_SENT)}, ${JSON.stringify(sign(URL_SENT))}, secrets),
      verifyPingback("https://other.example/", ${JSON.stringify(sign(URL_SENT))}, secrets),
      verifyPostback({ parsed: true }, header, secrets).catch((error) => error.name),
    ]);
    console.log(JSON.stringify(verdicts));
  }
`;
const VERDICTS = '[true,true,false,false,false,true,false,"TypeError"]\n';

for (const program of programsOf({ library: "postbackd", only: "postbackd/verify" }, CHECK)) {
  test(`${program[0]} verifies webhooks with the packed package`, async (t) => {
    assert.equal(await runHere(t, program), VERDICTS + VERDICTS);
  });
}

const DAEMON = `
  const command = [process.execPath, "--print", "process.ppid"];
  const types = { double: ({ input }) => 2 * input, parent: { command } };
  const daemon = await library.createDaemon({ types });
  const { key } = await daemon.account();
  const headers = { authorization: "Bearer " + key, "content-type": "application/json" };
  const tasks = '[{"type":"double","input":4},' + " ".repeat(70000) + '{"type":"parent"}]';
  await fetch(daemon.url + "/v1/tasks/task_post", { method: "POST", headers, body: tasks });
  await daemon.idle();
  const listed = await (await fetch(daemon.url + "/v1/tasks", { headers })).json();
  const results = [];
  for (const { id } of listed.tasks) {
    const response = await fetch(daemon.url + "/v1/tasks/task_get/" + id, { headers });
    results.push((await response.json()).tasks[0].result);
  }
  await daemon.stop();
  const [parent, double] = results;
  console.log(double, typeof parent, parent === process.pid);
`;

for (const program of programsOf({ library: "postbackd" }, DAEMON)) {
  test(`${program[0]} embeds a daemon with its threads and its process for commands, without the program's options`, async (t) => {
    const said = await runHere(t, program, "--import", "./hook.mjs");

    assert.equal(said, "hook\n8 number false\n");
  });
}

/** A worker whose token is refused by a server in the place of a daemon. */
const WORK = `
  const { createServer } = await import("node:http");
  const server = createServer((_request, response) => {
    response.statusCode = 401;
    response.end('{"status_code":40101,"status_message":"API key revoked."}');
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const url = "http://127.0.0.1:" + server.address().port;
  const token = "pbd_work_" + "a".repeat(40);
  const worker = library.createWorker({ url, token, types: { x: () => 1 } });
  await worker.run().catch((error) => console.log(error.message.slice(0, 37)));
  server.close();
`;
const REFUSED = "the daemon refuses this worker: 40101\n";

// The library for workers is for Node alone.
for (const name of RUNTIME_NAMES.filter((each) => each.startsWith("Node"))) {
  for (const [file, text] of programsOf({ library: "postbackd/worker" }, WORK)) {
    test(`${file} runs the packed library for workers in ${name}`, async (t) => {
      const runtime = findProgram(t, name);
      if (runtime === null) return;
      const cwd = folderWith(t, ARCHIVE);
      writeFileSync(join(cwd, file), text);
      const command = [runtime.program, ...runtime.args] as const;

      const { stdout, stderr } = await runProgram(t, [file], { command, cwd });

      tellRun(t, runtime, `${file} ${stdout}`);
      assert.equal(stdout, REFUSED, stderr);
    });
  }
}

const TEST = `
  const url = process.argv[2];
  const daemon = await (url === undefined ? testing.startDaemon() : testing.connectDaemon({ url }));
  const inbox = daemon.inbox();
  await inbox.answer([], 503);
  const { id } = await daemon.client.tasks.post({ input: 42, postback_url: inbox.url });
  await daemon.advance("21m");
  const attempts = (await inbox.messages({ count: 4 })).map(({ attempt }) => attempt);
  const [{ state }] = await daemon.client.tasks.deliveries(id);
  await inbox.clear();
  await daemon.client.tasks.redeliver(id);
  const { body, headers } = await inbox.next();
  const isGenuine = await only.verifyPostback(body, headers["x-signature"], daemon.webhookSecret);
  await daemon.stop();
  console.log(JSON.stringify([attempts, state, isGenuine]));
`;
const SAID = '[[1,2,3,4],"given_up",true]\n';

for (const program of programsOf(
  { testing: "postbackd/testing", only: "postbackd/verify" },
  TEST,
)) {
  const [file, text] = program;
  test(`${file} starts a daemon for tests of the packed package`, async (t) => {
    assert.equal(await runHere(t, program), SAID);
  });

  for (const name of RUNTIME_NAMES) {
    test(`${file} tests with a packed daemon elsewhere in ${name}`, async (t) => {
      const runtime = findProgram(t, name);
      if (runtime === null) return;
      const cwd = folderWith(t, ARCHIVE);
      // Deno takes nothing of node_modules that is not named.
      writeFileSync(join(cwd, "package.json"), '{"dependencies":{"postbackd":"*"}}');
      writeFileSync(join(cwd, file), text);
      const command = join(cwd, "node_modules", "postbackd", "dist", "command.cjs");
      const dev = startProgram(t, ["dev", "--port", "0", "--clock", "manual"], {
        command: [process.execPath, command],
      });
      const { url } = await dev.ready;

      const { stdout, stderr } = await runProgram(t, [...runtime.args, file, url], {
        command: [runtime.program],
        cwd,
        env: { ...runtime.env, DENO_DIR: join(cwd, "deno") },
      });

      tellRun(t, runtime, `${file} ${stdout}`);
      assert.equal(stdout, SAID, stderr);
    });
  }
}

for (const [module, name] of [
  ["postbackd", "createDaemon"],
  ["postbackd/testing", "startDaemon"],
] as const) {
  test(`${name} on an older Node names the version that it needs`, async (t) => {
    const cwd = folderWith(t, ARCHIVE);
    const script = `
      import { ${name} } from "${module}";
      Object.defineProperty(process, "versions", { value: { node: "20.20.2" } });
      await ${name}({ types: {} }).catch((error) => console.log(error.message));
    `;
    writeFileSync(join(cwd, "old.mjs"), script);

    const command = [process.execPath] as const;
    const { stdout, stderr } = await runProgram(t, ["old.mjs"], { command, cwd });

    assert.match(stdout, new RegExp(`^${name} needs Node 24 .*20\\.20\\.2`), stderr);
  });
}
