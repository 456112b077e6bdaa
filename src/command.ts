import { nodeProblem } from "./node-version.ts";

// The command of npm's package, which runs on whatever Node there is: an older one could not even parse the program.
const problem = nodeProblem("postbackd");
if (problem === null) {
  void import("./main.ts");
} else {
  process.stderr.write(`${problem}\n`);
  process.exitCode = 1;
}
