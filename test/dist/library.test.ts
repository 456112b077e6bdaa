import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { exchange } from "../helpers/raw-http.ts";
import { folderWith, testPackage } from "../package/packages.ts";
import { TYPESCRIPT, pathOf, startReceiverProcess } from "../receivers/receiver-process.ts";
import { findProgram, RUNTIME_NAMES, tellRun, type Runtime } from "../runtimes/runtimes.ts";

const ROOT = dirname(dirname(import.meta.dirname));
const SECRET = newWebhookSecret();
const BODY = '{"tasks":[{"result":"ü😀"}]}';
const URL_SENT = "https://receiver.example/p?t=%C3%BC";

function sign(message: string): string {
  return `sha256=${createHmac("sha256", SECRET).update(message).digest("hex")}`;
}

const CHECK = `
  const { verifyPingback, verifyPostback } = library;
  const body = new TextEncoder().encode(${JSON.stringify(BODY)});
  const secrets = ["another", ${JSON.stringify(SECRET)}];
  const header = ${JSON.stringify(sign(BODY))};
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
`;
const VERDICTS = [true, true, false, false, false, true, false, "TypeError"];

const ARCHIVE = testPackage();

/** The package as its users have it. */
function install(t: TestContext): string {
  return folderWith(t, ARCHIVE);
}

function runIn({ program, args, env }: Runtime, file: string, cwd: string): string {
  return finish(program, [...args, file], { cwd, env: { ...env, DENO_DIR: join(cwd, "deno") } });
}

function run(program: string, args: readonly string[], cwd: string): string {
  return finish(program, args, { cwd, env: {} });
}

interface Place {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

function finish(program: string, args: readonly string[], { cwd, env }: Place): string {
  // The test runner's own variable would make a child report to it.
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd,
    env: { ...process.env, ...env, NODE_TEST_CONTEXT: undefined },
    encoding: "utf8",
  });
  assert.equal(status, 0, `${error?.message ?? ""}${stdout}${stderr}`);
  return stdout;
}

test("dist/verify.js runs with Web Crypto and TextEncoder alone", () => {
  const source = readFileSync(join(ROOT, "dist", "verify.js"), "utf8");
  assert.doesNotMatch(source, /^\s*import\b|\bimport\s*\(|\brequire\s*\(|\bprocess\b|\bBuffer\b/m);
  const script = `
    const { createContext, SourceTextModule } = require("node:vm");
    const context = createContext({ crypto, TextEncoder, answer: {} });
    const link = () => { throw new Error("it imports something"); };
    const load = async (text, find) => {
      const module = new SourceTextModule(text, { context });
      await module.link(find);
      await module.evaluate();
      return module;
    };
    const main = async () => {
      const library = await load(${JSON.stringify(source)}, link);
      const check = ${JSON.stringify(`import * as library from "library";${CHECK}answer.verdicts = verdicts;`)};
      await load(check, () => library);
      console.log(JSON.stringify(context.answer.verdicts));
    };
    void main();
  `;
  const args = ["--experimental-vm-modules", "--no-warnings", "--eval", script];

  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });

  assert.deepEqual(stdout === "" ? stderr : JSON.parse(stdout), VERDICTS);
});

test("a program that imports or requires the package verifies webhooks", (t) => {
  const folder = install(t);
  for (const specifier of ["postbackd", "postbackd/verify"]) {
    const main = `const main = async () => {${CHECK}console.log(JSON.stringify(verdicts));};void main();`;
    const required = `const library = require("${specifier}");${main}`;
    writeFileSync(join(folder, "check.cjs"), required);
    writeFileSync(join(folder, "check.mjs"), `import * as library from "${specifier}";${main}`);

    for (const file of ["check.cjs", "check.mjs"]) {
      // Without this flag a require would use the module of an import.
      const args = ["--no-experimental-require-module", file];
      assert.deepEqual(JSON.parse(run(process.execPath, args, folder)), VERDICTS, specifier);
    }
  }
});

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
  test(`${name} imports and requires the library for workers`, (t) => {
    const runtime = findProgram(t, name);
    if (runtime === null) return;
    const folder = install(t);
    const required = `const library = require("postbackd/worker"); const main = async () => {${WORK}}; void main();`;
    writeFileSync(join(folder, "work.mjs"), `import * as library from "postbackd/worker";${WORK}`);
    writeFileSync(join(folder, "work.cjs"), required);

    for (const file of ["work.mjs", "work.cjs"]) {
      const said = runIn(runtime, file, folder);
      tellRun(t, runtime, `${file} ${said}`);
      assert.equal(said, REFUSED);
    }
  });
}

test("the receiver in TypeScript runs on the built package without any other tool", async (t) => {
  const command = [process.execPath, pathOf(TYPESCRIPT)] as const;
  const { url, inbox } = await startReceiverProcess(t, { command, secrets: [SECRET] });
  const id = "0198a1b2-c3d4-7000-8000-0123456789ab";
  const target = `/pingback?id=${id}`;

  const { status } = await exchange(url, {
    target,
    headers: [`X-Signature: ${sign(url + target)}`],
  });

  assert.equal(status, 200);
  assert.deepEqual([...inbox().keys()], [`${id}.pingback`]);
});

const EXAMPLES = join(ROOT, "examples", "embedded");

test("the examples of embedded daemons pass with the packed package", (t) => {
  const folder = install(t);
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  cpSync(EXAMPLES, join(folder, "examples"), { recursive: true });

  const output = run(
    process.execPath,
    ["--test", "--test-reporter=tap", "examples/*.test.ts"],
    folder,
  );

  const examples = readdirSync(EXAMPLES).filter((name) => name.endsWith(".test.ts"));
  assert.match(output, new RegExp(`^# pass ${examples.length}$`, "m"));
  assert.match(output, /^# fail 0$/m);
});

test("a CommonJS program starts a daemon of the packed package with its threads", (t) => {
  const folder = install(t);
  const script = `
    const { createDaemon } = require("postbackd");
    const main = async () => {
      const daemon = await createDaemon({ types: { double: ({ input }) => 2 * input } });
      const { key } = await daemon.account();
      const headers = { authorization: "Bearer " + key, "content-type": "application/json" };
      const post = { method: "POST", headers, body: "[" + " ".repeat(70000) + "{}]" };
      const posted = await fetch(daemon.url + "/v1/tasks/task_post", post);
      const answer = await fetch(daemon.url + "/v1/tasks", { headers });
      const { tasks_count } = await answer.json();
      await daemon.stop();
      console.log(posted.status, answer.status, tasks_count);
    };
    void main();
  `;
  writeFileSync(join(folder, "main.cjs"), script);

  assert.equal(run(process.execPath, ["main.cjs"], folder), "200 200 1\n");
});

test("an embedded daemon starts its commands by a process of its own", (t) => {
  const folder = install(t);
  const script = `
    import { createDaemon } from "postbackd";
    const command = [process.execPath, "--print", "process.ppid"];
    const daemon = await createDaemon({ types: { parent: { command } } });
    const { key } = await daemon.account();
    const headers = { authorization: "Bearer " + key, "content-type": "application/json" };
    const post = { method: "POST", headers, body: "[{}]" };
    const posted = await (await fetch(daemon.url + "/v1/tasks/task_post", post)).json();
    await daemon.idle();
    const path = "/v1/tasks/task_get/" + posted.tasks[0].id;
    const { tasks } = await (await fetch(daemon.url + path, { headers })).json();
    await daemon.stop();
    console.log(tasks[0].state, tasks[0].result === process.pid);
  `;
  writeFileSync(join(folder, "main.mjs"), script);

  assert.equal(run(process.execPath, ["main.mjs"], folder), "completed false\n");
});

test("the threads of an embedded daemon do not inherit the program's options", (t) => {
  const folder = install(t);
  writeFileSync(join(folder, "hook.mjs"), 'console.log("hook");');
  const script = `
    import { createDaemon } from "postbackd";
    const daemon = await createDaemon({ types: { double: () => 2 } });
    await daemon.stop();
  `;
  const args = ["--import", "./hook.mjs", "--input-type=module", "--eval", script];

  assert.equal(run(process.execPath, args, folder), "hook\n");
});

test("the types of createDaemon accept and refuse settings in a strict program", (t) => {
  const folder = install(t);
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  cpSync(EXAMPLES, join(folder, "examples"), { recursive: true });
  mkdirSync(join(folder, "node_modules", "@types"));
  symlinkSync(
    join(ROOT, "node_modules", "@types", "node"),
    join(folder, "node_modules", "@types", "node"),
  );
  writeFileSync(
    join(folder, "examples", "wrong.ts"),
    `import { createDaemon } from "postbackd";
     import type { ConfigSettings, DaemonSettings, FunctionTask } from "postbackd";
     // @ts-expect-error Types are needed.
     export const none: DaemonSettings = {};
     export const kinds: DaemonSettings = {
       types: {
         a: async (task, { signal, progress }) => {
           progress(0.5, task.tag ?? undefined);
           return signal.aborted;
         },
         b: { run: () => 1, timeout: "10s", concurrency: 4, retries: 2 },
         c: { command: ["ls"] },
         d: { url: "http://127.0.0.1:9/", headers: { a: "b" } },
         e: { runner: "worker", lease: "5s" },
       },
     };
     // @ts-expect-error A type has one kind.
     void createDaemon({ types: { a: { runner: "echo", lease: "5s" } } });
     // @ts-expect-error A port is a number.
     void createDaemon({ types: {}, port: "80" });
     export const config: ConfigSettings = {
       webhooks: { timeout: "5s", retry_after: ["1m"], allow: ["127.0.0.1:9000"], max_in_flight: 16 },
       limits: { body: "64KiB", result: 4096, account: { open_tasks: 10 } },
       log: { level: "warn", requests: undefined },
       marketplaces: [{ code: "DE", name: "Germany", currency: "EUR" }],
     };
     // @ts-expect-error Unknown section.
     void createDaemon({ types: {}, config: { webhoks: {} } });
     // @ts-expect-error Unknown key.
     void createDaemon({ types: {}, config: { webhooks: { timeot: "5s" } } });
     // @ts-expect-error A list is needed.
     void createDaemon({ types: {}, config: { webhooks: { allow: "127.0.0.1" } } });
     // @ts-expect-error Unknown level.
     void createDaemon({ types: {}, config: { log: { level: "loud" } } });
     // @ts-expect-error It is given beside config.
     void createDaemon({ types: {}, config: { port: 80 } });
     interface Work {
       double: { input: number; result: number };
       count: { input: { text: string }; result: number };
       resize: { input: string; result: string };
     }
     const count = { run: async ({ input }: FunctionTask<Work["count"]["input"]>) => input.text.length };
     const resize = { runner: "worker" } as const;
     const work: DaemonSettings<Work> = {
       types: { double: (task) => task.input * 2, count, resize },
     };
     void createDaemon<Work>({ ...work, types: { ...work.types, double: async (task) => task.input } });
     export const token = async () => (await createDaemon(work)).workerToken("a", ["resize"]);
     // @ts-expect-error Unknown type.
     export const none2 = async () => (await createDaemon(work)).workerToken("a", ["risize"]);
     // @ts-expect-error An input of this type has no width.
     void createDaemon<Work>({ types: { ...work.types, count: ({ input }) => input.width } });
     // @ts-expect-error Its result is a number.
     void createDaemon<Work>({ types: { ...work.types, double: () => "two" } });
     // @ts-expect-error A type that has no function.
     void createDaemon<Work>({ types: { double: () => 1, count } });
     // @ts-expect-error Without types by name an input may be anything.
     void createDaemon({ types: { double: (task) => task.input * 2 } });`,
  );
  const files = readdirSync(join(folder, "examples")).map((name) => join("examples", name));
  const args = ["--ignoreConfig", "--noEmit", "--strict", "--exactOptionalPropertyTypes"];
  const options = "--module nodenext --target esnext --lib esnext --types node".split(" ");

  run(
    process.execPath,
    [join(ROOT, "node_modules", ".bin", "tsc"), ...args, ...options, ...files],
    folder,
  );
});
