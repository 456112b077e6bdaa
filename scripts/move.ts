import { runCommands } from "./kit/command.ts";

/** Moves a file to a server and back, broken off again and again on the way, and looks whether anything is lost. */
await runCommands("node --import tsx scripts/move.ts", {
  move: () => import("./move/command.ts"),
});
