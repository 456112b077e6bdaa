import { RootCommand } from "@bomb.sh/tab";

import { quote } from "../domain/rule.ts";
import { flags, TEXT, word, type Argument } from "./arguments.ts";
import { defineCommand, subCommandsOf, type Command } from "./command.ts";
import { UsageError } from "./failure.ts";

const SHELLS = ["bash", "zsh", "fish", "powershell"] as const;
/** The word for which the scripts of tab run the program, with the words of the command line after `--`. */
const COMPLETE = "complete";

export function completionCommandFor(program: Command): Command {
  return defineCommand({
    description: "Print a script that completes commands and flags in a shell",
    example: "postbackd completion bash > /etc/bash_completion.d/postbackd",
    notes:
      "For bash, the package bash-completion must be installed. For zsh, put the script into a folder of $fpath as\n" +
      "_postbackd; for fish, into ~/.config/fish/completions/postbackd.fish. The script runs postbackd at each Tab.",
    args: {
      shell: { ...word(TEXT, "Shell of the script"), valueHint: SHELLS.join("|") },
      words: { ...flags(TEXT, "For the script"), type: "positional", isRest: true },
    },
    async run({ shell: given, words }) {
      const line = words ?? [];
      if (given === COMPLETE && (await takesPath(program, line))) {
        // tab itself always turns off the shell's own completion of file names.
        process.stdout.write(":0\n");
        return;
      }
      const root = new RootCommand();
      await register(program, root, []);
      if (given === COMPLETE) return root.parse([...line]);
      const shell = SHELLS.find((known) => known === given);
      if (shell === undefined) {
        throw new UsageError(`a script exists for ${SHELLS.join(", ")}, not for ${quote(given)}`);
      }
      root.setup("postbackd", "postbackd completion", shell);
      if (shell === "bash") process.stdout.write(BASH_FILE_NAMES);
    },
  });
}

// The script of tab registers its function without the option that makes bash complete file names.
const BASH_FILE_NAMES = "complete -o default -F __postbackd_complete postbackd\n";

/** Registers all commands. The citty adapter of tab offers words such as LOGIN as flags, and no flag has a value. */
async function register(
  { meta, args, ...command }: Command,
  root: RootCommand,
  words: readonly string[],
): Promise<void> {
  const node = words.length === 0 ? root : root.command(words.join(" "), meta.description);
  for (const [name, { type, description, valueHint }] of Object.entries(args)) {
    const choices = valueHint.includes("|") ? valueHint.split("|") : [];
    const offer: Offer = (complete) => choices.forEach((choice) => complete(choice, ""));
    if (type === "positional") node.argument(name, offer);
    else if (type === "string") node.option(name, description, offer);
    else node.option(name, description);
  }
  node.option("help", "Explain the command");
  if (meta.version !== undefined) node.option("version", "Print the version");
  for (const [name, below] of await subCommandsOf(command)) {
    await register(below, root, [...words, name]);
  }
}

type Offer = (complete: (value: string, description: string) => void) => void;

/** True if the word at the cursor, the last one, is a path. */
async function takesPath(program: Command, line: readonly string[]): Promise<boolean> {
  let command = program;
  for (const each of line) {
    const found = (await subCommandsOf(command)).find(([name]) => name === each);
    command = found?.[1] ?? command;
  }
  const [before = "", current = ""] = ["", ...line].slice(-2);
  const flag = /^--([^=]+)=/.exec(current)?.[1] ?? /^--(.+)$/.exec(before)?.[1] ?? "";
  const given = command.args[flag];
  if (given?.type === "string") return given.valueHint === "PATH";
  const isFile = ({ type, valueHint }: Argument<unknown>): boolean =>
    type === "positional" && valueHint === "PATH";
  return !current.startsWith("-") && Object.values(command.args).some(isFile);
}
