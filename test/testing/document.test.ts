import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";

const DOCUMENTS = ["test-your-receiver.md", "test-over-http.md"].map((name) =>
  readFileSync(join(ROOT, "docs", "guides", name), "utf8"),
);

/** The tests of the documents as one file: its imports first. */
function testFile(): string {
  const blocks = DOCUMENTS.flatMap((text) => [...text.matchAll(/^```ts\n(.*?)^```$/gms)]);
  const lines = blocks.flatMap(([, code = ""]) => code.split("\n"));
  const isImport = (line: string): boolean => line.startsWith("import ");
  const imports = new Set(lines.filter(isImport));
  return [...imports, ...lines.filter((line) => !isImport(line))].join("\n");
}

const CODE = testFile();
const TESTS = CODE.match(/^test\(/gm)?.length ?? 0;

/** A folder where the package's modules are the sources. */
function folderWithTests(t: TestContext): string {
  const folder = temporaryFolder(t);
  const home = join(folder, "node_modules", "postbackd");
  mkdirSync(home, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  writeFileSync(join(folder, "receiver.test.ts"), CODE);
  const exported = { "./testing": "./src/testing/testing.ts", "./verify": "./src/verify.ts" };
  symlinkSync(join(ROOT, "src"), join(home, "src"));
  writeFileSync(join(home, "package.json"), JSON.stringify({ type: "module", exports: exported }));
  return folder;
}

test("docs/guides/test-your-receiver.md has a test for each trouble that a receiver has to cope with", () => {
  const headings = [...DOCUMENTS.join("").matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);

  const troubles = ["Duplicates", "Disorder", "Lost responses", "A rotation of the secret"];
  for (const trouble of [...troubles, "A long outage", "A crash during an attempt"]) {
    assert.ok(headings.includes(trouble), trouble);
  }
  assert.ok(TESTS >= 11, `${TESTS} tests`);
});

test("the tests of docs/guides/test-your-receiver.md compile under strict", (t) => {
  const folder = folderWithTests(t);
  const args = [
    ...["--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck"],
    ...["--exactOptionalPropertyTypes", "--module", "nodenext"],
    ...["--target", "esnext", "--lib", "esnext", "--allowImportingTsExtensions"],
    ...["--typeRoots", join(ROOT, "node_modules", "@types"), "--types", "node"],
  ];
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");

  const { stdout } = spawnSync(process.execPath, [tsc, ...args, "receiver.test.ts"], {
    cwd: folder,
    encoding: "utf8",
  });

  assert.equal(stdout, "");
});

test("the tests of docs/guides/test-your-receiver.md pass, each of them", async (t) => {
  const cwd = folderWithTests(t);
  const dev = startProgram(t, ["dev", "--port", "0", "--clock", "manual"]);
  const { url } = await dev.ready;

  const { code, stdout, stderr } = await runProgram(
    t,
    ["--import", import.meta.resolve("tsx"), "--test", "--test-reporter=tap", "receiver.test.ts"],
    { command: [process.execPath], cwd, env: { POSTBACKD_DEV_URL: url } },
  );

  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, new RegExp(`^# pass ${TESTS}$`, "m"));
});
