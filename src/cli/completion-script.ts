import { allCommands, type CommandNode, type ValueNode } from "./command-tree.ts";

/** The shells for which there is a script. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/**
 * A script that completes the commands and flags of a tree, and the values of those that take a path or one of a few
 * words. Everything is in the script: completing never runs the program.
 */
export function completionScript(root: CommandNode, shell: (typeof SHELLS)[number]): string {
  switch (shell) {
    case "bash":
      return bashScript(root);
    case "zsh":
      return zshScript(root);
    case "fish":
      return fishScript(root);
  }
}

function bashScript(root: CommandNode): string {
  return lines(
    "# Completion of postbackd for bash.",
    "_postbackd() {",
    "  local cur prev at words word i",
    "  cur=${COMP_WORDS[COMP_CWORD]}",
    "  prev=${COMP_WORDS[COMP_CWORD - 1]}",
    "  # Bash takes --flag=value for three words.",
    '  if [ "$prev" = "=" ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi',
    '  if [ "$cur" = "=" ]; then cur=; fi',
    "  at=postbackd",
    "  for ((i = 1; i < COMP_CWORD; i++)); do",
    "    word=${COMP_WORDS[i]}",
    '    case "$at $word" in',
    `      ${namesBelow(root).map(quoted).join("|")}) at="$at $word" ;;`,
    "    esac",
    "  done",
    "  COMPREPLY=()",
    "  words=",
    '  case "$at $prev" in',
    ...valueCases(root, {
      path: "compopt -o default 2>/dev/null; return",
      choice: (choices) => `words=${quoted(choices.join(" "))}`,
    }),
    "    *)",
    '      case "$at" in',
    ...allCommands(root).map(bashWords),
    "      esac ;;",
    "  esac",
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    "}",
    "complete -F _postbackd postbackd",
  );
}

function bashWords(node: CommandNode): string {
  const names = node.commands.map(nameOf);
  const choices = node.positionals.flatMap((positional) => positional.choices);
  const flags = flagsOf(node).map(({ name }) => `--${name}`);
  const files = takesPath(node) ? "compopt -o default 2>/dev/null; " : "";
  const words = [...names, ...choices, ...flags].join(" ");
  return `        ${quoted(pathOf(node))}) ${files}words=${quoted(words)} ;;`;
}

function zshScript(root: CommandNode): string {
  return lines(
    "#compdef postbackd",
    "# Completion of postbackd for zsh.",
    "_postbackd() {",
    "  local at=postbackd word i",
    "  local -a names flags",
    "  for ((i = 2; i < CURRENT; i++)); do",
    "    word=${words[i]}",
    '    case "$at $word" in',
    `      ${namesBelow(root).map(quoted).join("|")}) at="$at $word" ;;`,
    "    esac",
    "  done",
    '  case "$at ${words[CURRENT-1]}" in',
    ...valueCases(root, {
      path: "_files; return",
      choice: (choices) => `names=(${choices.map(quoted).join(" ")})`,
    }),
    "    *)",
    '      case "$at" in',
    ...allCommands(root).map(zshWords),
    "      esac ;;",
    "  esac",
    "  _describe argument names",
    "  _describe -o option flags",
    "}",
    'if [ "${funcstack[1]}" = _postbackd ]; then _postbackd "$@"; else compdef _postbackd postbackd; fi',
  );
}

function zshWords(node: CommandNode): string {
  const choices = node.positionals.flatMap((positional) => positional.choices);
  const names = [...node.commands.map((each) => described(nameOf(each), each)), ...choices];
  const flags = flagsOf(node).map((flag) => described(`--${flag.name}`, flag));
  const files = takesPath(node) ? "_files; " : "";
  const lists = `names=(${names.map(quoted).join(" ")}); flags=(${flags.map(quoted).join(" ")})`;
  return `        ${quoted(pathOf(node))}) ${files}${lists} ;;`;
}

// A colon ends the word that is completed.
function described(word: string, { description }: { readonly description: string }): string {
  return `${word}:${description.replaceAll(":", "\\:")}`;
}

function fishScript(root: CommandNode): string {
  return lines(
    "# Completion of postbackd for fish.",
    "function __postbackd_at",
    "    set -l at postbackd",
    "    for word in (commandline -opc)[2..-1]",
    '        switch "$at $word"',
    `            case ${namesBelow(root).map(fishQuoted).join(" ")}`,
    '                set at "$at $word"',
    "        end",
    "    end",
    '    test "$at" = "$argv[1]"',
    "end",
    "complete -c postbackd -f",
    ...allCommands(root).flatMap(fishLines),
  );
}

function fishLines(node: CommandNode): readonly string[] {
  // The path consists only of words of letters and hyphens, so quotes within quotes are safe.
  const here = `complete -c postbackd -n "__postbackd_at '${pathOf(node)}'"`;
  const choices = node.positionals.flatMap((positional) => positional.choices);
  return [
    ...node.commands.map((each) => `${here} -a ${nameOf(each)} -d ${fishQuoted(each.description)}`),
    ...(choices.length === 0 ? [] : [`${here} -a ${fishQuoted(choices.join(" "))}`]),
    ...(takesPath(node) ? [`${here} -F`] : []),
    ...flagsOf(node).map(
      (flag) => `${here} -l ${flag.name}${fishValue(flag)} -d ${fishQuoted(flag.description)}`,
    ),
  ];
}

function fishValue({ takesValue, isPath, choices }: ValueNode): string {
  if (!takesValue) return "";
  if (isPath) return " -r -F";
  return choices.length === 0 ? " -x" : ` -x -a ${fishQuoted(choices.join(" "))}`;
}

const HELP: ValueNode = {
  name: "help",
  description: "Explain the command",
  choices: [],
  isPath: false,
  takesValue: false,
};
const VERSION: ValueNode = { ...HELP, name: "version", description: "Print the version" };

function flagsOf(node: CommandNode): readonly ValueNode[] {
  return [...node.flags, HELP, ...(node.words.length === 0 ? [VERSION] : [])];
}

function takesPath({ positionals }: CommandNode): boolean {
  return positionals.some(({ isPath }) => isPath);
}

function nameOf({ words }: CommandNode): string {
  return words.at(-1) ?? "postbackd";
}

/** The full name, by which the scripts know which command the line has reached. */
function pathOf({ words }: CommandNode): string {
  return ["postbackd", ...words].join(" ");
}

function namesBelow(root: CommandNode): readonly string[] {
  return allCommands(root).slice(1).map(pathOf);
}

/** The cases in bash and zsh for the value of a flag. A name can have other values in another command. */
function valueCases(
  root: CommandNode,
  by: { readonly path: string; readonly choice: (choices: readonly string[]) => string },
): readonly string[] {
  const all = allCommands(root).flatMap((node) => {
    const flags = node.flags.filter(({ takesValue }) => takesValue);
    return flags.map((flag) => ({ at: pathOf(node), flag, action: actionOf(flag, by) }));
  });
  const cases = [...Map.groupBy(all, ({ flag }) => flag.name)].flatMap(([name, group]) => {
    const isSame = new Set(group.map(({ action }) => action)).size === 1;
    return isSame
      ? group.slice(0, 1).map(({ action }) => ({ pattern: `*' --${name}'`, action }))
      : group.map(({ at, action }) => ({ pattern: quoted(`${at} --${name}`), action }));
  });
  return [...Map.groupBy(cases, ({ action }) => action)].map(
    ([action, some]) => `    ${some.map(({ pattern }) => pattern).join("|")}) ${action} ;;`,
  );
}

function actionOf({ isPath, choices }: ValueNode, by: Parameters<typeof valueCases>[1]): string {
  if (isPath) return by.path;
  return choices.length === 0 ? "return" : by.choice(choices);
}

function lines(...all: readonly string[]): string {
  return `${all.join("\n")}\n`;
}

/** For bash and zsh. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, "\\$&")}'`;
}
