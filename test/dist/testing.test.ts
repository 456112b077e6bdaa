import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { folderWith, testPackage } from "../package/packages.ts";
import { findProgram, RUNTIME_NAMES, tellRun } from "../runtimes/runtimes.ts";

const ARCHIVE = testPackage();

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

  for (const name of RUNTIME_NAMES) {
    test(`${file} tests with a packed daemon elsewhere in ${name}`, async (t) => {
      const runtime = findProgram(t, name);
      if (runtime === null) return;
      const cwd = folderWith(t, ARCHIVE);
      // Deno takes nothing of node_modules that is not named.
      writeFileSync(join(cwd, "package.json"), '{"dependencies":{"postbackd":"*"}}');
      writeFileSync(join(cwd, file), script);
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

test("connectDaemon uses the globals of every runtime alone", () => {
  const source = readFileSync(join(ROOT, "dist", "testing", "testing.js"), "utf8");

  const imports = [...source.matchAll(/^\s*import\b.*|\bimport\s*\(.*?\)|\brequire\s*\(.*/gm)];
  assert.deepEqual(
    imports.map(([text]) => text),
    ['import("../daemon/daemon.cjs")'],
  );
  assert.doesNotMatch(source, /\bBuffer\b/);
});
