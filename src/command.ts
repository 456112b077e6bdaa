import { nodeProblem } from "./node-version.ts";

// The command of npm's package, which runs on any installed Node: an older Node could not even parse the program.
const problem = nodeProblem("postbackd");
if (problem === null) {
  void import("./main.ts");
} else {
  process.stderr.write(`${problem}\n`);
  process.exitCode = 1;
}
