import { startTestDaemon } from "../helpers/daemon.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { exerciseContract } from "./exercise.ts";

exerciseContract({
  name: "sources",
  async serve(t, options) {
    const { url, file, account } = await startTestDaemon(t, options);
    const command = (args: readonly string[]) => runProgram(t, args);
    return { url, file, account, command, cli: (args) => command([...args, "--db", file]) };
  },
  launch: startProgram,
  run: runProgram,
});
