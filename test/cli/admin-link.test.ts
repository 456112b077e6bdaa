import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { startTestDaemon } from "../helpers/daemon.ts";
import {
  runProgram,
  startProgram,
  temporaryFolder,
  type ProgramOptions,
  type Ready,
} from "../helpers/program.ts";
import { ask } from "../http/answer.ts";
import { LINK, pagePost } from "../http/session-requests.ts";
import { documentOf, runHere } from "./in-process.ts";

const URL_LINE = /^(https?:\/\/\S+)\/dashboard\/#link=(pbd_link_[A-Za-z0-9_-]{43})$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

function link(
  t: TestContext,
  args: readonly string[],
  options: Pick<ProgramOptions, "cwd" | "env"> = {},
) {
  return runHere(t, ["admin", "link", ...args], options);
}

/** The base URL and the token of a link. */
function partsOf(text: string): { readonly base: string; readonly token: string } {
  const [, base = "", token = ""] = URL_LINE.exec(text) ?? assert.fail(text);
  return { base, token };
}

test("link makes a link to the running daemon that signs the operator in once", async (t) => {
  const daemon = await startTestDaemon(t);
  const { code, stdout, stderr } = await link(t, ["--db", daemon.file]);

  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  const { base, token } = partsOf(stdout.split("\n")[0] ?? "");
  assert.equal(base, daemon.url);
  const first = await ask(daemon.url, pagePost(LINK, { token }));
  const second = await ask(daemon.url, pagePost(LINK, { token }));
  assert.deepEqual([first.code, second.code], [20000, 40100]);
  assert.ok(!daemon.logLines.join("").includes(token));
});

test("link --json has the time at which the link expires", async (t) => {
  const before = Date.now();
  const { link: made, ...others } = await documentOf(t, ["admin", "link"]);

  assert.deepEqual(
    [Object.keys(others), Object.keys(made)],
    [["database_created"], ["url", "expires_at"]],
  );
  partsOf(made.url);
  assert.match(made.expires_at, TIME);
  const leftMs = Date.parse(made.expires_at) - before;
  assert.ok(leftMs >= 30 * 60_000 && leftMs < 31 * 60_000, String(leftMs));
});

test("without a daemon the link has the configured address, and the command reports that no daemon serves", async (t) => {
  const cases = [
    [{}, "http://127.0.0.1:8787"],
    [{ POSTBACKD_HOST: "0.0.0.0", POSTBACKD_PORT: "9000" }, "http://127.0.0.1:9000"],
    [{ POSTBACKD_HOST: "::", POSTBACKD_PORT: "9000" }, "http://[::1]:9000"],
    [{ POSTBACKD_HOST: "pb.lan.example" }, "http://pb.lan.example:8787"],
  ] as const;
  for (const [env, expected] of cases) {
    const { code, stdout } = await link(t, [], { env });
    assert.equal(code, 0);
    const [url = ""] = stdout.split("\n");
    assert.equal(partsOf(url).base, expected);
    assert.match(stdout, /No daemon/);
  }
});

test("a link has public_url of the file or of the flag", async (t) => {
  const daemon = await startTestDaemon(t);
  const cwd = daemon.folder;
  writeFileSync(join(cwd, "postbackd.toml"), 'public_url = "https://PB.example.com:443/"\n');
  const db = ["--db", daemon.file];
  const byFile = await link(t, db, { cwd });
  const byFlag = await link(t, [...db, "--public-url", "http://other.example:8080"], { cwd });

  const baseOf = ({ stdout }: { stdout: string }): string =>
    partsOf(stdout.split("\n")[0] ?? "").base;
  assert.equal(baseOf(byFile), "https://pb.example.com");
  assert.equal(baseOf(byFlag), "http://other.example:8080");
});

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const HAS_SCRIPT = spawnSync("script", ["--version"]).status === 0;
const NO_SCRIPT = "there is no `script` to make a terminal with";

/** Runs `start` at a terminal, which is the standard error; its stdout goes into a file too. */
function startAtTerminal(t: TestContext, cwd: string, args: string) {
  const command = `${process.execPath} ${MAIN} start --port 0 --ready-file ready.json ${args} | tee out.txt`;
  const shell = `exec script --quiet --return --flush --command "$0" /dev/null >&2`;
  return startProgram(t, [command], { cwd, command: ["sh", "-c", shell] });
}

async function stopAtTerminal({ exit }: ReturnType<typeof startAtTerminal>, cwd: string) {
  const { pid } = JSON.parse(readFileSync(join(cwd, "ready.json"), "utf8")) as Ready;
  process.kill(pid, "SIGTERM");
  await exit;
}

test(
  "the first start at a terminal shows a link and the URL of the API reference there alone",
  { skip: HAS_SCRIPT ? false : NO_SCRIPT },
  async (t) => {
    const cwd = temporaryFolder(t);
    const program = startAtTerminal(t, cwd, "");
    await program.says("#link=");
    const ready = JSON.parse(readFileSync(join(cwd, "ready.json"), "utf8")) as Ready;
    const shown = program.stderr.split(/\s+/).filter((word) => word.includes("#link="));

    assert.equal(shown.length, 1);
    assert.ok(program.stderr.includes(`${ready.url}/docs\r\n`), program.stderr);
    const { base, token } = partsOf(shown[0] ?? "");
    assert.equal(base, ready.url);
    assert.equal((await ask(base, pagePost(LINK, { token }))).code, 20000);
    await stopAtTerminal(program, cwd);
    assert.match(readFileSync(join(cwd, "out.txt"), "utf8"), /^\{"event":"ready".*\}\n$/);
  },
);

test(
  "start shows no link if an account exists or the dashboard is off",
  { skip: HAS_SCRIPT ? false : NO_SCRIPT },
  async (t) => {
    const [used, dark] = [temporaryFolder(t), temporaryFolder(t)];
    await runProgram(t, ["admin", "account", "create", "alice"], { cwd: used });
    for (const [cwd, args] of [
      [used, ""],
      [dark, "--no-dashboard"],
    ] as const) {
      const program = startAtTerminal(t, cwd, args);
      await program.says('"event":"ready"');
      await stopAtTerminal(program, cwd);
      assert.doesNotMatch(program.stderr, /link=/);
      assert.match(program.stderr, /stopped/);
    }
  },
);
