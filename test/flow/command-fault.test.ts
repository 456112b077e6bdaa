import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { startTestDaemon, tempFolder, type ShownTask, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { node, sh, timerOf } from "../run/command-run.ts";
import { openHeldProcesses } from "../run/held-process.ts";

/** What commands do wrong, or what is wrong with them, and exactly what a client is told of it. */

const RESULT_BYTES = 65_536;
const TOO_LONG = `The command wrote more than ${RESULT_BYTES} bytes to stdout, the limit of a result, and was stopped.`;
const NOTHING = { exit_code: 0, signal: null, stderr: "" };

interface Case {
  readonly command: readonly string[];
  /** More of the type's table, in TOML. */
  readonly more?: string;
  readonly input?: unknown;
  readonly result?: unknown;
  readonly error?: ShownTask["error"];
}

function failed(message: string, detail: unknown): Pick<Case, "error"> {
  return { error: { message, detail } };
}

const cases: Readonly<Record<string, Case>> = {
  "is not there": {
    command: ["no-such-program"],
    ...failed(
      "The program 'no-such-program' was not found in PATH: install it or correct 'command'.",
      { error_code: "ENOENT" },
    ),
  },
  "is not executable": {
    command: ["./plain"],
    ...failed(
      "The program './plain' is not executable: make it so (chmod +x) or correct 'command'.",
      { error_code: "EACCES" },
    ),
  },
  "has an interpreter that is not there": {
    command: ["./lost"],
    ...failed(
      "The program './lost' could not be started: the interpreter or loader it names does not exist.",
      { error_code: "ENOENT" },
    ),
  },
  "has no working folder": {
    command: ["true"],
    more: 'cwd = "none"',
    ...failed(
      "The command's working folder 'FOLDER/none' does not exist: create it or correct 'cwd'.",
      {
        error_code: "ENOENT",
      },
    ),
  },
  "reads nothing of 1 MB of input": {
    command: ["echo", "7"],
    input: "x".repeat(1_000_000),
    result: 7,
  },
  "reads nothing of 1 MB of input and fails": {
    command: ["false"],
    input: "x".repeat(1_000_000),
    ...failed("The command exited with code 1.", { exit_code: 1, signal: null, stderr: "" }),
  },
  "writes 1 GB to stdout": {
    command: ["head", "-c", "1000000000", "/dev/zero"],
    ...failed(TOO_LONG, { exit_code: null, signal: "SIGTERM", stderr: "" }),
  },
  "writes 1 GB to stderr": {
    command: sh("head -c 1000000000 /dev/zero >&2; echo the end >&2; exit 4"),
    ...failed("The command exited with code 4.", {
      ...{ exit_code: 4, signal: null },
      stderr: `${"\0".repeat(4096 - "the end\n".length)}the end\n`,
    }),
  },
  "writes 1 GB of progress": {
    command: sh("head -c 1000000000 /dev/zero >&3; echo 7"),
    result: 7,
  },
  "writes invalid UTF-8": {
    command: sh(String.raw`printf '"\377"'; printf '\377' >&2`),
    ...failed("The command's output is not valid UTF-8.", { ...NOTHING, stderr: "\ufffd" }),
  },
  "writes JSON 65 levels deep": {
    command: ["printf", "%s", "[".repeat(65) + "]".repeat(65)],
    ...failed("The command's output is JSON nested deeper than 64 levels.", NOTHING),
  },
  "writes a result of exactly the limit": {
    command: sh(`head -c ${RESULT_BYTES - 2} /dev/zero | tr '\\0' x`),
    result: "x".repeat(RESULT_BYTES - 2),
  },
  "writes text one byte too long as JSON": {
    command: sh(`head -c ${RESULT_BYTES - 1} /dev/zero | tr '\\0' x`),
    ...failed(
      `The command's output is over ${RESULT_BYTES} bytes, the limit of a result.`,
      NOTHING,
    ),
  },
  "forks what holds its stdout": {
    command: sh("sleep 1000 & echo 7"),
    result: 7,
  },
  "becomes a daemon": {
    command: sh("setsid sleep 10 <&- >&- 2>&- 3>&- & sleep 0.1; echo 7"),
    result: 7,
  },
  "closes stdin, stdout and stderr early": {
    command: sh("exec <&- >&- 2>&-; exit 5"),
    ...failed("The command exited with code 5.", { exit_code: 5, signal: null, stderr: "" }),
  },
  "ends by a signal": {
    command: sh("echo died >&2; kill -SEGV $$"),
    ...failed("The command was ended by SIGSEGV.", {
      ...{ exit_code: null, signal: "SIGSEGV", stderr: "died\n" },
    }),
  },
  "has variables with odd names and values": {
    command: [
      process.execPath,
      "-p",
      "const { EMPTY, LINES_, EQUALS, HIGH, HOME, ['a b.c']: ODD } = process.env;" +
        "JSON.stringify([EMPTY, LINES_, EQUALS, HIGH, HOME, ODD])",
    ],
    more: 'env = { EMPTY = "", LINES_ = "a\\nb", EQUALS = "a=b=", HIGH = "é😀", HOME = "$PATH", "a b.c" = "1" }',
    result: ["", "a\nb", "a=b=", "é😀", "$PATH", "1"],
  },
};

/** A daemon with a type for each case, in a folder with what they need. */
async function startWithAll(t: TestContext): Promise<TestDaemon> {
  const folder = tempFolder(t);
  writeFileSync(join(folder, "plain"), "#!/bin/sh\n", { mode: 0o644 });
  writeFileSync(join(folder, "lost"), "#!/no/such/interpreter\n");
  chmodSync(join(folder, "lost"), 0o755);
  const types = Object.values(cases).map(
    ({ command, more = "" }, index) =>
      `[types.case-${index}]\ncommand = ${JSON.stringify(command)}\nconcurrency = 2\n${more}\n`,
  );
  const toml = `[limits]\nbody = "4MiB"\nresult = ${RESULT_BYTES}\n${types.join("")}`;
  return startTestDaemon(t, { folder, toml });
}

test("a client is told exactly what became of a command that", async (t) => {
  const { daemon, folder, post, get } = await startWithAll(t);
  const posted = Object.values(cases).map(async ({ input }, index) => {
    const { tasks } = await post({
      type: `case-${index}`,
      ...(input === undefined ? {} : { input }),
    });
    return tasks[0]?.id ?? assert.fail();
  });
  const ids = await Promise.all(posted);
  await daemon.idle();

  for (const [index, [rule, { result = null, error = null }]] of Object.entries(cases).entries()) {
    await t.test(rule, async () => {
      const task = await get(ids[index] ?? assert.fail());
      const told = JSON.parse(JSON.stringify(error).replace("FOLDER", folder)) as unknown;
      const { state, status_code: code, status_message: message, runs } = task;
      const end =
        error === null ? ["completed", 20000, "Ok."] : ["failed", 50010, "Task Execution Failed."];
      assert.deepEqual([state, code, message, runs], [...end, 1]);
      assert.deepEqual(task.error, told);
      assert.deepEqual(task.result, result);
    });
  }
});

test("a command that ignores SIGTERM is killed 5 s after its timeout: 50401, and nothing before", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const command = JSON.stringify(node("hold.mjs", held.socketPath, "ignore-term"));
  const toml = `[types.hold]\ncommand = ${command}\ntimeout = "1m"\n`;
  const { daemon, post, get } = await startTestDaemon(t, { clock, toml });
  const { tasks } = await post({});
  const id = tasks[0]?.id ?? assert.fail();
  const hold = await held.next();
  await hold.line();

  clock.advance(60_000);
  assert.equal(await hold.line(), "SIGTERM");
  clock.advance(4999);
  assert.equal((await get(id)).state, "running");
  await timerOf(clock, 1);
  clock.advance(1);
  await hold.ended;
  await daemon.idle();

  const { state, status_code: code, status_message: message, runs, error } = await get(id);
  assert.deepEqual([state, code, message, runs], ["failed", 50401, "Task Timed Out.", 1]);
  assert.deepEqual(error, {
    message: "The command ran past its timeout of 60 s and was stopped.",
    detail: { exit_code: null, signal: "SIGKILL", stderr: "" },
  });
});

test("a program that is not there is a warning at start, and one line however many of its tasks fail", async (t) => {
  const toml = '[types.gone]\ncommand = ["no-such-program"]\n';
  const { post, daemon, logLines } = await startTestDaemon(t, { toml });
  await post(Array.from({ length: 20 }, () => ({ type: "gone" })));
  await daemon.idle();

  const told = logLines.filter((line) => line.includes("no-such-program"));
  assert.deepEqual(
    told.map((line) => /will fail|a run failed/.exec(line)?.[0]),
    ["will fail", "a run failed"],
  );
  assert.match(told[0] ?? "", /"level":"warn"/);
});

test("a command that times out is tried again like one that fails, 1 s and 2 s later", async (t) => {
  const held = await openHeldProcesses(t);
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const command = JSON.stringify(node("hold.mjs", held.socketPath));
  const toml = `[types.hold]\ncommand = ${command}\ntimeout = "1m"\nretries = 2\n`;
  const { daemon, post, get } = await startTestDaemon(t, { clock, toml });
  const { tasks } = await post({});
  const id = tasks[0]?.id ?? assert.fail();
  const shown = async (): Promise<readonly unknown[]> => {
    await daemon.idle();
    const { state, status_code: code, runs } = await get(id);
    return [state, code, runs];
  };

  await (await held.next()).line();
  clock.advance(60_000);
  assert.deepEqual(await shown(), ["queued", 40602, 1]);
  clock.advance(1000);
  await (await held.next()).line();
  clock.advance(60_000);
  assert.deepEqual(await shown(), ["queued", 40602, 2]);
  clock.advance(1000);
  assert.deepEqual(await shown(), ["queued", 40602, 2]);
  clock.advance(1000);
  await (await held.next()).line();
  clock.advance(60_000);
  assert.deepEqual(await shown(), ["failed", 50401, 3]);
});
