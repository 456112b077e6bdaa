import { quote } from "../domain/rule.ts";
import { TEXT, word } from "./arguments.ts";
import { readCommandTree } from "./command-tree.ts";
import { defineCommand, type Command } from "./command.ts";
import { completionScript, SHELLS } from "./completion-script.ts";
import { UsageError } from "./failure.ts";

const SHELL = { ...word(TEXT, "Shell to make the script for"), hint: SHELLS.join("|") };

/** `postbackd completion`, for the commands of `program`. */
export function completionCommandFor(program: Command): Command {
  return defineCommand({
    description: "Print a script that completes commands and flags in a shell",
    example: "postbackd completion bash > /etc/bash_completion.d/postbackd",
    notes:
      "For zsh, put it into a folder of $fpath as _postbackd; for fish, into\n" +
      "~/.config/fish/completions/postbackd.fish. The script fits this version of the program.",
    args: { shell: SHELL },
    async run({ shell: given }) {
      const shell = SHELLS.find((known) => known === given);
      if (shell === undefined) {
        throw new UsageError(`there is a script for ${SHELLS.join(", ")}, not for ${quote(given)}`);
      }
      process.stdout.write(completionScript(await readCommandTree(program), shell));
    },
  });
}
