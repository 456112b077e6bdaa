import { programFacts } from "../daemon/program-facts.ts";
import { defineCommand } from "./command.ts";
import { JSON_ARG, printAnswer, tableLines } from "./print.ts";

export const versionCommand = defineCommand({
  description: "Print the version, and the versions of its parts",
  example: "postbackd version --json",
  notes: "'postbackd --version' prints the version alone.",
  args: JSON_ARG,
  run(given) {
    const { version, commit, node, sqlite, schema } = programFacts();
    const parts = { postbackd: version, commit, node, sqlite, schema };
    printAnswer(given, {
      document: { version, commit, node, sqlite, schema },
      lines: tableLines(Object.entries(parts), {
        PART: ([part]) => part,
        VERSION: ([, value]) => value,
      }),
    });
  },
});
