import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type IncomingMessage, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import {
  INLINE_BYTES_MAX,
  SNIPPET_LANGUAGES,
  type SentRequest,
  type SnippetFacts,
  type SnippetLanguage,
  bodyFileOf,
  curlCommand,
  quoted,
  saveBodyCommand,
  shellQuoted,
  verifySnippet,
} from "../../src/dashboard/task/snippet.ts";
import { goEnvironment } from "../receivers/receiver-process.ts";

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
      ...goEnvironment(FOLDER),
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
    test("contains the signed bytes, also of a pingback's URL", () => {
      const url = "https://example.com/p?id=$id&tag=%24x&'=\"#${x}";
      for (const facts of [factsOf(HOSTILE), factsOf(url, { kind: "pingback" })]) {
        const { isGenuine, output } = run(language, facts);
        assert(isGenuine, output);
      }
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

const HOSTILE_BODY = `{"a":"'; touch owned; ' \\" \\\\ $HOME \${x} \`id\` $(id) !! %s 😀 \\n ü"}\n\n`;

interface Received {
  readonly line: string;
  readonly headers: readonly string[];
  readonly body: string;
}

const received: Received[] = [];
const server = createServer((request, response) => {
  void bodyOf(request).then((body) => {
    const { method, url, rawHeaders: headers } = request;
    received.push({ line: `${method} ${url}`, headers, body });
    response.end(LONG);
  });
});
const LONG = `{"long":"${"x".repeat(20_000)}"}`;

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks).toString("utf8");
}

before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
after(() => server.close());

function originOf(): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function requestOf(changes: Partial<SentRequest>): SentRequest {
  return {
    origin: originOf(),
    taskId: TASK_ID,
    method: "POST",
    url: `${originOf()}/hook`,
    headers: [],
    body: "{}",
    hasBody: true,
    ...changes,
  };
}

/** Runs a command in a shell. Returns the requests of the server. */
async function runShell(command: string): Promise<readonly Received[]> {
  received.length = 0;
  const child = spawn("sh", ["-c", command], {
    cwd: FOLDER,
    env: { ...process.env, API_KEY: "key" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [status] = (await once(child, "exit")) as [number | null];
  assert.equal(status, 0, command);
  return [...received];
}

const skip = spawnSync("curl", ["--version"]).status === 0 ? false : "curl is not installed here";

describe("the command that sends an attempt again", { skip }, () => {
  test("sends the method, target, headers and body of the attempt alone", async () => {
    const target = "/a/../b//c?x=[1-3]{a,b}&q='\"$HOME`id`&";
    const headers = [
      ["Host", "elsewhere.example.com"],
      ["Content-Length", "1"],
      ["User-Agent", "postbackd-webhooks/1"],
      ["Content-Type", "application/json"],
      ["X-Signature", "sha256=ab'c\"$x"],
      ["X-Empty", ""],
    ] as const;

    const url = originOf() + target;
    const [request] = await runShell(curlCommand(requestOf({ url, headers, body: HOSTILE_BODY })));

    assert.equal(request?.line, `POST ${target}`);
    assert.equal(request?.body, HOSTILE_BODY);
    assert.deepEqual(request?.headers, [
      ...["Host", originOf().slice("http://".length)],
      ...headers.slice(2).flat(),
      ...["Content-Length", String(Buffer.byteLength(HOSTILE_BODY))],
    ]);
  });

  test("sends a pingback without a body, and a body that starts with @", async () => {
    const pingback = requestOf({ method: "GET", body: null, hasBody: false });
    const [got] = await runShell(curlCommand(pingback));
    assert.deepEqual([got?.line, got?.body], ["GET /hook", ""]);

    const [posted] = await runShell(curlCommand(requestOf({ body: "@/etc/hostname" })));
    assert.equal(posted?.body, "@/etc/hostname");
  });

  for (const [what, body] of [
    ["a long body", LONG],
    ["an unknown body", null],
    ["a body with NUL", "a\0b"],
    ["a body with terminal escapes", '{"a":"\u001b[31m"}'],
  ] as const) {
    test(`saves ${what} to a file first`, async () => {
      const [saving, sending] = await runShell(curlCommand(requestOf({ body })));

      assert.equal(saving?.line, `GET /v1/tasks/task_get/${TASK_ID}?collect=false`);
      assert(saving?.headers.includes("Bearer key"));
      assert.equal(sending?.body, LONG);
    });
  }
});

test("a shell word is the exact text", () => {
  for (const text of [
    ...["", "'", "''", "\\", "a b", "$x`id`$(id)", '"', "\n\n", "~", "*", "-n", "ü😀"],
  ]) {
    const { stdout } = spawnSync("sh", ["-c", `printf %s ${shellQuoted(text)}`], {
      encoding: "utf8",
    });
    assert.equal(stdout, text);
  }
});

test("the file of a body stays in its folder", () => {
  const source = { origin: "http://127.0.0.1", taskId: "../../etc/passwd';id" };
  assert.equal(bodyFileOf(source), "body-etcpasswdid.json");
  writeFileSync(join(FOLDER, bodyFileOf(source)), "");
  assert.doesNotMatch(saveBodyCommand(source), /';id/);
});
