import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import {
  bodyFileOf,
  curlCommand,
  saveBodyCommand,
  shellQuoted,
  type SentRequest,
} from "../../src/dashboard/task/snippet.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "postbackd-curl-"));
after(() => rmSync(FOLDER, { recursive: true, force: true }));

const TASK_ID = "0199d3c8-5a1e-7f00-8000-000000000001";
const HOSTILE = `{"a":"'; touch owned; ' \\" \\\\ $HOME \${x} \`id\` $(id) !! %s 😀 \\n ü"}\n\n`;

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
async function run(command: string): Promise<readonly Received[]> {
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
    const [request] = await run(curlCommand(requestOf({ url, headers, body: HOSTILE })));

    assert.equal(request?.line, `POST ${target}`);
    assert.equal(request?.body, HOSTILE);
    assert.deepEqual(request?.headers, [
      ...["Host", originOf().slice("http://".length)],
      ...headers.slice(2).flat(),
      ...["Content-Length", String(Buffer.byteLength(HOSTILE))],
    ]);
  });

  test("sends a pingback without a body, and a body that starts with @", async () => {
    const pingback = requestOf({ method: "GET", body: null, hasBody: false });
    const [got] = await run(curlCommand(pingback));
    assert.deepEqual([got?.line, got?.body], ["GET /hook", ""]);

    const [posted] = await run(curlCommand(requestOf({ body: "@/etc/hostname" })));
    assert.equal(posted?.body, "@/etc/hostname");
  });

  for (const [what, body] of [
    ["a long body", LONG],
    ["an unknown body", null],
    ["a body with NUL", "a\0b"],
    ["a body with terminal escapes", '{"a":"\u001b[31m"}'],
  ] as const) {
    test(`saves ${what} to a file first`, async () => {
      const [saving, sending] = await run(curlCommand(requestOf({ body })));

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
