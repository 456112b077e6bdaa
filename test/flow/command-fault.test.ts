import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { node, openHeldProcesses, sh } from "../run/command-run.ts";

const LARGE = "x".repeat(1_000_000);
const VARIABLES = 'EMPTY = "", LINES_ = "a\\nb", EQUALS = "a=b=", HIGH = "é😀", HOME = "$PATH"';

interface Case {
  readonly command: readonly string[];
  /** More of the type's table, in TOML. */
  readonly more?: string;
  readonly input?: string;
  readonly result?: unknown;
  /** The `detail` of the error, for a command that fails. */
  readonly detail?: object;
}

const CASES: Readonly<Record<string, Case>> = {
  "does not exist": { command: ["no-such-program"], detail: { error_code: "ENOENT" } },
  "does not read 1 MB of input": { command: ["echo", "7"], input: LARGE, result: 7 },
  "does not read 1 MB of input and fails": {
    ...{ command: ["false"], input: LARGE },
    detail: { exit_code: 1, signal: null, stderr: "" },
  },
  "writes 100 MB to stderr": {
    command: sh("head -c 100000000 /dev/zero >&2; echo the end >&2; exit 4"),
    detail: {
      ...{ exit_code: 4, signal: null },
      stderr: `${"\0".repeat(4096 - "the end\n".length)}the end\n`,
    },
  },
  "writes 100 MB of progress": {
    command: sh("head -c 100000000 /dev/zero >&3; echo 7"),
    result: 7,
  },
  "writes invalid UTF-8": {
    command: sh(String.raw`printf '"\377"'; printf '\377' >&2`),
    detail: { exit_code: 0, signal: null, stderr: "\ufffd" },
  },
  "starts a daemon": {
    command: sh("setsid sleep 10 <&- >&- 2>&- 3>&- & sleep 0.1; echo 7"),
    result: 7,
  },
  "closes stdin, stdout and stderr early": {
    command: sh("exec <&- >&- 2>&-; exit 5"),
    detail: { exit_code: 5, signal: null, stderr: "" },
  },
  "ends by a signal": {
    command: sh("echo died >&2; kill -SEGV $$"),
    detail: { exit_code: null, signal: "SIGSEGV", stderr: "died\n" },
  },
  "has variables with unusual names and values": {
    command: [
      process.execPath,
      "-p",
      "const { EMPTY, LINES_, EQUALS, HIGH, HOME, ['a b.c']: ODD } = process.env;" +
        "JSON.stringify([EMPTY, LINES_, EQUALS, HIGH, HOME, ODD])",
    ],
    more: `env = { ${VARIABLES}, "a b.c" = "1" }`,
    result: ["", "a\nb", "a=b=", "é😀", "$PATH", "1"],
  },
};

test("a task shows how its command ended", async (t) => {
  const types = Object.values(CASES).map(
    ({ command, more = "" }, index) =>
      `[types.case-${index}]\ncommand = ${JSON.stringify(command)}\n${more}\n`,
  );
  const toml = `[limits]\nbody = "4MiB"\n${types.join("")}`;
  const { daemon, post, get } = await startTestDaemon(t, { toml });
  const tasks = Object.values(CASES).map(({ input }, i) => ({ type: `case-${i}`, input }));
  const posted = await post(tasks);
  await daemon.idle();

  for (const [index, [rule, expected]] of Object.entries(CASES).entries()) {
    const { result = null, detail = null } = expected;
    const task = await get(posted.tasks[index]?.id ?? "");
    const end = detail === null ? ["completed", 20000, 1] : ["failed", 50010, 1];
    assert.deepEqual([task.state, task.status_code, task.runs], end, rule);
    assert.deepEqual([task.result, task.error?.detail ?? null], [result, detail], rule);
  }
});

test("a missing program is one warning at start, and one line for twenty failed tasks", async (t) => {
  const toml = '[types.gone]\ncommand = ["no-such-program"]\n';
  const { post, daemon, logLines } = await startTestDaemon(t, { toml });
  await post(Array.from({ length: 20 }, () => ({ type: "gone" })));
  await daemon.idle();

  const lines = logLines.filter((line) => line.includes("no-such-program"));
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).level),
    ["warn", "info"],
  );
});

test("a command that times out runs again 1 s and 2 s later, up to the retries of its type", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const command = JSON.stringify(node("hold.mjs", held.socketPath));
  const toml = `[types.hold]\ncommand = ${command}\ntimeout = "1m"\nretries = 2\n`;
  const { daemon, post, get } = await startTestDaemon(t, { clock, toml });
  const { tasks } = await post({});
  const shown = async (): Promise<readonly unknown[]> => {
    await daemon.idle();
    const { state, status_code: code, runs } = await get(tasks[0]?.id ?? "");
    return [state, code, runs];
  };
  const timeOut = async () => {
    await (await held.next()).line();
    clock.advance(60_000);
  };

  await timeOut();
  assert.deepEqual(await shown(), ["queued", 40602, 1]);
  clock.advance(1000);
  await timeOut();
  assert.deepEqual(await shown(), ["queued", 40602, 2]);
  clock.advance(1000);
  assert.deepEqual(await shown(), ["queued", 40602, 2]);
  clock.advance(1000);
  await timeOut();
  assert.deepEqual(await shown(), ["failed", 50401, 3]);
});
