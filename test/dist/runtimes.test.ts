import assert from "node:assert/strict";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createContext, runInContext } from "node:vm";

import { build, type BuildOptions } from "esbuild";

import { ROOT } from "../../scripts/manifest.ts";
import { hasBrowser, openPage } from "../dashboard/browser.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { runProgram } from "../helpers/program.ts";
import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";
import { folderWith, testPackage } from "../package/packages.ts";
import { findProgram, RUNTIME_NAMES, tellRun } from "../runtimes/runtimes.ts";

const ARCHIVE = testPackage();

const PARTS = ["post", "pages", "stream", "error", "abort", "verify"];
const ALL_PASSED = Object.fromEntries(PARTS.map((part) => [part, "passed"]));

const RUN = "void tryAll(JSON.parse(process.argv[2])).then((outcomes) => console.log(outcomes));";
const MODULES = {
  "run.mjs": `import { tryAll } from "./program.mjs"; ${RUN}`,
  "run.cjs": `const { tryAll } = require("./program.cjs"); ${RUN}`,
};

for (const name of RUNTIME_NAMES) {
  for (const [module, text] of Object.entries(MODULES)) {
    test(`the packed library works in ${name}, by ${module}`, async (t) => {
      const runtime = findProgram(t, name);
      if (runtime === null) return;
      const folder = folderWithProgram(t);
      await bundle(folder, { format: "cjs", packages: "external", outfile: "program.cjs" });
      writeFileSync(join(folder, module), text);

      const { stdout, stderr } = await runProgram(t, [module, JSON.stringify(await served(t))], {
        command: [runtime.program, ...runtime.args],
        cwd: folder,
        env: { ...runtime.env, DENO_DIR: join(folder, "deno") },
      });

      const outcomes = stdout === "" ? stderr : stdout;
      tellRun(t, runtime, `${module} ${outcomes}`);
      judge(outcomes);
    });
  }
}

test("the bundled library works in a page of the daemon", async (t) => {
  if (!hasBrowser(t)) return;
  const script = await bundle(folderWithProgram(t), { format: "iife", globalName: "program" });
  const facts = await served(t);
  const { page, context, complaints } = await openPage(t, facts.url);
  await page.goto("/docs");

  // Through the browser's protocol; what the script then asks for is under the page's own policy.
  const outcomes = await page.evaluate(`${script}; program.tryAll(${JSON.stringify(facts)})`);

  t.diagnostic(`Chromium ${context.browser()?.version()} ${String(outcomes)}`);
  judge(String(outcomes));
  for (const complaint of complaints.splice(0)) assert.match(complaint, /status of 401/);
});

/** Requests of Cloudflare have had no credentials for years, and its fetch has refused to be given any. */
function WorkersRequest(url: string, init: RequestInit): Request {
  return new Request(url, init);
}

function workersFetch(url: string, init: RequestInit): Promise<Response> {
  if ("credentials" in init) throw new Error("The 'credentials' field is not implemented.");
  return fetch(url, init);
}

// As workers at the edge have it: no global of Node, and no text that becomes code.
const WEB_GLOBALS = {
  AbortController,
  AbortSignal,
  DOMException,
  Headers,
  Request: WorkersRequest,
  Response,
  TextDecoder,
  TextEncoder,
  URL,
  URLSearchParams,
  clearTimeout,
  crypto,
  fetch: workersFetch,
  setTimeout,
};

test("the bundled library works with the web's globals alone", async (t) => {
  const script = await bundle(folderWithProgram(t), { format: "iife", globalName: "program" });
  const context = createContext(WEB_GLOBALS, { codeGeneration: { strings: false } });
  const facts = JSON.stringify(await served(t));

  const outcomes: unknown = await runInContext(`${script}; program.tryAll(${facts})`, context);

  judge(String(outcomes));
});

function judge(outcomes: string): void {
  assert.match(outcomes, /^\{/);
  assert.deepEqual(JSON.parse(outcomes), ALL_PASSED);
}

function folderWithProgram(t: TestContext): string {
  const folder = folderWith(t, ARCHIVE);
  // Deno takes nothing of node_modules that is not named.
  writeFileSync(join(folder, "package.json"), '{"dependencies":{"postbackd":"*"}}');
  cpSync(join(ROOT, "test", "runtimes", "program.mjs"), join(folder, "program.mjs"));
  return folder;
}

/** The program as a bundler makes it; written where `outfile` is given. */
async function bundle(folder: string, options: BuildOptions): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: ["program.mjs"],
    bundle: true,
    write: options.outfile !== undefined,
    ...options,
  });
  return outputFiles?.[0]?.text ?? "";
}

/** The facts of a daemon for the program, with a postback and a pingback that it sent. */
async function served(t: TestContext) {
  const receiver = await startReceiver(t);
  const { url, account, post } = await startTestDaemon(t);
  const [postback_url, pingback_url] = [receiver.url("/p?t=%C3%BC"), receiver.url("/q?id=$id")];
  await post([{ input: "ü😀", postback_url, pingback_url }]);
  const webhooks = (await receiver.waitFor(2)).map((request) => webhookOf(request, receiver.url()));
  return { url, key: account.key, secret: account.secret, webhooks };
}

function webhookOf({ method, url, headers, rawBody }: ReceivedRequest, origin: string) {
  const signature = headers["x-signature"] ?? "";
  return {
    method,
    url: new URL(url, origin).href,
    headers: { "x-signature": signature },
    body: rawBody.toString(),
  };
}
