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

// A user whom no machine knows: without an entry in /etc/passwd there is no home either.
const STRANGER = 61_234;

const skip = process.geteuid?.() === 0 ? false : "only root can start a program as another user";

/** A folder of the stranger's, and the executable as the stranger and as root. */
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
    asStranger: (...args: string[]) => runProgram(t, args, { cwd: data, command: stranger }),
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

test("a user without a home and without a name can do everything", { skip }, async (t) => {
  const { asStranger, start } = setUp(t);

  const { code, stderr } = await asStranger("--version");
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  const program = start();
  await program.ready;

  assert.equal((await program.stop()).code, 0);
});

test(
  "an admin command of root leaves nothing that the daemon's user cannot read",
  { skip },
  async (t) => {
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

    for (const { stderr } of [made, beside])
      assert.match(
        stderr,
        /^postbackd: acting as user 61234, to whom \S+data\.db belongs, and not as root$/m,
      );
    assert.deepEqual(ownersIn(data), [STRANGER]);
  },
);

test(
  "an export of root to a folder of root's names the user who would write it, and another way",
  { skip },
  async (t) => {
    const { asRoot, data } = setUp(t);
    await asRoot("admin", "account", "create", "ada");
    const output = join(data, "..", "ada.jsonl");

    const ended = await asRoot("admin", "account", "export", "ada", "--output", output);

    assert.equal(ended.code, 1);
    assert.match(
      ended.stderr,
      /ada\.jsonl cannot be made: EACCES.*; user 61234 would write it, not root: use '> FILE'/,
    );
  },
);

test(
  "a backup and a restore of root are made by the database's owner, and leave nothing of root's",
  { skip },
  async (t) => {
    const { asRoot, start, data } = setUp(t);
    await asRoot("admin", "account", "create", "ada");
    const copy = join(data, "copy.db");

    const made = await asRoot("backup", "create", copy);
    const restored = await asRoot("backup", "restore", copy, "--deliveries", "pause");
    const owners = ownersIn(data);
    await start().ready;

    for (const { code, stderr } of [made, restored]) {
      assert.equal(code, 0, stderr);
      assert.match(stderr, /^postbackd: acting as user 61234, to whom \S+data\.db belongs/);
    }
    assert.deepEqual(owners, [STRANGER]);
  },
);

test(
  "a copy that the database's owner may not make or read is refused, with what to do",
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
    assert.match(
      made.stderr,
      /user 61234 makes the copy, not root, and may not write to \S+: .* such as \S+data\/root\.db$/m,
    );
    assert.match(
      restored.stderr,
      /user 61234 reads the copy, not root, .*: install -m 0600 -o 61234 \S+root\.db\* \S+data$/m,
    );
    assert.ok(!readdirSync(data).some((name) => name.includes("replaced")));
  },
);

test("an addon that root left unreadable is made anew", { skip }, async (t) => {
  const { start, data } = setUp(t);
  const first = start();
  await first.ready;
  await first.stop();
  const addon = readdirSync(data).find((name) => name.endsWith(".node")) ?? "none";
  chownSync(join(data, addon), 0, 0);
  chmodSync(join(data, addon), 0o600);

  await start().ready;

  const { uid, mode } = statSync(join(data, addon));
  assert.deepEqual([uid, mode & 0o777], [STRANGER, 0o644]);
});

test("in a sticky folder each user has an addon of their own", { skip }, async (t) => {
  const { start, data } = setUp(t);
  const first = start();
  await first.ready;
  await first.stop();
  const addon = readdirSync(data).find((name) => name.endsWith(".node")) ?? "none";
  chownSync(data, 0, 0);
  chmodSync(data, 0o1777);
  chownSync(join(data, addon), 0, 0);
  chmodSync(join(data, addon), 0o600);

  await start().ready;

  const addons = readdirSync(data).filter((name) => name.endsWith(".node"));
  assert.deepEqual(
    addons.map((name) => statSync(join(data, name)).uid).toSorted((a, b) => a - b),
    [0, STRANGER],
  );
});
