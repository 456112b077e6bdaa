import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";

import {
  INLINE_BYTES_MAX,
  SNIPPET_LANGUAGES,
  type SnippetFacts,
  type SnippetLanguage,
  bodyFileOf,
  quoted,
  verifySnippet,
} from "../../src/dashboard/task/snippet.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "postbackd-snippet-"));
after(() => rmSync(FOLDER, { recursive: true, force: true }));

const SECRET = "whsec_$HOME'\"\\ü😀";
const TASK_ID = "0199d3c8-5a1e-7f00-8000-000000000001";

// Escapes of some language, and invisible characters.
const HOSTILE = [
  `quotes: " ' \` """ ''' \\" \\\\" \\`,
  "lines: \n \r \r\n \t \v \f \b \u0085 \u2028 \u2029 end",
  "numbers: \0 \u00001 \x01\x1b[31m \x7f \u00ad",
  "names: $x ${x} {$x} ${`id`} $$ \\$ #{x} %s %(x)s {x} {{x}} \\{x}",
  "escapes: \\n \\x41 \\u0041 \\u{41} \\U00000041 \\101 \\N{BULLET} \\",
  "signs: ü 😀 👩‍👩‍👧 \u202edrow\u202c \ufeff \ufffd \ufffe \ue000 \u{e0001} \u{10ffff}",
  "ends: ?> <?php */ // # --> ]]> </script> \0",
].join("\u2029");

const INTERPRETERS: Readonly<Record<SnippetLanguage, readonly [string, ...string[]]>> = {
  TypeScript: [process.execPath],
  Python: ["python3"],
  Go: ["go", "run"],
  PHP: ["php"],
};

function factsOf(message: string, changes: Partial<SnippetFacts> = {}): SnippetFacts {
  const signature = `sha256=${createHmac("sha256", SECRET).update(message).digest("hex")}`;
  return {
    origin: "https://postbackd.example.com",
    taskId: TASK_ID,
    kind: "postback" as const,
    message,
    signature,
    ...changes,
  };
}

/** Writes and runs the program. */
function run(language: SnippetLanguage, facts: SnippetFacts, secret = SECRET) {
  const { file, text } = verifySnippet(language, facts);
  writeFileSync(join(FOLDER, file), text);
  const [program, ...flags] = INTERPRETERS[language];
  const { status, stdout, stderr } = spawnSync(program, [...flags, file], {
    cwd: FOLDER,
    encoding: "utf8",
    env: {
      ...process.env,
      WEBHOOK_SECRET: secret,
      GOCACHE: join(FOLDER, "cache"),
      GOPATH: join(FOLDER, "path"),
      GOFLAGS: "",
      GO111MODULE: "off",
      GOPROXY: "off",
      GOTOOLCHAIN: "local",
      PYTHONIOENCODING: "utf8",
    },
  });
  return { isGenuine: status === 0 && stdout.trim() === "genuine", output: stdout + stderr };
}

function missing(language: SnippetLanguage): string | false {
  const [program] = INTERPRETERS[language];
  const flag = language === "Go" ? "version" : "--version";
  return spawnSync(program, [flag]).status === 0 ? false : `${program} is not installed here`;
}

for (const language of SNIPPET_LANGUAGES) {
  describe(`the program in ${language}`, { skip: missing(language) }, () => {
    test("contains the signed bytes", () => {
      const { isGenuine, output } = run(language, factsOf(HOSTILE));
      assert(isGenuine, output);
    });

    test("refuses other bytes", () => {
      const { isGenuine, output } = run(language, factsOf(HOSTILE, { message: `${HOSTILE} ` }));
      assert(!isGenuine);
      assert.match(output, /NOT genuine: .*sha256=[0-9a-f]{64}/);
    });

    test("needs the secret", () => {
      const { isGenuine, output } = run(language, factsOf("{}"), "");
      assert(!isGenuine);
      assert.match(output, /WEBHOOK_SECRET/);
    });

    test("checks a pingback's URL", () => {
      const url = "https://example.com/p?id=$id&tag=%24x&'=\"#${x}";
      const { isGenuine, output } = run(language, factsOf(url, { kind: "pingback" }));
      assert(isGenuine, output);
    });

    test("reads a long body from a file", () => {
      const body = `{"a":"${"ü".repeat(INLINE_BYTES_MAX)}"}`;
      const facts = factsOf(body);
      writeFileSync(join(FOLDER, bodyFileOf(facts)), body);

      const { isGenuine, output } = run(language, facts);

      assert(isGenuine, output);
      const { text } = verifySnippet(language, { ...facts, message: null });
      assert(
        text.includes(`/v1/tasks/task_get/${TASK_ID}?collect=false' -o '${bodyFileOf(facts)}'`),
      );
      assert(!text.includes("ü"));
    });
  });
}

test("a literal contains no invisible and no directional characters", () => {
  for (const language of SNIPPET_LANGUAGES) {
    assert.doesNotMatch(quoted(language, HOSTILE), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  }
});
