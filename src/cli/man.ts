import { defineCommand, type Command } from "./command.ts";
import { manPage } from "./man-page.ts";

/** `postbackd man`, for the commands of `program`. */
export function manCommandFor(program: Command): Command {
  return defineCommand({
    description: "Print the manual page",
    example: "postbackd man | man -l -",
    async run() {
      process.stdout.write(await manPage(program));
    },
  });
}
