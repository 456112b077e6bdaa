import assert from "node:assert/strict";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { runProgram } from "../helpers/program.ts";
import { folderWith, testPackage } from "../package/packages.ts";
import { findRuntime } from "../runtimes/runtimes.ts";

/**
 * The packed package in the test runners that its users have. Jest and vitest's `vmThreads` and `vmForks` run each file
 * in a realm of its own, and fake timers replace the globals of the process that the daemon runs in.
 */

const ARCHIVE = testPackage();

/** The same tests in every runner. Each adds its name to a file, so that no runner can leave one out. */
const TESTS = `
function ran(name) {
  appendFileSync("ran.txt", name + "\\n");
}

async function outage(daemon) {
  const inbox = daemon.inbox();
  await inbox.answer([], 503);
  const { id } = await daemon.client.tasks.post({ input: [42], postback_url: inbox.url });
  await daemon.advance("21m");
  const attempts = (await inbox.messages({ count: 4 })).map(({ attempt }) => attempt);
  const [{ state }] = await daemon.client.tasks.deliveries(id);
  const { result } = await daemon.client.tasks.run({ input: { n: 1 } });
  await daemon.stop();
  assert.equal(JSON.stringify([attempts, state, result]), '[[1,2,3,4],"given_up",{"n":1}]');
}

test("startDaemon", async () => {
  await outage(await startDaemon());
  ran("startDaemon");
});

test("createDaemon", async () => {
  const types = {
    double: ({ input }) => 2 * input,
    date: () => ({ at: [new Date(0)] }),
    fails: () => { throw new RangeError("out of range"); },
    command: { command: ["true"] },
  };
  const database = randomUUID() + ".db";
  const daemon = await createDaemon({ types, database });
  const { key } = await daemon.account();
  const client = createClient({ url: daemon.url, key });
  const run = async (type, input) => (await client.tasks.run({ type, input })).result;
  const results = [await run("double", 4), await run("date", 4)];
  const failure = await run("fails", 4).catch(({ message }) => message);
  const taken = await createDaemon({ types, database }).catch(({ name }) => name);
  await daemon.stop();
  const missing = await createDaemon({ types, database: "no/such.db" }).catch(({ name }) => name);
  assert.equal(JSON.stringify(results), '[8,{"at":["1970-01-01T00:00:00.000Z"]}]');
  assert.match(failure, /out of range/);
  assert.deepEqual([taken, missing], ["InstanceLockError", "DatabaseError"]);
  ran("createDaemon");
});

test("fake timers before the start", async () => {
  useFakeTimers();
  try {
    await outage(await startDaemon());
  } finally {
    useRealTimers();
  }
  ran("before");
});

test("fake timers after the start", async () => {
  const daemon = await startDaemon();
  useFakeTimers();
  try {
    await outage(daemon);
  } finally {
    useRealTimers();
  }
  ran("after");
});
`;

const NAMES = ["startDaemon", "createDaemon", "before", "after"];

const IMPORTS = `
import assert from "node:assert";
import { randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";
import { createDaemon } from "postbackd";
import { createClient } from "postbackd/client";
import { startDaemon } from "postbackd/testing";
`;

const REQUIRES = IMPORTS.replaceAll(
  /import (.*) from (".*");/g,
  (_, names: string, from) => `const ${names} = require(${from});`,
);

/** Functions of a runner by the names that the tests have for them. */
function fakes(object: string, on = "useFakeTimers", off = "useRealTimers"): string {
  return `
const useFakeTimers = () => void ${object}.${on}();
const useRealTimers = () => void ${object}.${off}();
`;
}

const MOCK = fakes("mock.timers", "enable", "reset");

interface Runner {
  /** The package that it comes in; null for Node's own. */
  readonly name: string | null;
  readonly extension: "cjs" | "mjs";
  readonly head: string;
  readonly args: readonly string[];
}

const JEST = ["--runInBand", "--transform={}", "--testTimeout=60000"];
const JEST_ARGS = ["node_modules/jest/bin/jest.js", "--testMatch=**/*.test.?js", ...JEST];
const VITEST = ["node_modules/vitest/vitest.mjs", "run", "--testTimeout=60000"];
const MOCHA = ["node_modules/mocha/bin/mocha.js", "--timeout=60000", "*.test.?js"];

const RUNNERS: Readonly<Record<string, Runner>> = {
  "Jest with CommonJS": {
    name: "jest",
    extension: "cjs",
    head: REQUIRES + fakes("jest"),
    args: JEST_ARGS,
  },
  "Jest with ES modules": {
    name: "jest",
    extension: "mjs",
    head: IMPORTS + fakes("import.meta.jest"),
    args: ["--experimental-vm-modules", "--no-warnings", ...JEST_ARGS],
  },
  "Mocha with CommonJS": {
    name: "mocha",
    extension: "cjs",
    head: `${REQUIRES}const { it: test } = require("mocha");const { mock } = require("node:test");${MOCK}`,
    args: MOCHA,
  },
  "Mocha with ES modules": {
    name: "mocha",
    extension: "mjs",
    head: `${IMPORTS}import { it as test } from "mocha";import { mock } from "node:test";${MOCK}`,
    args: MOCHA,
  },
  "node:test with CommonJS": {
    name: null,
    extension: "cjs",
    head: `${REQUIRES}const { mock, test } = require("node:test");${MOCK}`,
    args: ["--test", "--test-timeout=60000", "*.test.cjs"],
  },
  "node:test with ES modules": {
    name: null,
    extension: "mjs",
    head: `${IMPORTS}import { mock, test } from "node:test";${MOCK}`,
    args: ["--test", "--test-timeout=60000", "*.test.mjs"],
  },
  ...Object.fromEntries(
    ["forks", "threads", "vmForks", "vmThreads"].map((pool): [string, Runner] => [
      `vitest with the pool ${pool}`,
      {
        name: "vitest",
        extension: "mjs",
        head: `${IMPORTS}import { test, vi } from "vitest";${fakes("vi")}`,
        args: [...VITEST, "--maxWorkers=1", `--pool=${pool}`],
      },
    ]),
  ),
};

/** Puts the package of a runner beside ours; false where it is not installed. */
function addRunner(t: TestContext, name: string, cwd: string): boolean {
  const manifest = findRuntime(t, join(name, "package.json"));
  if (manifest === null) return false;
  symlinkSync(dirname(manifest), join(cwd, "node_modules", name));
  return true;
}

for (const [title, { name, extension, head, args }] of Object.entries(RUNNERS)) {
  test(`${title} runs both daemons of the packed package, also under fake timers`, async (t) => {
    const cwd = folderWith(t, ARCHIVE);
    if (name !== null && !addRunner(t, name, cwd)) return;
    writeFileSync(join(cwd, "package.json"), "{}");
    // Two files in one process: what the first has loaded of Node's, such as an addon, is of another realm.
    for (const file of ["a", "b"])
      writeFileSync(join(cwd, `${file}.test.${extension}`), head + TESTS);

    const command = [process.execPath] as const;
    const { code, stdout, stderr } = await runProgram(t, args, { command, cwd });

    assert.equal(code, 0, stdout + stderr);
    const ran = readFileSync(join(cwd, "ran.txt"), "utf8").trim().split("\n");
    assert.deepEqual(ran.toSorted(), [...NAMES, ...NAMES].toSorted());
  });
}

/** The first test of the guide, as users of vitest write it. */
function firstTest(): string {
  const text = readFileSync(join(ROOT, "docs", "guides", "test-your-receiver.md"), "utf8");
  const [, code = ""] = /^```ts\n(.*?)^```$/ms.exec(text) ?? [];
  assert.match(code, /advance\("21m"\)/);
  return code.replace('from "node:test"', 'from "vitest"');
}

test("the first test of the guide passes fifty times in four processes of vitest", async (t) => {
  const cwd = folderWith(t, ARCHIVE);
  if (!addRunner(t, "vitest", cwd)) return;
  writeFileSync(join(cwd, "package.json"), '{"type":"module"}');
  const [imports = "", body = ""] = firstTest().split("\n\ntest(");
  const tests = Array.from({ length: 5 }, () => `test(${body}`).join("\n");
  for (let file = 0; file < 10; file++)
    writeFileSync(join(cwd, `outage-${file}.test.ts`), `${imports}\n${tests}`);
  const report = ["--reporter=json", "--outputFile=report.json"];
  const args = [...VITEST, "--pool=forks", "--maxWorkers=4", ...report];

  const command = [process.execPath] as const;
  const { code, stdout, stderr } = await runProgram(t, args, { command, cwd });

  assert.equal(code, 0, stdout + stderr);
  const passed = JSON.parse(readFileSync(join(cwd, "report.json"), "utf8"));
  assert.deepEqual([passed.numPassedTests, passed.numTotalTests], [50, 50]);
});
