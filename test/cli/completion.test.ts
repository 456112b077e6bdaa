import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { allCommands, readCommandTree } from "../../src/cli/command-tree.ts";
import type { CommandNode } from "../../src/cli/command-tree.ts";
import { completionScript, SHELLS } from "../../src/cli/completion-script.ts";
import { program } from "../../src/cli/program.ts";
import { SETTING_LIST } from "../../src/config/config.ts";
import { TASK_STATES } from "../../src/domain/task/task.ts";
import { DELIVERY_STATES, UNDELIVERED_STATES } from "../../src/domain/webhook/delivery.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";

const TREE = await readCommandTree(program);

/** A tree of one command with a flag of each kind, and descriptions that a shell would act on. */
const HOSTILE: CommandNode = {
  words: [],
  description: "x",
  flags: [],
  positionals: [],
  commands: [
    {
      words: ["do"],
      description: "it's \\ $(exit 3) `exit 4` a:b",
      flags: [
        {
          name: "level",
          description: "one's",
          choices: ["low", "high"],
          isPath: false,
          takesValue: true,
        },
        { name: "file", description: "$x", choices: [], isPath: true, takesValue: true },
        { name: "fast", description: "`y`", choices: [], isPath: false, takesValue: false },
      ],
      positionals: [],
      commands: [],
    },
  ],
};

function hasShell(shell: string): boolean {
  return spawnSync(shell, ["-c", "exit 0"]).status === 0;
}

/** What bash offers for a line whose last word is under the cursor. */
function bashOffers(
  t: TestContext,
  tree: CommandNode,
  words: readonly string[],
): readonly string[] {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "script"), completionScript(tree, "bash"));
  const ask = `
    . "$0"
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _postbackd
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const args = ["--norc", "-c", ask, join(folder, "script"), ...words];
  const { status, stdout } = spawnSync("bash", args, { encoding: "utf8", cwd: folder });
  assert.equal(status, 0);
  return stdout.split("\n").filter((line) => line !== "");
}

for (const shell of SHELLS) {
  test(`names every command and every flag in the script for ${shell}`, () => {
    const script = completionScript(TREE, shell);
    const nodes = allCommands(TREE);

    assert.ok(nodes.length > 10);
    for (const { words, flags } of nodes) {
      assert.ok(script.includes(`'${["postbackd", ...words].join(" ")}'`), words.join(" "));
      for (const { name } of flags) {
        assert.ok(script.includes(shell === "fish" ? ` -l ${name} ` : `--${name}`), name);
      }
    }
  });

  test(`writes a script that ${shell} can read, whatever descriptions hold`, (t) => {
    if (!hasShell(shell)) return t.skip(`${shell} is not at hand`);
    for (const tree of [TREE, HOSTILE]) {
      const file = join(temporaryFolder(t), "script");
      writeFileSync(file, completionScript(tree, shell));
      const { status, stderr } = spawnSync(shell, ["-n", file], { encoding: "utf8" });
      assert.deepEqual([status, stderr], [0, ""]);
    }
  });
}

test("reads the whole tree: start has every flag that there is", () => {
  const start = TREE.commands.find(({ words }) => words[0] === "start");

  assert.deepEqual(
    start?.flags.map(({ name }) => name),
    [...SETTING_LIST.flatMap(({ flag }) => flag ?? []), "hold-deliveries"],
  );
});

test("offers in bash what can stand at the cursor", (t) => {
  if (!hasShell("bash")) return t.skip("bash is not at hand");
  const cases: readonly [tree: CommandNode, line: string, offered: readonly string[]][] = [
    [TREE, "postbackd exp", ["explain-url"]],
    [TREE, "postbackd admin acc", ["account", "access"]],
    [TREE, "postbackd admin account cr", ["create"]],
    [TREE, "postbackd --ver", ["--version"]],
    [TREE, "postbackd health --w", ["--wait"]],
    [TREE, "postbackd completion ", ["bash", "zsh", "fish", "--help"]],
    // A value that is any text, one that is a path, one that is a word of a list.
    [TREE, "postbackd start --port ", []],
    [TREE, "postbackd start --db ", []],
    [HOSTILE, "postbackd do --level ", ["low", "high"]],
    [HOSTILE, "postbackd do --level = h", ["high"]],
    [HOSTILE, "postbackd do --level =", ["low", "high"]],
    [HOSTILE, "postbackd do --fa", ["--fast"]],
    // A flag of the same name has other values in another command.
    [TREE, "postbackd admin task list --state ", TASK_STATES],
    [TREE, "postbackd admin delivery list --state ", DELIVERY_STATES],
    [TREE, "postbackd admin delivery redeliver --state ", ["delivered", ...UNDELIVERED_STATES]],
    // The name of a command that is a value is not the command.
    [TREE, "postbackd explain-url admin acc", []],
  ];

  for (const [tree, line, offered] of cases) {
    assert.deepEqual(bashOffers(t, tree, line.split(" ")).toSorted(), offered.toSorted(), line);
  }
});

test("quotes what zsh and fish would act on", () => {
  const zsh = completionScript(HOSTILE, "zsh");
  const fish = completionScript(HOSTILE, "fish");

  assert.ok(zsh.includes(String.raw`'do:it'\''s \ $(exit 3) ${"`exit 4`"} a\:b'`), zsh);
  assert.ok(fish.includes(String.raw`-d 'it\'s \\ $(exit 3) ${"`exit 4`"} a:b'`), fish);
  assert.ok(fish.includes(" -l level -x -a 'low high' -d 'one\\'s'"));
  assert.ok(fish.includes(" -l file -r -F -d '$x'"));
});

test("prints the script, and exits with 2 for a shell that it does not know", async (t) => {
  const known = await runProgram(t, ["completion", "bash"]);
  const unknown = await runProgram(t, ["completion", "tcsh"]);

  assert.deepEqual(known, {
    code: 0,
    signal: null,
    stdout: completionScript(TREE, "bash"),
    stderr: "",
  });
  assert.deepEqual([unknown.code, unknown.stdout], [2, ""]);
  assert.match(
    unknown.stderr,
    /^postbackd: there is a script for bash, zsh, fish, not for "tcsh"\n/,
  );
});
