import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import type { DevReady } from "../dev/dev-client.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { areAtHand } from "../peers/peer-process.ts";
import { jsonValues, unlikeShown } from "./shown-answer.ts";

const DOCUMENT = join(dirname(dirname(import.meta.dirname)), "docs", "getting-started.md");
const PROGRAMS = ["bash", "curl", "jq"].map((program) => ({ program, debianPackage: program }));

interface Step {
  readonly heading: string;
  readonly script: string;
  /** The JSON that the document shows below the script. */
  readonly shown: string;
}

/** Each block of commands with the block of answers that follows it. */
function steps(text: string): readonly Step[] {
  return text.split(/^## /m).flatMap((section) => {
    const heading = section.split("\n", 1).join("");
    const blocks = [...section.matchAll(/^```(sh|json)\n(.*?)^```$/gms)];
    const kinds = blocks.map(([, kind]) => kind).join(" ");
    assert.match(kinds, /^(sh json ?)*$/, `${heading}: every command is followed by its answer`);
    return blocks
      .map(([, , content = ""]) => content)
      .flatMap((script, at, all) =>
        at % 2 === 0 ? [{ heading, script, shown: all[at + 1] ?? "" }] : [],
      );
  });
}

const MARK = "--- the next block ---";

test("docs/getting-started.md: each command works, in order, and answers as it is written there", async (t) => {
  if (!areAtHand(t, PROGRAMS)) return;
  const text = readFileSync(DOCUMENT, "utf8");
  const all = steps(text);
  const cwd = temporaryFolder(t);
  const [, toml = ""] = /^```toml\n(.*?)^```$/ms.exec(text) ?? [];
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  const dev = startProgram(t, ["dev", "--port", "0"], { cwd });
  const { url, key } = (await dev.ready) as DevReady;
  const script = all.map((step) => `${step.script}\necho; echo '${MARK}'\n`).join("");
  const shell = startProgram(t, ["-euo", "pipefail", "-c", script], {
    command: ["bash"],
    cwd,
    env: { URL: url, KEY: key },
  });

  const { code } = await shell.exit;
  const said = `${shell.stdout}\n${shell.stderr}`;
  assert.equal(code, 0, said);
  const answers = shell.stdout.split(MARK);
  assert.equal(answers.length, all.length + 1, said);
  for (const [at, { heading, script: run, shown }] of all.entries()) {
    const came = jsonValues(answers[at] ?? "");
    assert.deepEqual(
      unlikeShown(jsonValues(shown), came, ""),
      [],
      `${heading}\n${run}\n${answers[at]}`,
    );
  }
});
