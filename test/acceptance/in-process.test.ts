import { runHere } from "../cli/in-process.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { exerciseContract } from "./exercise.ts";

exerciseContract({
  name: "sources",
  async serve(t, options) {
    const { url, file, account } = await startTestDaemon(t, options);
    return { url, file, account, cli: (args) => runHere(t, [...args, "--db", file]) };
  },
  launch: startProgram,
  run: runProgram,
});
