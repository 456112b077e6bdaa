import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { folderWith, testPackage } from "../package/npm-package.ts";

const ARCHIVE = await testPackage();

const RUN = `
const main = async () => {
  const url = process.argv[2];
  const daemon = url === undefined ? await startDaemon() : await connectDaemon({ url });
  const inbox = daemon.inbox();
  await inbox.answer([], 503);
  const { id } = await daemon.client.tasks.post({ input: 42, postback_url: inbox.url });
  await daemon.advance("21m");
  const attempts = (await inbox.messages({ count: 4 })).map(({ attempt }) => attempt);
  const [{ state }] = await daemon.client.tasks.deliveries(id);
  await inbox.clear();
  await daemon.client.tasks.redeliver(id);
  const { body, headers } = await inbox.next();
  const isGenuine = await verifyPostback(body, headers["x-signature"], daemon.webhookSecret);
  await daemon.stop();
  console.log(JSON.stringify([attempts, state, isGenuine]));
};
void main();
`;

/** A program as each kind of module. */
const PROGRAMS = [
  [
    "run.mjs",
    `import { connectDaemon, startDaemon } from "postbackd/testing";
     import { verifyPostback } from "postbackd/verify";${RUN}`,
  ],
  [
    "run.cjs",
    `const { connectDaemon, startDaemon } = require("postbackd/testing");
     const { verifyPostback } = require("postbackd/verify");${RUN}`,
  ],
] as const;
const SAID = '[[1,2,3,4],"given_up",true]\n';

for (const [file, script] of PROGRAMS) {
  test(`${file} starts a daemon for tests of the packed package`, async (t) => {
    const cwd = folderWith(t, ARCHIVE);
    writeFileSync(join(cwd, file), script);

    // Without this flag a require would do with the module that an import gives.
    const command = [process.execPath, "--no-experimental-require-module"] as const;
    const { stdout, stderr } = await runProgram(t, [file], { command, cwd });

    assert.equal(stdout, SAID, stderr);
  });

  for (const [program, ...args] of [["/usr/bin/node"], ["deno", "run", "-A"], ["bun"]]) {
    test(`${file} tests with a packed daemon elsewhere in ${program}`, async (t) => {
      if (!isAtHand(t, program)) return;
      const cwd = folderWith(t, ARCHIVE);
      writeFileSync(join(cwd, file), script);
      const command = join(cwd, "node_modules", "postbackd", "dist", "command.cjs");
      const dev = startProgram(t, ["dev", "--port", "0", "--clock", "manual"], {
        command: [process.execPath, command],
      });
      const { url } = await dev.ready;

      const { stdout, stderr } = await runProgram(t, [...args, file, url], {
        command: [program ?? ""],
        cwd,
      });

      assert.equal(stdout, SAID, stderr);
    });
  }
}

function isAtHand(t: TestContext, program = ""): boolean {
  const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8" });
  const isOld = Number(/^v(\d+)\./.exec(stdout)?.[1] ?? "20") < 20;
  if (status === 0 && !isOld) return true;
  t.skip(`${program} is too old or not installed`);
  return false;
}

test("on an older Node startDaemon says which one it needs, and what there is for this one", async (t) => {
  const cwd = folderWith(t, ARCHIVE);
  const script = `
    import { startDaemon } from "postbackd/testing";
    Object.defineProperty(process, "versions", { value: { node: "20.20.2" } });
    await startDaemon().catch((error) => console.log(error.message));
  `;
  writeFileSync(join(cwd, "old.mjs"), script);

  const { stdout, stderr } = await runProgram(t, ["old.mjs"], { command: [process.execPath], cwd });

  const remedy = "or start 'postbackd dev', and give its url to connectDaemon";
  const wanted = `startDaemon needs Node 24 or newer, and here it is 20.20.2: ${remedy}\n`;
  assert.equal(stdout, wanted, stderr);
});

test("what connects to a daemon elsewhere takes nothing for granted but what every runtime has", () => {
  const source = readFileSync(join(ROOT, "dist", "testing", "testing.js"), "utf8");

  const imports = [...source.matchAll(/^\s*import\b.*|\bimport\s*\(.*?\)|\brequire\s*\(.*/gm)];
  assert.deepEqual(
    imports.map(([text]) => text),
    ['import("../daemon/daemon.cjs")'],
  );
  assert.doesNotMatch(source, /\bBuffer\b/);
});

const TYPES = `
import { connectDaemon, startDaemon, type Inbox, type Message, type TestDaemon } from "postbackd/testing";

export async function typed(): Promise<string> {
  const here: TestDaemon = await startDaemon({ types: { double: (task) => 2 * Number(task.input) }, seed: 1 });
  const there: TestDaemon = await connectDaemon({ url: "http://127.0.0.1:8787" });
  const inbox: Inbox = there.inbox("orders");
  await inbox.answer([500, "hang", "reset", { status: 429, headers: { a: "b" }, after_ms: 5 }], 204);
  const message: Message = await inbox.next({ kind: "postback", wait: 1 });
  const [event] = await here.advance({ until: "idle" });
  const state: "scheduled" | "in_flight" | "delivered" | "given_up" | "refused" | undefined = event?.delivery;
  await here.faults({ duplicate: 0.5, delay_ms: 10 });
  await here.results([{ type: "double", result: [1], after_ms: 5 }, { error: "no" }, { hold: true }]);
  await here.finish("id", { result: { a: 1 } });
  const { story } = await here.waitFor("id", "settled", { timeout: 5 });
  await here.stop();
  return message.signature.verdict + (message.headers["x-signature"] ?? "") + (state ?? "") + JSON.stringify(story);
}

export async function wrong(daemon: TestDaemon): Promise<void> {
  // @ts-expect-error There is no such fault.
  await daemon.faults({ dupicate: 1 });
  // @ts-expect-error There is no such stage.
  await daemon.waitFor("id", "done");
  // @ts-expect-error There is no such answer.
  await daemon.inbox().answer(["hung"]);
  // @ts-expect-error There is no such setting.
  await startDaemon({ database: "postbackd.db" });
}
`;

/** How compilers look for types; TypeScript 7 has no node10 any more. */
const RESOLUTIONS = [
  ["user.mts", "--module", "nodenext"],
  ["user.cts", "--module", "nodenext"],
  ["user.ts", "--module", "esnext", "--moduleResolution", "bundler"],
] as const;

for (const [file, ...options] of RESOLUTIONS) {
  test(`${file} finds the types of tests with ${options.join(" ")}, and nothing is left unchecked`, (t) => {
    const folder = folderWith(t, ARCHIVE);
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    writeFileSync(join(folder, file), TYPES);
    const tsc = join(ROOT, "node_modules", ".bin", "tsc");
    const args = ["--ignoreConfig", "--noEmit", "--strict", "--exactOptionalPropertyTypes"];
    const rest = ["--noUncheckedIndexedAccess", "--target", "es2022", file];

    const { status, stdout } = spawnSync(process.execPath, [tsc, ...options, ...args, ...rest], {
      cwd: folder,
      encoding: "utf8",
    });

    assert.equal(status, 0, stdout);
  });
}
