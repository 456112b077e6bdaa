import type { ArgsDef } from "citty";

import { quote } from "../domain/rule.ts";
import { textOf } from "./arguments.ts";
import { readCommandTree } from "./command-tree.ts";
import type { Command } from "./command.ts";
import { completionScript, SHELLS } from "./completion-script.ts";
import { UsageError } from "./failure.ts";

const args: ArgsDef = {
  shell: {
    type: "positional",
    valueHint: SHELLS.join("|"),
    description: "Shell to make the script for",
  },
};

/** `postbackd completion`, for the commands of `program`. */
export function completionCommandFor(program: Command): Command {
  return {
    name: "postbackd completion",
    description: "Print a script that completes commands and flags in a shell",
    example: "postbackd completion bash > /etc/bash_completion.d/postbackd",
    notes:
      "For zsh, put it into a folder of $fpath as _postbackd; for fish, into\n" +
      "~/.config/fish/completions/postbackd.fish. The script is of this version of the program.",
    args,
    async run(given) {
      const word = textOf(given, "shell");
      const shell = SHELLS.find((known) => known === word);
      if (shell === undefined) {
        throw new UsageError(`there is a script for ${SHELLS.join(", ")}, not for ${quote(word)}`);
      }
      process.stdout.write(completionScript(await readCommandTree(program), shell));
    },
  };
}
