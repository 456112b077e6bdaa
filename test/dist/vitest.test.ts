import assert from "node:assert/strict";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { runProgram } from "../helpers/program.ts";
import { folderWith, testPackage } from "../package/npm-package.ts";
import { findRuntime } from "../runtimes/runtimes.ts";

const ARCHIVE = testPackage();

/** The first test of the document, as users of vitest write it. */
function firstTest(): string {
  const text = readFileSync(join(ROOT, "docs", "guides", "test-your-receiver.md"), "utf8");
  const [, code = ""] = /^```ts\n(.*?)^```$/ms.exec(text) ?? [];
  assert.match(code, /advance\("21m"\)/);
  return code.replace('from "node:test"', 'from "vitest"');
}

/** Runs it so often in each of so many files, four at a time in processes of their own. */
async function runVitest(t: TestContext, files: number, each: number): Promise<void> {
  const manifest = findRuntime(t, join("vitest", "package.json"));
  if (manifest === null) return;
  const cwd = folderWith(t, ARCHIVE);
  symlinkSync(dirname(manifest), join(cwd, "node_modules", "vitest"));
  writeFileSync(join(cwd, "package.json"), '{"type":"module"}');
  const [imports = "", body = ""] = firstTest().split("\n\ntest(");
  const tests = Array.from({ length: each }, () => `test(${body}`).join("\n");
  for (let file = 0; file < files; file++) {
    // A test that fails by the clock of a busy machine says nothing: vitest allows five seconds.
    const slow = 'import { vi } from "vitest";\nvi.setConfig({ testTimeout: 60_000 });';
    writeFileSync(join(cwd, `outage-${file}.test.ts`), `${imports}\n${slow}\n${tests}`);
  }
  const vitest = join(cwd, "node_modules", "vitest", "vitest.mjs");
  const report = ["--reporter=json", "--outputFile=report.json"];
  const args = [vitest, "run", "--pool=forks", "--maxWorkers=4", ...report];
  const start = performance.now();

  const { code, stdout, stderr } = await runProgram(t, args, { command: [process.execPath], cwd });

  assert.equal(code, 0, stdout + stderr);
  t.diagnostic(`${files * each} in ${files} files: ${Math.round(performance.now() - start)} ms`);
  const { numPassedTests, numTotalTests } = JSON.parse(
    readFileSync(join(cwd, "report.json"), "utf8"),
  );
  assert.deepEqual([numPassedTests, numTotalTests], [files * each, files * each]);
}

test("the first test of docs/guides/test-your-receiver.md passes in vitest", (t) =>
  runVitest(t, 1, 1));

test("fifty of them pass side by side in four processes", (t) => runVitest(t, 10, 5));
