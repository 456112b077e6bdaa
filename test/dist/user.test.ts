import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { BINARY } from "./binary.ts";

// A user without an entry in /etc/passwd, and so without a home.
const STRANGER = 61_234;

const skip = process.geteuid?.() === 0 ? false : "only root can start a program as another user";

/** A folder of that user, and the executable as that user and as root. */
function setUp(t: TestContext) {
  const folder = temporaryFolder(t);
  chmodSync(folder, 0o755);
  const program = join(folder, "postbackd");
  linkOrCopy(BINARY, program);
  const data = join(folder, "data");
  mkdirSync(data);
  chownSync(data, STRANGER, STRANGER);
  const identity = [`--reuid=${STRANGER}`, `--regid=${STRANGER}`, "--clear-groups"];
  const stranger = ["setpriv", ...identity, "env", "-u", "HOME", program] as const;
  const serve = ["start", "--db", join(data, "data.db"), "--port", "0"];
  return {
    data,
    start: () => startProgram(t, serve, { cwd: data, command: stranger }),
    asRoot: (...args: string[]) =>
      runProgram(t, [...args, "--db", join(data, "data.db")], { command: [program] }),
  };
}

// The folder of the test may be on another file system.
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

function ownersIn(folder: string): readonly number[] {
  return [...new Set(readdirSync(folder).map((name) => statSync(join(folder, name)).uid))];
}

test("an admin command of root leaves no file of root", { skip }, async (t) => {
  const { asRoot, start, data } = setUp(t);

  const made = await asRoot("admin", "account", "create", "first");
  assert.equal(made.code, 0, made.stderr);
  assert.deepEqual(ownersIn(data), [STRANGER]);
  const program = start();
  await program.ready;
  const beside = await asRoot("admin", "account", "create", "second");
  assert.equal((await program.stop()).code, 0);
  const again = start();
  await again.ready;

  for (const { stderr } of [made, beside]) assert.match(stderr, /user 61234/);
  assert.deepEqual(ownersIn(data), [STRANGER]);
});

test(
  "an export of root to a folder of root names the user who would write it",
  { skip },
  async (t) => {
    const { asRoot, data } = setUp(t);
    await asRoot("admin", "account", "create", "ada");
    const output = join(data, "..", "ada.jsonl");

    const ended = await asRoot("admin", "account", "export", "ada", "--output", output);

    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /ada\.jsonl.*EACCES.*user 61234/);
  },
);

test("a backup and a restore of root leave no file of root", { skip }, async (t) => {
  const { asRoot, start, data } = setUp(t);
  await asRoot("admin", "account", "create", "ada");
  const copy = join(data, "copy.db");

  const made = await asRoot("backup", "create", copy);
  const restored = await asRoot("backup", "restore", copy, "--deliveries", "pause");
  const owners = ownersIn(data);
  await start().ready;

  for (const { code, stderr } of [made, restored]) {
    assert.equal(code, 0, stderr);
    assert.match(stderr, /user 61234/);
  }
  assert.deepEqual(owners, [STRANGER]);
});

test(
  "a copy that the owner of the database may not write or read is refused",
  { skip },
  async (t) => {
    const { asRoot, data } = setUp(t);
    await asRoot("admin", "account", "create", "ada");
    const ofRoot = join(data, "..", "root.db");

    const made = await asRoot("backup", "create", ofRoot);
    await asRoot("backup", "create", join(data, "copy.db"));
    copyFileSync(join(data, "copy.db"), ofRoot);
    chownSync(ofRoot, 0, 0);
    const restored = await asRoot("backup", "restore", ofRoot, "--deliveries", "pause");

    assert.deepEqual([made.code, restored.code], [1, 1], restored.stderr);
    assert.match(made.stderr, /user 61234 .*data\/root\.db$/m);
    assert.match(restored.stderr, /user 61234 .*install -m 0600 -o 61234 \S+root\.db\* \S+data$/m);
    assert.ok(!readdirSync(data).some((name) => name.includes("replaced")));
  },
);

/** Starts and stops the executable, and gives its addon to root, unreadable for others. Returns its path. */
async function takeAddon({ start, data }: ReturnType<typeof setUp>): Promise<string> {
  const first = start();
  await first.ready;
  assert.equal((await first.stop()).code, 0);
  const name = readdirSync(data).find((each) => each.endsWith(".node")) ?? assert.fail();
  const addon = join(data, name);
  chownSync(addon, 0, 0);
  chmodSync(addon, 0o600);
  return addon;
}

test("an unreadable addon of root is replaced", { skip }, async (t) => {
  const own = setUp(t);
  const addon = await takeAddon(own);

  await own.start().ready;

  const { uid, mode } = statSync(addon);
  assert.deepEqual([uid, mode & 0o777], [STRANGER, 0o644]);
});

test("in a sticky folder each user has its own addon", { skip }, async (t) => {
  const own = setUp(t);
  await takeAddon(own);
  chownSync(own.data, 0, 0);
  chmodSync(own.data, 0o1777);

  await own.start().ready;

  const addons = readdirSync(own.data).filter((name) => name.endsWith(".node"));
  assert.deepEqual(
    addons.map((name) => statSync(join(own.data, name)).uid).toSorted((a, b) => a - b),
    [0, STRANGER],
  );
});
