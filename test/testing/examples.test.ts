import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { runProgram, SOURCES, temporaryFolder, type Finished } from "../helpers/program.ts";
import {
  type Language,
  goEnvironment,
  pathOf,
  reasonToSkip,
} from "../receivers/receiver-process.ts";

const PYTHON: Language = {
  name: "pytest",
  file: "examples/testing/test_outage.py",
  probe: ["pytest-3", "--version"],
  command: () => ["pytest-3", "-q", basename(PYTHON.file)],
};

const GO: Language = {
  name: "Go",
  file: "examples/testing/outage_test.go",
  probe: ["go", "version"],
  command: () => ["go", "test", basename(GO.file)],
};

const PHP: Language = {
  name: "PHP",
  file: "examples/testing/outage.php",
  probe: ["php", "--version"],
  command: () => ["php", basename(PHP.file)],
};

const LANGUAGES = [PYTHON, GO, PHP];

/** A folder with a copy of the example, and the sources as `postbackd` on its PATH. */
function placeFor(t: TestContext, language: Language) {
  const cwd = temporaryFolder(t);
  const bin = join(cwd, "bin");
  mkdirSync(bin);
  const program = `#!/bin/sh\necho $$ >> "${cwd}/pids"\nexec '${SOURCES.join("' '")}' "$@"\n`;
  writeFileSync(join(bin, "postbackd"), program, { mode: 0o755 });
  copyFileSync(pathOf(language), join(cwd, basename(language.file)));
  const path = `${bin}:${process.env["PATH"]}`;
  const env = { ...goEnvironment(cwd), PATH: path };
  return {
    cwd,
    run: (): Promise<Finished> => runProgram(t, [], { command: language.command(cwd), cwd, env }),
    /** The daemons that it has started. */
    pids: (): readonly number[] =>
      readFileSync(join(cwd, "pids"), "utf8").trim().split("\n").map(Number),
  };
}

for (const language of LANGUAGES) {
  const { name, file } = language;
  const options = { skip: reasonToSkip(language) };

  test(
    `the test of a receiver with ${name} passes, and leaves no daemon behind`,
    options,
    async (t) => {
      const { run, pids } = placeFor(t, language);

      const { code, stdout, stderr } = await run();

      assert.equal(code, 0, stdout + stderr);
      assert.equal(pids().length, 1);
      for (const pid of pids()) assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
    },
  );

  test(
    `the test of a receiver with ${name} fails where fewer attempts are made`,
    options,
    async (t) => {
      const { cwd, run } = placeFor(t, language);
      writeFileSync(join(cwd, "postbackd.toml"), '[webhooks]\nretry_after = ["1m"]\n');

      const { code, stdout } = await run();

      assert.notEqual(code, 0, stdout);
    },
  );

  test(`docs/guides/test-over-http.md says how the test with ${name} is run`, () => {
    const text = readFileSync(join(ROOT, "docs", "guides", "test-over-http.md"), "utf8");

    assert.ok(text.includes(`[${file}](../../${file})`), file);
  });
}
