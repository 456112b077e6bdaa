import { writeFileSync } from "node:fs";
import { resolve } from "node:path";

import { sampleFile } from "../config/sample.ts";
import { codeOf, messageOf } from "../domain/message-of.ts";
import { optionalWord, TEXT } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure, UsageError } from "./failure.ts";
import { JSON_ARG, printAnswer } from "./print.ts";

const STANDARD_FILE = "./postbackd.toml";

const FILE = optionalWord(TEXT, `File to make; ${STANDARD_FILE} unless given`);

export const configInitCommand = defineCommand({
  description: "Make a configuration file that explains every setting",
  example: "postbackd config init",
  notes:
    "Every setting is in it with its default, commented out. An existing file is left as it is.",
  args: { file: { ...FILE, hint: "PATH" }, ...JSON_ARG },
  run(given) {
    const file = given.file ?? STANDARD_FILE;
    if (file === "") throw new UsageError("FILE is empty; leave it out or name a file");
    const path = resolve(file);
    writeNew(path);
    printAnswer(given, {
      document: { file: path },
      lines: [`Made ${path}.`, `See what it changes with: postbackd config print --config ${file}`],
    });
  },
});

/** For its owner only: types may get secrets in it later. */
function writeNew(path: string): void {
  try {
    writeFileSync(path, sampleFile(), { flag: "wx", mode: 0o600 });
  } catch (error) {
    const fault =
      codeOf(error) === "EEXIST"
        ? "exists already and is left as it is; name another file"
        : `cannot be written: ${messageOf(error)}`;
    throw new CommandFailure(`${path} ${fault}`, { cause: error });
  }
}
